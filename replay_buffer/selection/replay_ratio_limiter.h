// Bounds on the replay ratio: how many rows are drawn per row pushed, from the beginning of a run on.
//
// Let P be the rows pushed after the first `min_size` ones, and S the rows drawn. Then
//   a draw of n rows is allowed if there are min_size rows and S + n <= max * P
//   a push is allowed               if S + error_buffer >= min * P
// so that a push is judged by the rows that are there already, and its own size does not matter. This is
// Reverb's SampleToInsertRatio (Cassirer et al. 2021, "Reverb: A Framework For Experience Replay", section 3;
// reverb/cc/rate_limiter.h) with an interval instead of one ratio.
//
// A draw and a push are never both refused for good: if error_buffer is at least n,
//   max * P < S + n  and  S + error_buffer < min * P  contradict each other, because min <= max.
// A buffer with too few rows for a draw is not known here: TaskBuffer lets pushes pass then.
//
// ThruputController bounds the same ratio within the last seconds. This one forgets nothing, so that
// a whole run has the ratio; that is what update_per_collect is in a serial run.
//
// Threads: thread-compatible.
// Errors:  kUnavailable for a push, kFailedPrecondition for a draw. The message says what is waited for,
//          with the counts and the bound, as `ctl status` shows it.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_REPLAY_RATIO_LIMITER_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_REPLAY_RATIO_LIMITER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"

namespace ding {

class ReplayRatioLimiter : public IRateLimiter {
 public:
  struct Options {
    double min = 0;  // rows drawn per row pushed; at least 0 and finite
    double max = std::numeric_limits<double>::infinity();  // above 0, at least `min`
    // Rows that are pushed before the first draw; they do not count in the ratio. At least 0.
    int64_t min_size = 0;
    // Rows drawn by which learning may be behind `min` before a push is refused; at least the rows of a
    // draw.
    int64_t error_buffer = 0;
  };

  // Adds a sentence for each option that is out of range. `draw_rows` is the number of rows of one draw.
  static void AppendProblems(const Options& options, int64_t draw_rows,
                             std::vector<std::string>* problems);

  // `options` must have no problems.
  explicit ReplayRatioLimiter(const Options& options) : options_(options) {}

  absl::Status CheckPush(int64_t rows) override;
  absl::Status CheckSample(int64_t rows) override;
  void CountPush(int64_t rows) override { pushed_ += rows; }
  void CountSample(int64_t rows) override { sampled_ += rows; }

  // The counts of a run that goes on.
  void Restore(int64_t pushed, int64_t sampled);
  // Rows drawn per row pushed after the first min_size ones; 0 before.
  double ratio() const;

 private:
  // P of the formulas above.
  double counted() const;
  std::string Counts() const;

  const Options options_;
  int64_t pushed_ = 0;
  int64_t sampled_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_REPLAY_RATIO_LIMITER_H_
