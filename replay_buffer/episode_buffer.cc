#include "ding_worker/replay_buffer/episode_buffer.h"

#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer_checks.h"

namespace ding {

namespace {

SequenceReplayBuffer::Options WholeEpisodes(const EpisodeReplayBuffer::Options& options) {
  SequenceReplayBuffer::Options sequences;
  sequences.capacity_rows = options.capacity_rows;
  sequences.capacity_bytes = options.capacity_bytes;
  sequences.nstep = options.nstep;
  sequences.gamma = options.gamma;
  sequences.unroll_len = std::nullopt;
  sequences.seed = options.seed;
  sequences.name = options.name;
  sequences.metrics = options.metrics;
  sequences.periodic_thruput_seconds = options.periodic_thruput_seconds;
  sequences.clock = options.clock;
  sequences.selector = options.selector;
  return sequences;
}

}  // namespace

std::vector<std::string> EpisodeReplayBuffer::Problems(const Options& options) {
  return SequenceReplayBuffer::Problems(WholeEpisodes(options));
}

absl::StatusOr<std::unique_ptr<EpisodeReplayBuffer>> EpisodeReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, Problems(options)));
  return std::unique_ptr<EpisodeReplayBuffer>(new EpisodeReplayBuffer(WholeEpisodes(options)));
}

}  // namespace ding
