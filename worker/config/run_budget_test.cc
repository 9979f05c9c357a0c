#include "ding_worker/worker/config/run_budget.h"

#include "ding_worker/worker/config/text_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(EndlessRunWarning, IsGivenUnlessSomethingEndsTheRun) {
  ExperimentConfig config;
  FillInDefaults(&config);
  EXPECT_THAT(EndlessRunWarning(config), HasSubstr("nothing in the config ends this run"));
  for (const char* const end :
       {"max_env_step=5", "max_train_iter=5", "env.stop_value=195", "stopper=[{type:\"mine\"}]",
        "policy.learn.learner.hook.hook=[{type:\"mine\"}]", "system.max_seconds=1"}) {
    ExperimentConfig ends = config;
    ASSERT_TRUE(ApplySetting(end, &ends).ok()) << end;
    EXPECT_THAT(EndlessRunWarning(ends), IsEmpty()) << end;
  }
}

TEST(SpentBudgets, NamesTheFlagOfEach) {
  ExperimentConfig config;
  EXPECT_THAT(SpentBudgets(config, 10, 10), IsEmpty()) << "no limit";
  config.set_max_env_step(10);
  config.set_max_train_iter(11);
  EXPECT_THAT(SpentBudgets(config, 9, 10), IsEmpty());
  EXPECT_EQ(SpentBudgets(config, 12, 10),
            "max_env_step is 10, and the run has reached 12 before: --max_env_step=N with a larger "
            "number lets it go on");
  EXPECT_THAT(SpentBudgets(config, 10, 11), HasSubstr("--max_train_iter=N"));
}

}  // namespace
}  // namespace ding
