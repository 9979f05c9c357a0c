// Registers HindsightReplayBuffer as the buffer "hindsight".
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/hindsight_buffer.h"
#include "ding_worker/replay_buffer/hindsight_buffer.pb.h"
#include "ding_worker/replay_buffer/selection/hindsight_source.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {
namespace {

HindsightGoal GoalOf(const HindsightBufferConfig& config) {
  switch (config.goal()) {
    case HindsightBufferConfig::FUTURE:
      return HindsightGoal::kFuture;
    case HindsightBufferConfig::FINAL:
      return HindsightGoal::kFinal;
    case HindsightBufferConfig::EPISODE:
      return HindsightGoal::kEpisode;
  }
  return HindsightGoal::kFuture;
}

absl::StatusOr<std::unique_ptr<IBuffer>> CreateHindsightBuffer(const BufferConfig& config,
                                                               const HindsightBufferConfig& params,
                                                               const BufferDeps& deps) {
  HindsightReplayBuffer::Options options;
  std::vector<std::string> problems;
  ReadCommonOptions(config, deps, &options, &problems);
  options.hindsight = {GoalOf(params), params.relabel_ratio(), params.radius(),
                       static_cast<float>(params.reward_at_goal()),
                       static_cast<float>(params.reward_elsewhere())};
  return CreateBuffer<HindsightReplayBuffer>(options, problems);
}

DING_REGISTER(BufferRegistry(), "hindsight", BufferDescriptor{CreateHindsightBuffer},
              "transitions with goals in hindsight (HER), drawn uniformly");

}  // namespace
}  // namespace ding
