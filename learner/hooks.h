// The usual hooks of a learner; SendHook and its derived classes are for parallel runs.
//
// Threads: as LearnerHook.
#ifndef DING_WORKER_LEARNER_HOOKS_H_
#define DING_WORKER_LEARNER_HOOKS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/learner/hook.h"

namespace ding {

// The priority of the hooks that short forms of the config create.
inline constexpr int kDefaultHookPriority = 20;
// The priority of LogReduceHook. It is lower than kDefaultHookPriority, so that values are averaged
// over the learners before they are logged.
inline constexpr int kLogReduceHookPriority = 10;

// Loads policy, optimizer and counters from the checkpoint at `path`; does nothing if it is empty.
class LoadCkptHook : public LearnerHook {
 public:
  LoadCkptHook(absl::string_view name, int priority, HookPosition position, std::string path);
  absl::Status Call(LearnerView* learner) override;

 private:
  const std::string path_;
};

// Saves a checkpoint, on rank 0 only: every `freq` train iterations at *_iter positions, every time
// at other positions, never at iteration 0.
class SaveCkptHook : public LearnerHook {
 public:
  SaveCkptHook(absl::string_view name, int priority, HookPosition position, int64_t freq);
  absl::Status Call(LearnerView* learner) override;

 private:
  const int64_t freq_;
};

// Saves the checkpoint kResumeCheckpoint, from which a killed learner resumes, on rank 0 only,
// after the last step of a batch. During the first `period` it saves after the first batch and then
// every second, or every 20 times the duration of a save if that is longer. Afterwards it saves
// once per `period`. Its position is after_iter.
class SavePeriodicallyHook : public LearnerHook {
 public:
  SavePeriodicallyHook(absl::string_view name, int priority, HookPosition position,
                       absl::Duration period);
  absl::Status Call(LearnerView* learner) override;

 private:
  // The time from the last save to the next one.
  absl::Duration CurrentPeriod() const;

  const absl::Duration period_;
  std::optional<Timer> since_first_;
  std::optional<Timer> since_save_;
  absl::Duration last_save_ = absl::ZeroDuration();  // how long it took
};
inline constexpr char kResumeCheckpoint[] = "learner_resume";

// Adds the reported values of each iteration to the monitor. Every `freq` train iterations it
// writes the averages to the log and the metric sink: `<name>_iter/<var>_avg` by train iteration
// and `<name>_step/<var>_avg` by env step, as MetricSink::axis() says. Histograms and grouped
// scalars of that iteration go to one of the two axes: `<name>_iter/<histogram>` or
// `<name>_step/<histogram>`.
class LogShowHook : public LearnerHook {
 public:
  LogShowHook(absl::string_view name, int priority, HookPosition position, int64_t freq);
  absl::Status Call(LearnerView* learner) override;

 private:
  const int64_t freq_;
};

// Replaces every reported scalar by its mean over the ranks, except names that begin with
// "noreduce_". All ranks must report the same names.
class LogReduceHook : public LearnerHook {
 public:
  LogReduceHook(absl::string_view name, int priority, HookPosition position);
  absl::Status Call(LearnerView* learner) override;
};

// The base of the hooks by which a learner in a parallel run publishes its parameters and reports
// its progress.
//
// In before_run and after_run it calls `send` every time, in after_iter every `freq` (at least 1)
// train iterations. A batch of several iterations sends at most once, after its last step, if one
// of its iterations is a multiple of `freq`. The position before_iter is a mistake of the caller
// and ends the program.
//
// Example:
//   for (const HookPosition position : {HookPosition::kBeforeRun, HookPosition::kAfterIter}) {
//     learner->RegisterHook(std::make_shared<SendPolicyHook>("send_policy", 100, position, 1, send));
//   }
class SendHook : public LearnerHook {
 public:
  using Send = std::function<absl::Status(LearnerView* learner)>;

  SendHook(absl::string_view name, int priority, HookPosition position, int64_t freq, Send send);
  absl::Status Call(LearnerView* learner) override;

 private:
  const int64_t freq_;
  const Send send_;
};

// Publishes the parameters, on rank 0 only. It is registered at before_run, so that collectors can
// begin, and at after_iter.
class SendPolicyHook : public SendHook {
 public:
  using SendHook::SendHook;
  absl::Status Call(LearnerView* learner) override;
};

// Reports LearnerView::learn_info(): in after_iter, and in after_run with learner_done. It reports
// on every rank, because each rank has the priorities of its own rows. It skips the priorities of
// batches that it does not report, so a run with priorities needs freq 1.
class SendLearnInfoHook : public SendHook {
 public:
  using SendHook::SendHook;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_HOOKS_H_
