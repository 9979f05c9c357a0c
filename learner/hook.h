// Hooks: small objects that a learner calls at fixed positions, to load, save, log and so on.
//
//     before_run ─► ( before_iter ─► learn ─► after_iter )* ─► after_run
//                               after_eval, between two batches, with LearnerView::run_signals()
//
// Hooks of one position run from the lowest priority to the highest, hooks of equal priority in the
// order in which they were added.
//
// Ownership: a learner shares its hooks with the code that created them.
// Threads:   hooks run on the learner's thread.
// Errors:    an error of a hook ends the run and names the hook.
//
// Example: a hook of a user.
//   class ReportHook : public LearnerHook {
//    public:
//     ReportHook() : LearnerHook("report", /*priority=*/50, HookPosition::kAfterIter) {}
//     absl::Status Call(LearnerView* learner) override { ... learner->train_iter() ... }
//   };
#ifndef DING_WORKER_LEARNER_HOOK_H_
#define DING_WORKER_LEARNER_HOOK_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ding {

class LearnerView;

enum class HookPosition {
  kBeforeRun = 0,
  kAfterRun = 1,
  kBeforeIter = 2,
  kAfterIter = 3,
  kAfterEval = 4,  // after each evaluation in which the policy plays
};
inline constexpr int kNumHookPositions = 5;

// "before_run", "after_run", "before_iter", "after_iter", "after_eval".
absl::string_view HookPositionName(HookPosition position);

class LearnerHook {
 public:
  // `priority` is at least 0.
  LearnerHook(absl::string_view name, int priority, HookPosition position);
  LearnerHook(const LearnerHook&) = delete;
  LearnerHook& operator=(const LearnerHook&) = delete;
  virtual ~LearnerHook() = default;

  virtual absl::Status Call(LearnerView* learner) = 0;

  const std::string& name() const { return name_; }
  int priority() const { return priority_; }
  HookPosition position() const { return position_; }

 private:
  const std::string name_;
  const int priority_;
  const HookPosition position_;
};

// The hooks of a learner, in the order in which they run at each position.
class LearnerHooks {
 public:
  const std::vector<std::shared_ptr<LearnerHook>>& at(HookPosition position) const {
    return hooks_.at(static_cast<size_t>(position));
  }

 private:
  friend void add_learner_hook(LearnerHooks* hooks, std::shared_ptr<LearnerHook> hook);

  std::array<std::vector<std::shared_ptr<LearnerHook>>, kNumHookPositions> hooks_;
};

// Inserts `hook` (not null) at its position, after hooks of equal priority.
void add_learner_hook(LearnerHooks* hooks, std::shared_ptr<LearnerHook> hook);
// Returns the hooks of both; among equal priorities the hooks of `a` run first.
LearnerHooks merge_hooks(const LearnerHooks& a, const LearnerHooks& b);
// Returns one line per position: "after_iter: log_show (20), save_ckpt (20)".
std::string show_hooks(const LearnerHooks& hooks);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_HOOK_H_
