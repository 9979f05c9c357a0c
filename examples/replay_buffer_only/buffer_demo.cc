// A trainer of one's own that takes only the replay buffer from ding_worker: fills it with one
// episode and draws from it.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/data/segment.h"
#include "ding_worker/data/transition.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace {

// One episode of ten steps in which obs counts up, ended by a time limit.
std::vector<ding::Transition> Episode() {
  std::vector<ding::Transition> steps(10);
  for (int i = 0; i < 10; ++i) {
    steps[i].Set("obs", {1.0 * i}).Set("action", i % 2).Set("reward", 1.0);
  }
  steps[9].Set("next_obs", {10.0}).end = ding::SegmentEnd::kTruncated;
  return steps;
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
