#include "corridor.h"

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gtest/gtest.h"

namespace corridor_env {
namespace {

using ding::EnvConformance;
using ding::EnvConformanceCase;

absl::StatusOr<std::unique_ptr<ding::Env>> Create() { return CreateCorridor(CorridorParams()); }

INSTANTIATE_TEST_SUITE_P(Corridor, EnvConformance,
                         testing::Values(EnvConformanceCase{"default", Create}),
                         ding::EnvConformanceName);

TEST(CorridorTest, TheConfigSaysHowManyPlacesThereAre) {
  CorridorParams params;
  params.set_places(3);
  EXPECT_THAT(CreateCorridor(params), ding::IsOk());
  params.set_places(1);
  EXPECT_THAT(CreateCorridor(params), ding::IsInvalid("places is below 2"));
}

TEST(CorridorTest, WalkingToTheGoalEndsTheEpisode) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ding::Env> env, Create());
  ding::BatchBuilder obs = *ding::BatchBuilder::Create(env->spec().observation, 1);
  ding::BatchBuilder action = *ding::BatchBuilder::Create(env->spec().action, 1);
  ASSERT_THAT(env->Reset({/*seed=*/3, {}}, obs.view().row(0)), ding::IsOk());
  ding::StepResult result;
  for (int step = 0; step < 10 && !result.terminated; ++step) {
    const bool right = obs.column<float>(0)[0] < obs.column<float>(0)[1];
    action.column<int64_t>(0)[0] = right ? 2 : 0;
    ASSERT_THAT(env->Step(ding::ColumnsView(action.view()).row(0), obs.view().row(0), &result),
                ding::IsOk());
  }
  EXPECT_TRUE(result.terminated);
  EXPECT_EQ(result.reward, 1);
  EXPECT_EQ(result.info.GetOr("success", 0), 1);
}

}  // namespace
}  // namespace corridor_env
