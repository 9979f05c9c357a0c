// The hooks of a learner in a parallel run: it publishes its parameters, and says how far it is.
//
// Threads: as of LearnerHook.
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

// Calls `send`: before and after the run always, in after_iter every `freq` (at least 1)
// train iterations. A batch that gives several iterations sends once, when all its steps are taken,
// if one of them is the freq-th.
class SendHook : public LearnerHook {
 public:
  using Send = std::function<absl::Status(BaseLearner* learner)>;

  SendHook(absl::string_view name, int priority, HookPosition position, int64_t freq, Send send);
  absl::Status Call(BaseLearner* learner) override;

 private:
  const int64_t freq_;
  const Send send_;
};

// Rank 0 publishes the parameters: before_run, so that collectors can begin, and after_iter.
class SendPolicyHook : public SendHook {
 public:
  using SendHook::SendHook;
  absl::Status Call(BaseLearner* learner) override;
};

// Every rank reports BaseLearner::learn_info(), as each has priorities of its own rows: after_iter,
// and after_run with learner_done. Priorities of
// batches in between are not sent: a run with priorities has freq 1.
class SendLearnInfoHook : public SendHook {
 public:
  using SendHook::SendHook;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_PARALLEL_HOOKS_H_
