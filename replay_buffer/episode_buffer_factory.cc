// Registers EpisodeReplayBuffer as the buffer "episode".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_config.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/episode_buffer.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {
namespace {

constexpr char kName[] = "episode";

absl::StatusOr<std::unique_ptr<IBuffer>> CreateEpisodeBuffer(const BufferConfig& config,
                                                             const BufferDeps& deps) {
  EpisodeReplayBuffer::Options options;
  std::vector<std::string> problems;
  ReadCommonOptions(config, deps, &options, &problems);
  options.on_removed = deps.on_removed;
  for (std::string& problem : EpisodeReplayBuffer::Problems(options)) {
    problems.push_back(std::move(problem));
  }
  ReadBufferConfig(config, /*params=*/nullptr, &problems);
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, problems));
  return EpisodeReplayBuffer::Create(options);
}

BufferDescriptor EpisodeBufferDescriptor() {
  BufferDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.create = CreateEpisodeBuffer;
  descriptor.tells_removed_items = true;
  descriptor.items = [](const BufferConfig& config) {
    ItemBuffer items;
    items.config = config;
    items.sequences.whole_episodes = true;
    return items;
  };
  return descriptor;
}

DING_REGISTER(BufferRegistry(), kName, EpisodeBufferDescriptor(),
              "whole episodes, padded to the longest of a draw");

}  // namespace
}  // namespace ding
