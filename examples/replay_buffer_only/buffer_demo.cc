// A trainer of one's own that takes only the replay buffer from ding_worker: fills it with one
// episode and draws from it.

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace {

// One episode of ten steps in which obs counts up, ended by a time limit.
ding::SegmentBatch Episode() {
  const ding::SpecPtr rows = *ding::MakeSpec({ding::Box("obs", {1}), ding::Discrete("action", 2),
                                              ding::Scalar("reward", ding::DType::kFloat32),
                                              ding::Scalar("collect_iter", ding::DType::kInt64)});
  const ding::SpecPtr obs = *ding::MakeSpec({ding::Box("obs", {1})});
  ding::BatchBuilder builder = *ding::BatchBuilder::Create(rows, 10);
  for (int i = 0; i < 10; ++i) {
    builder.column<float>(0)[i] = static_cast<float>(i);
    builder.column<int64_t>(1)[i] = i % 2;
    builder.column<float>(2)[i] = 1;
    builder.column<int64_t>(3)[i] = 0;
  }
  ding::BatchBuilder final_obs = *ding::BatchBuilder::Create(obs, 1);
  final_obs.column<float>(0)[0] = 10;

  ding::SegmentBatch episode;
  episode.rows = std::move(builder).Seal(10);
  episode.final_obs = std::move(final_obs).Seal(1);
  ding::Segment segment;
  segment.length = 10;
  segment.end = ding::SegmentEnd::kTruncated;
  episode.segments.push_back(segment);
  return episode;
}

absl::Status Run() {
  ding::NaiveReplayBuffer::Options options;
  options.capacity_rows = 100;
  options.nstep = 3;
  options.gamma = 0.5;
  absl::StatusOr<std::unique_ptr<ding::NaiveReplayBuffer>> buffer =
      ding::NaiveReplayBuffer::Create(options);
  if (!buffer.ok()) return buffer.status();
  absl::Status pushed = (*buffer)->Push(Episode(), /*cur_collector_envstep=*/10);
  if (!pushed.ok()) return pushed;
  absl::StatusOr<ding::Batch> batch = (*buffer)->Sample(4, /*cur_learner_iter=*/0);
  if (!batch.ok()) return batch.status();
  for (int64_t i = 0; i < batch->rows(); ++i) {
    std::printf("obs %g -> next_obs %g after %d steps, reward %g, discount %g\n",
                batch->column<float>("obs")[i], batch->column<float>("next_obs")[i],
                batch->column<int32_t>("n_step")[i], batch->column<float>("reward")[i],
                batch->column<float>("discount")[i]);
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
