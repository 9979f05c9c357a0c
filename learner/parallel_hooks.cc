#include "ding_worker/learner/parallel_hooks.h"

#include <utility>

#include "ding_worker/base/check.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/process_group.h"

namespace ding {

SendHook::SendHook(absl::string_view name, int priority, HookPosition position, int64_t freq,
                   Send send)
    : LearnerHook(name, priority, position), freq_(freq), send_(std::move(send)) {
  DING_CHECK(freq_ >= 1) << "hook '" << this->name() << "' has frequency " << freq_;
  DING_CHECK(position != HookPosition::kBeforeIter)
      << "hook '" << this->name() << "' is at before_iter, where nothing is new";
}

absl::Status SendHook::Call(ILearner* learner) {
  if (position() == HookPosition::kAfterIter) {
    if (!learner->at_end_of_batch()) return absl::OkStatus();
    if (learner->train_iter() / freq_ == learner->batch_begin_iter() / freq_) {
      return absl::OkStatus();
    }
  }
  return send_(learner);
}

absl::Status SendPolicyHook::Call(ILearner* learner) {
  return learner->group()->rank() == 0 ? SendHook::Call(learner) : absl::OkStatus();
}

}  // namespace ding
