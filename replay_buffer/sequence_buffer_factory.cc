// Registers SequenceReplayBuffer as the buffer "sequence".
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
#include "ding_worker/replay_buffer/sequence_buffer.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {
namespace {

constexpr char kName[] = "sequence";

absl::StatusOr<std::unique_ptr<IBuffer>> CreateSequenceBuffer(const BufferConfig& config,
                                                              const BufferDeps& deps) {
  std::vector<std::string> problems;
  SequenceBufferConfig params;
  ReadBufferConfig(config, &params, &problems);
  SequenceReplayBuffer::Options options;
  ReadCommonOptions(config, deps, &options, &problems);
  options.unroll_len = params.unroll_len();
  options.burn_in = params.burn_in();
  if (params.has_overlap()) options.overlap = params.overlap();
  options.padding = params.padding();
  options.cross_episodes = params.cross_episodes();
  if (params.has_priority()) ReadPriorityOptions(params.priority(), &options.priority.emplace());
  for (std::string& problem : SequenceReplayBuffer::Problems(options)) {
    problems.push_back(std::move(problem));
  }
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, problems));
  return SequenceReplayBuffer::Create(options);
}

BufferDescriptor SequenceBufferDescriptor() {
  BufferDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.default_config.mutable_params()->PackFrom(SequenceBufferConfig());
  descriptor.create = CreateSequenceBuffer;
  return descriptor;
}

DING_REGISTER(BufferRegistry(), kName, SequenceBufferDescriptor(),
              "sequences of consecutive rows of one stream, for recurrent policies",
              &SequenceBufferConfig::descriptor);

}  // namespace
}  // namespace ding
