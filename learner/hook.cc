#include "ding_worker/learner/hook.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr absl::string_view kUnknownPosition = "unknown position";

}  // namespace

absl::string_view HookPositionName(HookPosition position) {
  switch (position) {
    case HookPosition::kBeforeRun:
      return "before_run";
    case HookPosition::kAfterRun:
      return "after_run";
    case HookPosition::kBeforeIter:
      return "before_iter";
    case HookPosition::kAfterIter:
      return "after_iter";
    case HookPosition::kAfterEval:
      return "after_eval";
  }
  return kUnknownPosition;
}

LearnerHook::LearnerHook(absl::string_view name, int priority, HookPosition position)
    : name_(name), priority_(priority), position_(position) {
  DING_CHECK(priority >= 0) << "hook '" << name_ << "' has priority " << priority;
  DING_CHECK(HookPositionName(position) != kUnknownPosition)
      << "hook '" << name_ << "' has position " << static_cast<int>(position);
}

void add_learner_hook(LearnerHooks* hooks, std::shared_ptr<LearnerHook> hook) {
  DING_CHECK(hook != nullptr);
  auto& list = hooks->hooks_[static_cast<size_t>(hook->position())];
  const auto behind = std::upper_bound(
      list.begin(), list.end(), hook->priority(),
      [](int priority, const auto& other) { return priority < other->priority(); });
  list.insert(behind, std::move(hook));
}

LearnerHooks merge_hooks(const LearnerHooks& a, const LearnerHooks& b) {
  LearnerHooks merged = a;
  for (int position = 0; position < kNumHookPositions; ++position) {
    for (const auto& hook : b.at(static_cast<HookPosition>(position))) {
      add_learner_hook(&merged, hook);
    }
  }
  return merged;
}

std::string show_hooks(const LearnerHooks& hooks) {
  std::string text;
  for (int i = 0; i < kNumHookPositions; ++i) {
    const auto position = static_cast<HookPosition>(i);
    absl::StrAppend(&text, HookPositionName(position), ": ",
                    absl::StrJoin(hooks.at(position), ", ",
                                  [](std::string* out, const auto& hook) {
                                    absl::StrAppend(out, hook->name(), " (", hook->priority(), ")");
                                  }),
                    "\n");
  }
  return text;
}

}  // namespace ding
