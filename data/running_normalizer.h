// Running statistics: RunningNormalizer normalizes columns, RewardScaler scales rewards.
//
// Shapes: rows [B, width] float32, row-major; statistics are float64.
// Errors: rows of another width are a mistake of the caller and end the program; values must be
//         finite.
// Ownership: values.   Threads: thread-compatible.
#ifndef DING_WORKER_DATA_RUNNING_NORMALIZER_H_
#define DING_WORKER_DATA_RUNNING_NORMALIZER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"

namespace ding {

// Replaces each number by its sum over the processes of a group.
using GroupSum = absl::FunctionRef<absl::Status(absl::Span<double> values)>;

// Keeps the running mean and standard deviation of a stream of rows and normalizes rows by them.
//
// The statistics of a block of rows are merged as if the rows had been added one by one (Chan,
// Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample
// variances", eq. 2.1; Welford 1962 for a block of one). All rows have equal weight.
//
//   Normalize: (x - mean) / sqrt(variance + 1e-8), clipped to +-clip;
//              before the first row x, clipped to +-clip
class RunningNormalizer {
 public:
  // width >= 1, clip > 0.
  RunningNormalizer(int64_t width, double clip);

  // Adds all rows of `values` to the statistics.
  void Update(absl::Span<const float> values);
  // Adds the rows of all processes of a group, which make this call together; each has some of the
  // rows, or none. `sum` replaces numbers by their sums over the group. Returns the errors of
  // `sum`; nothing is changed then.
  absl::Status Update(absl::Span<const float> values, GroupSum sum);
  // Writes the normalized `values` to `out`, which may be the same memory.
  void Normalize(absl::Span<const float> values, absl::Span<float> out) const;

  int64_t width() const { return static_cast<int64_t>(mean_.size()); }
  int64_t count() const { return count_; }
  absl::Span<const double> mean() const { return mean_; }
  // The factors by which Normalize() multiplies differences from the mean.
  absl::Span<const double> scale() const { return scale_; }
  double Variance(int64_t column) const;

  // Writes "count", "mean" and "sum_of_squares".
  absl::Status SaveState(StateWriter* writer) const;
  //   kInvalidArgument  another width, or impossible statistics; nothing is changed
  absl::Status LoadState(StateReader* reader);

 private:
  void ComputeScale();

  double clip_;
  int64_t count_ = 0;
  std::vector<double> mean_;
  std::vector<double> squares_;  // sums of squared deviations from the mean
  std::vector<double> scale_;    // 1 / standard deviation

  // Working memory of Update().
  std::vector<double> block_mean_;
  std::vector<double> block_squares_;
};

// Divides rewards by the running standard deviation of the discounted return, so that values are
// about 1 for any env.
//
//   R_t = r_t + gamma R_(t-1) within an episode of a stream
//   scaled r_t = r_t / sqrt(Var(R) + 1e-8)
//
// Rewards are not centred, because a constant would change the optimal policy. The PPO authors'
// code scales rewards in the same way; see Engstrom et al. 2020 ("Implementation matters in deep
// policy gradients", section 3).
//
// The rows of a call are added to the statistics before they are scaled, so that the first rows are
// scaled too.
class RewardScaler {
 public:
  explicit RewardScaler(double gamma);

  // Scales `reward` [rows of the segments] in place. The segments of a stream must be in order.
  void Scale(absl::Span<const Segment> segments, absl::Span<float> reward);

  // Scales `reward` by the deviation of `statistics` instead, which another process keeps: writes
  // the discounted return of each row to `returns` [rows], for its Update().
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

#endif  // DING_WORKER_DATA_RUNNING_NORMALIZER_H_
