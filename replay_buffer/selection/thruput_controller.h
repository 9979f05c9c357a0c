// Limits how many rows may be pushed per row drawn, so that neither pushing nor drawing runs too far ahead.
//
// Pushed and drawn rows are counted, and both counts fade: after `window_seconds` a row counts 1 %. Let P be
// the faded count of pushed rows and S that of drawn rows. Then
//   a push of n rows is allowed if S < 1e-5 or (P + n) / S <= max_push_sample_ratio
//   a draw of n rows is allowed if P / (S + n) >= min_push_sample_ratio
// There is no thread: each call lets the counts fade by the time that has passed since the previous call.
//
// Threads: thread-compatible: the buffer's lock is held for every call.
// Errors:  kUnavailable for a push, kFailedPrecondition for a draw, with the ratio and its limit.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_THRUPUT_CONTROLLER_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_THRUPUT_CONTROLLER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"

namespace ding {

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

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_THRUPUT_CONTROLLER_H_
