// The progress of a run in one line: counters, values that the run names (return, loss, epsilon),
// the last and best evaluation, the rate of the last seconds, time used and left.
//
//   env_step 12345/50000 (25%)  return 187.4  eval 187.4 best 195  loss 0.0123  eps 0.31
//       train_iter 7715  1234 env_step/s  elapsed 0:10  left 0:31
//
// On a terminal one line is redrawn at most five times a second, in the terminal's current width:
// fields that do not fit are shortened or left out, the least important ones first. Write other
// messages with WriteMessage() (terminal.h), so that they do not mix with the line. Elsewhere (a
// file, a pipe) whole lines are written 1, 2, 4, ... seconds apart, later once a minute. As JSON,
// one object per line is written once a second, and at the end:
//
//   {"env_step":12345,"max_env_step":50000,"train_iter":7715,"max_train_iter":null,"env_steps_per_second":1234,
//    "train_iters_per_second":771.2,"eval":187.4,"best_eval":195,"elapsed_seconds":10.02,"left_seconds":31.5,
//    "values":{"return":187.4,"loss":0.0123},"detail":""}
//
// A number that is missing or not finite is null.
//
// Ownership: the clock and the callbacks' objects must outlive the Progress, or the call of
//            Finish().
// Threads:   thread-safe; the callbacks are called under a lock, one at a time.
// Errors:    none; output that cannot be written is lost.
//
// Example:
//   ProgressOptions options = ProgressTo(stderr);
//   options.max_env_step = 50000;
//   Progress progress(options);
//   progress.Update({env_step, train_iter, eval_value, best_value});    // in the loop
//   progress.Finish();
#ifndef DING_WORKER_METRICS_PROGRESS_H_
#define DING_WORKER_METRICS_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/terminal.h"

namespace ding {

struct ProgressState {
  int64_t env_step = 0;
  int64_t train_iter = 0;
  // The last and best return of the evaluator, once there is one.
  std::optional<double> last_eval;
  std::optional<double> best_eval;
  std::string
      // shown as the last field; of "evaluating (...) ...", the first word also where space is
      // short
      detail;
};

// Names and values that are shown, the most important first.
using ProgressValue = std::pair<std::string, double>;
using ProgressValues = std::vector<ProgressValue>;

enum class ProgressStyle {
  kLine,   // one line that is drawn over, for terminals
  kPlain,  // lines for people
  kJson,   // lines of JSON for programs
  kOff,
};

struct ProgressOptions {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // The limits of the run; the time left is the time until the first of the two is reached.
  int64_t max_env_step = kNoLimit;
  int64_t max_train_iter = kNoLimit;
  // False if the run takes no env steps: its rate is in train iterations.
  bool has_env_steps = true;
  // The counters when the run began; a resumed run does not begin at 0.
  ProgressState start;

  // Seconds after which the run ends, from the creation of the Progress; infinite: no limit.
  double max_seconds = std::numeric_limits<double>::infinity();
  // Called when the progress is shown, by the thread that calls Update() or Finish().
  std::function<ProgressValues()> values = [] { return ProgressValues(); };

  // Writes the text, which includes control characters.
  std::function<void(absl::string_view)> write;
  ProgressStyle style = ProgressStyle::kPlain;
  bool colors = false;  // only of kLine
  // The columns of the terminal; called for each line, since a window can be resized.
  std::function<int()> width = [] { return 80; };
  const Clock* clock = Clock::Real();
};

// Options that write to `stream`, which must outlive the Progress: a line with colours if it is a
// terminal that can show them.
ProgressOptions ProgressTo(std::FILE* stream);

class Progress {
 public:
  // `options.write` must be set.
  explicit Progress(ProgressOptions options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Calls Finish().
  ~Progress();

  // Notes `state`, and shows it if an update is due. Cheap otherwise.
  void Update(const ProgressState& state) ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes the line from the terminal, so that something else can be written. The next Update()
  // that is due draws it again. WriteMessage() (terminal.h) does not need this.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

  // Shows the last state and leaves the cursor at the beginning of a new line. Later calls of any
  // method do nothing.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Sample {
    int64_t nanos;
    int64_t env_step;
    int64_t train_iter;
  };

  // The changes within the window of the rate.
  struct Pace {
    double seconds = 0;
    int64_t env_steps = 0;
    int64_t train_iters = 0;
  };

  void Show(int64_t now_nanos) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSample(int64_t now_nanos) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns nothing if too little time has passed to know the pace.
  std::optional<Pace> PaceAt(int64_t now_nanos) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<double> SecondsLeft(int64_t now_nanos) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double SecondsSinceStart(int64_t now_nanos) const;
  std::vector<ProgressField> Fields(int64_t now_nanos) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Json(int64_t now_nanos) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The columns that a line may take now.
  size_t Columns() const;
  void DrawOver(const ProgressLine& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ProgressOptions options_;
  const int64_t start_nanos_;

  Mutex mutex_;
  ProgressState state_ ABSL_GUARDED_BY(mutex_);
  // Samples of the last seconds, for the rate; never empty.
  std::deque<Sample> samples_ ABSL_GUARDED_BY(mutex_);
  int64_t interval_nanos_ ABSL_GUARDED_BY(mutex_);
  int64_t next_show_nanos_ ABSL_GUARDED_BY(mutex_);
  // The number of columns that the drawn text takes.
  size_t drawn_columns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_PROGRESS_H_
