#include "room/room.h"

#include <algorithm>
#include <memory>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gtest/gtest.h"

namespace room_env {
namespace {

using ding::EnvConformance;
using ding::EnvConformanceCase;

INSTANTIATE_TEST_SUITE_P(Room, EnvConformance,
                         testing::Values(EnvConformanceCase{"default", CreateRoom}),
                         ding::EnvConformanceName);

TEST(RoomTest, WalkingToTheGoalEndsTheEpisode) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ding::Env> env, CreateRoom());
  ding::BatchBuilder obs = *ding::BatchBuilder::Create(env->spec().observation, 1);
  ding::BatchBuilder action = *ding::BatchBuilder::Create(env->spec().action, 1);
  ASSERT_THAT(env->Reset({/*seed=*/3, {}}, obs.view().row(0)), ding::IsOk());
  const absl::Span<const float> seen = obs.column<float>(0);
  const absl::Span<float> step = action.column<float>(0);
  ding::StepResult result;
  for (int i = 0; i < 15 && !result.terminated; ++i) {
    step[0] = std::clamp(10 * (seen[2] - seen[0]), -1.0f, 1.0f);
    step[1] = std::clamp(10 * (seen[3] - seen[1]), -1.0f, 1.0f);
    ASSERT_THAT(env->Step(ding::ColumnsView(action.view()).row(0), obs.view().row(0), &result),
                ding::IsOk());
  }
  EXPECT_TRUE(result.terminated);
  EXPECT_GT(result.reward, -0.1f);
  EXPECT_EQ(result.info.GetOr("success", 0), 1);
}

}  // namespace
}  // namespace room_env
