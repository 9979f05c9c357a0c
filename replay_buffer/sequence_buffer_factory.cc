// Registers SequenceReplayBuffer as the buffer "sequence", and EpisodeReplayBuffer as "episode".

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/items.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<IBuffer>> CreateSequenceBuffer(const BufferConfig& config,
                                                              const SequenceBufferConfig& params,
                                                              const BufferDeps& deps) {
  std::vector<std::string> problems;
  SequenceReplayBuffer::Options options;
  ReadCommonOptions(config, deps, &options, &problems);
  options.unroll_len = params.unroll_len();
  options.burn_in = params.burn_in();
  if (params.has_overlap()) options.overlap = params.overlap();
  options.padding = params.padding();
  options.cross_episodes = params.cross_episodes();
  if (params.has_priority()) ReadPriorityOptions(params.priority(), &options.priority.emplace());
  return CreateBuffer<SequenceReplayBuffer>(options, problems);
}

// A capacity of n rows becomes n / (unroll_len - overlap) items, at least 1; a capacity in bytes
// stays, and counts items.
absl::StatusOr<ItemBuffer> SequenceItems(const BufferConfig& config) {
  SequenceBufferConfig params;
  if (!config.params().UnpackTo(&params)) params.Clear();
  if (params.cross_episodes()) {
    return absl::InvalidArgumentError(
        "params.cross_episodes is true, but a sequence of a parallel run lies within one episode: "
        "expected false; set padding to learn from the ends of episodes");
  }
  ItemBuffer items;
  items.sequences.length = params.unroll_len();
  items.sequences.overlap = params.has_overlap() ? params.overlap() : params.unroll_len() - 1;
  items.sequences.burn_in = params.burn_in();
  items.sequences.padding = params.padding();
  items.config = config;
  items.config.clear_params();
  items.config.set_type("naive");
  if (params.has_priority()) {
    AdvancedBufferConfig priority;
    priority.set_alpha(params.priority().alpha());
    priority.set_beta(params.priority().beta());
    priority.set_anneal_step(params.priority().anneal_step());
    items.config.set_type("advanced");
    items.config.mutable_params()->PackFrom(priority);
  }
  if (!config.has_replay_buffer_bytes()) {
    items.config.set_replay_buffer_size(
        std::max<int64_t>(1, config.replay_buffer_size() / items.sequences.period()));
  }
  return items;
}

DING_REGISTER(BufferRegistry(), "sequence",
              (BufferDescriptor{CreateSequenceBuffer, /*tells_removed_items=*/false,
                                /*takes_remover=*/false, SequenceItems}),
              "sequences of consecutive rows of one stream, for recurrent policies");

absl::StatusOr<std::unique_ptr<IBuffer>> CreateEpisodeBuffer(const BufferConfig& config,
                                                             const NoParams& /*params*/,
                                                             const BufferDeps& deps) {
  EpisodeReplayBuffer::Options options;
  std::vector<std::string> problems;
  ReadCommonOptions(config, deps, &options, &problems);
  options.on_removed = deps.on_removed;
  return CreateBuffer<EpisodeReplayBuffer>(options, problems);
}

absl::StatusOr<ItemBuffer> EpisodeItems(const BufferConfig& config) {
  ItemBuffer items;
  items.config = config;
  items.sequences.whole_episodes = true;
  return items;
}

DING_REGISTER(BufferRegistry(), "episode",
              (BufferDescriptor{CreateEpisodeBuffer, /*tells_removed_items=*/true,
                                /*takes_remover=*/false, EpisodeItems}),
              "whole episodes, padded to the longest of a draw");

}  // namespace
}  // namespace ding
