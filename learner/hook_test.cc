#include "ding_worker/learner/hook.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class NamedHook : public LearnerHook {
 public:
  using LearnerHook::LearnerHook;
  absl::Status Call(ILearner*) override { return absl::OkStatus(); }
};

std::shared_ptr<LearnerHook> Hook(const std::string& name, int priority,
                                  HookPosition position = HookPosition::kAfterIter) {
  return std::make_shared<NamedHook>(name, priority, position);
}

std::vector<std::string> Names(const LearnerHooks& hooks, HookPosition position) {
  std::vector<std::string> names;
  for (const auto& hook : hooks.at(position)) names.push_back(hook->name());
  return names;
}

TEST(HookTest, RunsByPriorityAndThenInOrderOfInsertion) {
  LearnerHooks hooks;
  for (const auto& hook : {Hook("late", 50), Hook("first", 10), Hook("second", 20),
                           Hook("third", 20), Hook("elsewhere", 0, HookPosition::kAfterRun)}) {
    add_learner_hook(&hooks, hook);
  }
  EXPECT_THAT(Names(hooks, HookPosition::kAfterIter),
              ElementsAre("first", "second", "third", "late"));
  EXPECT_THAT(Names(hooks, HookPosition::kAfterRun), ElementsAre("elsewhere"));
}

TEST(HookTest, MergesStably) {
  LearnerHooks a, b;
  add_learner_hook(&a, Hook("a20", 20));
  add_learner_hook(&a, Hook("a40", 40));
  add_learner_hook(&b, Hook("b20", 20));
  add_learner_hook(&b, Hook("b10", 10));
  EXPECT_THAT(Names(merge_hooks(a, b), HookPosition::kAfterIter),
              ElementsAre("b10", "a20", "b20", "a40"));
  EXPECT_THAT(Names(a, HookPosition::kAfterIter), ElementsAre("a20", "a40"));
}

TEST(HookTest, ShowsPositionsNamesAndPriorities) {
  LearnerHooks hooks;
  add_learner_hook(&hooks, Hook("log_show", 20));
  EXPECT_THAT(show_hooks(hooks), HasSubstr("after_iter: log_show (20)\n"));
}

TEST(HookDeathTest, ANegativePriorityEndsTheProgram) {
  EXPECT_DEATH(Hook("bad", -1), "priority -1");
}

}  // namespace
}  // namespace ding
