// Limits on pushes and draws: the interface (IRateLimiter), and the bounds on their ratio in a
// whole run (ReplayRatioLimiter) or in the last seconds (ThruputController).
//
// Threads: thread-compatible; called under the buffer's lock.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_RATE_LIMITER_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_RATE_LIMITER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/clock.h"

namespace ding {

// Decides whether a buffer may be pushed to, or drawn from, right now.
//
// Ownership: a buffer owns its limiter.
// Errors:    a refusal says what was requested and what is allowed. After a refusal the buffer asks
//            again until its max_wait has passed, and then returns the refusal to its caller.
class IRateLimiter {
 public:
  virtual ~IRateLimiter() = default;

  // Returns kUnavailable if `rows` rows must not be pushed now.
  virtual absl::Status CheckPush(int64_t rows) = 0;
  // Returns kFailedPrecondition if `rows` rows must not be drawn now.
  virtual absl::Status CheckSample(int64_t rows) = 0;
  // Count rows that were pushed or drawn, after the check has allowed it.
  virtual void CountPush(int64_t rows) = 0;
  virtual void CountSample(int64_t rows) = 0;
};

// Bounds on the replay ratio: how many rows are drawn per row pushed, from the beginning of a run
// on.
//
// Let P be the rows pushed after the first `min_size` ones, and S the rows drawn. Then
//   a draw of n rows is allowed if there are min_size rows and S + n <= max * P
//   a push is allowed               if S + error_buffer >= min * P
// so that a push is judged by the rows that are there already, and its own size does not matter.
// This is Reverb's SampleToInsertRatio (Cassirer et al. 2021, "Reverb: A Framework For Experience
// Replay", section 3; reverb/cc/rate_limiter.h) with an interval instead of one ratio.
//
// A draw and a push are never both refused for good: if error_buffer is at least n,
//   max * P < S + n  and  S + error_buffer < min * P  contradict each other, because min <= max.
// The limiter does not know whether the buffer has too few rows for a draw: TaskBuffer lets pushes
// pass then.
//
// ThruputController bounds the same ratio within the last seconds. ReplayRatioLimiter forgets
// nothing, so that the whole run has the ratio, as update_per_collect gives it in a serial run.
//
// Errors:  kUnavailable for a push, kFailedPrecondition for a draw. The message says what is waited
//          for, with the counts and the bound, as `ctl status` shows it.
class ReplayRatioLimiter : public IRateLimiter {
 public:
  struct Options {
    double min = 0;  // rows drawn per row pushed; at least 0 and finite
    double max = std::numeric_limits<double>::infinity();  // above 0, at least `min`
    // Rows that are pushed before the first draw; they do not count in the ratio. At least 0.
    int64_t min_size = 0;
    // Rows drawn by which learning may be behind `min` before a push is refused; at least the rows
    // of a draw.
    int64_t error_buffer = 0;
  };

  // Adds a sentence for each option that is out of range. `draw_rows` is the number of rows of one
  // draw.
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

// Limits how many rows may be pushed per row drawn, so that neither pushing nor drawing runs too
// far ahead.
//
// Pushed and drawn rows are counted, and both counts fade: after `window_seconds` a row counts 1 %.
// Let P be the faded count of pushed rows and S the faded count of drawn rows. Then
//   a push of n rows is allowed if S < 1e-5 or (P + n) / S <= max_push_sample_ratio
//   a draw of n rows is allowed if P / (S + n) >= min_push_sample_ratio
// There is no thread: each call lets the counts fade by the time that has passed since the previous
// call.
//
// Errors:  kUnavailable for a push, kFailedPrecondition for a draw, with the ratio and its limit.
class ThruputController : public IRateLimiter {
 public:
  struct Options {
    double max_push_sample_ratio = std::numeric_limits<double>::infinity();  // above 0
    double min_push_sample_ratio = 0;  // at least 0, at most the maximum
    double window_seconds = 30;        // above 0
  };

  // Adds a sentence for each option that is out of range.
  static void AppendProblems(const Options& options, std::vector<std::string>* problems);

  // `options` must have no problems, and `clock` must outlive the controller.
  ThruputController(const Options& options, const Clock* clock);

  absl::Status CheckPush(int64_t rows) override;
  absl::Status CheckSample(int64_t rows) override;
  void CountPush(int64_t rows) override;
  void CountSample(int64_t rows) override;

  // Forgets what was pushed and drawn.
  void Reset();

 private:
  void Fade();

  const Options options_;
  const Clock* const clock_;
  int64_t last_nanos_;
  double pushed_ = 0;
  double sampled_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_RATE_LIMITER_H_
