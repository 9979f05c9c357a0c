#include "ding_worker/replay_buffer/episode_buffer.h"

#include <optional>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/ring_options.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {

namespace {

SequenceReplayBuffer::Options WholeEpisodes(const EpisodeReplayBuffer::Options& options) {
  SequenceReplayBuffer::Options sequences;
  static_cast<RingOptions&>(sequences) = options;
  sequences.unroll_len = std::nullopt;
  return sequences;
}

}  // namespace

std::vector<std::string> EpisodeReplayBuffer::Problems(const Options& options) {
  return SequenceReplayBuffer::Problems(WholeEpisodes(options));
}

absl::StatusOr<std::unique_ptr<EpisodeReplayBuffer>> EpisodeReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, Problems(options)));
  return std::unique_ptr<EpisodeReplayBuffer>(
      new EpisodeReplayBuffer(WholeEpisodes(options), options.on_removed));
}

}  // namespace ding
