// A program that links whole packages, by the labels of their folders, has all their types.
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/worker/registry.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(PackagesTest, BringAllTheirTypes) {
  EXPECT_THAT(BufferRegistry().Find("sequence"), IsOk());
  EXPECT_THAT(SelectorRegistry().Find("uniform"), IsOk());
  EXPECT_THAT(SerialCollectorRegistry().Find("sample"), IsOk());
  EXPECT_THAT(BattleCollectorRegistry().Find("episode_1v1"), IsOk());
  EXPECT_THAT(MetricEvaluatorRegistry().Find("metric"), IsOk());
  EXPECT_THAT(LearnerRegistry().Find("base"), IsOk());
  EXPECT_THAT(LearnerHookRegistry().Find("save_ckpt"), IsOk());
  EXPECT_THAT(ParallelCollectorRegistry().Find("zergling"), IsOk());
  EXPECT_THAT(CommanderRegistry().Find("solo"), IsOk());
}

}  // namespace
}  // namespace ding
