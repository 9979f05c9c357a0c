// The hooks that a learner usually has.
//
// Threads: as of LearnerHook.
#ifndef DING_WORKER_LEARNER_HOOKS_H_
#define DING_WORKER_LEARNER_HOOKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/learner/hook.h"

namespace ding {

// Priority of the hooks that the short forms of the config make.
inline constexpr int kDefaultHookPriority = 20;
// Values are averaged over the learners before they are logged.
inline constexpr int kLogReduceHookPriority = 10;

// Loads policy, optimizer and counters from the checkpoint at `path`, or nothing if that is empty.
class LoadCkptHook : public LearnerHook {
 public:
  LoadCkptHook(absl::string_view name, int priority, HookPosition position, std::string path);
  absl::Status Call(BaseLearner* learner) override;

 private:
  const std::string path_;
};

// Rank 0 saves a checkpoint every `freq` train iterations, at other positions than the *_iter ones
// every time. Not at iteration 0.
class SaveCkptHook : public LearnerHook {
 public:
  SaveCkptHook(absl::string_view name, int priority, HookPosition position, int64_t freq);
  absl::Status Call(BaseLearner* learner) override;

 private:
  const int64_t freq_;
};

// Rank 0 saves the checkpoint kResumeCheckpoint, in the place of the one before, when `period` has
// passed since the last time, or since the first call: what a learner that was killed goes on from.
// Only when all steps of a batch are taken. In after_iter.
class SavePeriodicallyHook : public LearnerHook {
 public:
  SavePeriodicallyHook(absl::string_view name, int priority, HookPosition position,
                       absl::Duration period);
  absl::Status Call(BaseLearner* learner) override;

 private:
  const absl::Duration period_;
  std::optional<Timer> since_save_;
};
inline constexpr char kResumeCheckpoint[] = "learner_resume";

// Adds what each iteration reported to the monitor; every `freq` train iterations writes the
// averages to the log and the metric sink: `<name>_iter/<var>_avg` by train iteration,
// `<name>_step/<var>_avg` by env step, and the histograms and grouped scalars of that iteration
// below `<name>/`.
class LogShowHook : public LearnerHook {
 public:
  LogShowHook(absl::string_view name, int priority, HookPosition position, int64_t freq);
  absl::Status Call(BaseLearner* learner) override;

 private:
  const int64_t freq_;
};

// Replaces every scalar that the iteration reported by its mean over the ranks, but for names that
// begin with "noreduce_". All ranks must report the same names.
class LogReduceHook : public LearnerHook {
 public:
  LogReduceHook(absl::string_view name, int priority, HookPosition position);
  absl::Status Call(BaseLearner* learner) override;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_HOOKS_H_
