#include "ding_worker/replay_buffer/episode_buffer.h"

#include "ding_worker/base/status_macros.h"

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
  DING_ASSIGN_OR_RETURN(std::unique_ptr<SequenceReplayBuffer> made,
                        SequenceReplayBuffer::Create(WholeEpisodes(options)));
  return std::unique_ptr<EpisodeReplayBuffer>(new EpisodeReplayBuffer(std::move(made)));
}

absl::Status EpisodeReplayBuffer::Push(const SegmentBatch& data, int64_t cur_collector_envstep) {
  return sequences_->Push(data, cur_collector_envstep);
}

absl::StatusOr<Batch> EpisodeReplayBuffer::Sample(int64_t size, int64_t cur_learner_iter,
                                                  const SampleOptions& options) {
  return sequences_->Sample(size, cur_learner_iter, options);
}

absl::Status EpisodeReplayBuffer::Update(const PriorityInfo& info) {
  return sequences_->Update(info);
}

void EpisodeReplayBuffer::Clear() { sequences_->Clear(); }

int64_t EpisodeReplayBuffer::count() const { return sequences_->count(); }

int64_t EpisodeReplayBuffer::push_count() const { return sequences_->push_count(); }

StateSnapshot EpisodeReplayBuffer::Snapshot() const { return sequences_->Snapshot(); }

absl::Status EpisodeReplayBuffer::LoadState(StateReader* reader) {
  return sequences_->LoadState(reader);
}

std::vector<int64_t> EpisodeReplayBuffer::episode_len() const {
  return sequences_->SequenceLengths();
}

}  // namespace ding
