// Divides rewards by the running standard deviation of the discounted return, so that values are about
// 1 for any env.
//
//   R_t = r_t + gamma R_(t-1) within an episode of a stream
//   scaled r_t = r_t / sqrt(Var(R) + 1e-8)
//
// Rewards are not centred, because a constant would change the optimal policy. The PPO authors' code
// scales rewards in the same way; see Engstrom et al. 2020 ("Implementation matters in deep policy
// gradients", section 3).
//
// The rows of a call are added to the statistics before they are scaled, so that the first rows are
// scaled too.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_DATA_REWARD_SCALER_H_
#define DING_WORKER_DATA_REWARD_SCALER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"

namespace ding {

class RewardScaler {
 public:
  explicit RewardScaler(double gamma);

  // Scales `reward` [rows of the segments] in place. The segments of a stream must be in order.
  void Scale(absl::Span<const Segment> segments, absl::Span<float> reward);

  // Scales `reward` by the deviation of `statistics` instead, which another process keeps: writes the discounted return of
  // each row to `returns` [rows], for its Update().
  void ScaleBy(const RunningNormalizer& statistics, absl::Span<const Segment> segments,
               absl::Span<float> reward, absl::Span<float> returns);

  // Save and load the statistics and the running return of each stream.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  // Computes returns_.
  void ComputeReturns(absl::Span<const Segment> segments, absl::Span<const float> reward);

  double gamma_;
  RunningNormalizer statistics_;
  std::map<int64_t, double> running_;  // by stream
  std::vector<float> returns_;         // working space
};

}  // namespace ding

#endif  // DING_WORKER_DATA_REWARD_SCALER_H_
