// The hooks of a learner in a parallel run: they publish its parameters and report its progress.
//
// Threads: as LearnerHook.
//
// Example:
//   for (const HookPosition position : {HookPosition::kBeforeRun, HookPosition::kAfterIter}) {
//     learner->RegisterHook(std::make_shared<SendPolicyHook>("send_policy", 100, position, 1, send));
//   }
#ifndef DING_WORKER_LEARNER_PARALLEL_HOOKS_H_
#define DING_WORKER_LEARNER_PARALLEL_HOOKS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/learner/hook.h"

namespace ding {

// Calls `send` at its position: every time in before_run and after_run, every `freq` (at least 1) train
// iterations in after_iter. A batch of several iterations sends at most once, after its last step, if
// one of its iterations is a multiple of `freq`. The position before_iter is refused: it ends the
// program.
class SendHook : public LearnerHook {
 public:
  using Send = std::function<absl::Status(ILearner* learner)>;

  SendHook(absl::string_view name, int priority, HookPosition position, int64_t freq, Send send);
  absl::Status Call(ILearner* learner) override;

 private:
  const int64_t freq_;
  const Send send_;
};

// Publishes the parameters, on rank 0 only. It is registered at before_run, so that collectors can begin,
// and at after_iter.
class SendPolicyHook : public SendHook {
 public:
  using SendHook::SendHook;
  absl::Status Call(ILearner* learner) override;
};

// Reports ILearner::learn_info() on every rank, as each has the priorities of its own rows: in
// after_iter, and in after_run with learner_done. Priorities of batches in between are not sent, so a
// run with priorities needs freq 1.
class SendLearnInfoHook : public SendHook {
 public:
  using SendHook::SendHook;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_PARALLEL_HOOKS_H_
