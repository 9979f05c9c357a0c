// Tests of the tasks with a goal as the registry creates them: they conform, their rewards are
// those of the goal fields, walls stop the point, and the reward is rare for a random walk.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

// classic_control_test.cc has the same two functions: the registry holds the envs that a test
// links, so that each test lists its own.
absl::StatusOr<std::unique_ptr<Env>> Create(const std::string& name) {
  EnvConfig config;
  config.set_type(name);
  return create_env(config);
}

std::vector<EnvConformanceCase> AllEnvs() {
  std::vector<EnvConformanceCase> cases;
  for (const std::string& name : EnvRegistry().Names()) {
    cases.push_back({absl::StrReplaceAll(name, {{"-", "_"}}), [name] { return Create(name); }});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Goals, EnvConformance, testing::ValuesIn(AllEnvs()), EnvConformanceName);

// An env with its rows.
class Stage {
 public:
  explicit Stage(const std::string& name)
      : env_(*Create(name)),
        row_(*BatchBuilder::Create(env_->spec().observation, 1)),
        action_(*BatchBuilder::Create(env_->spec().action, 1)) {}

  Env& env() { return *env_; }
  absl::Span<const float> place() const { return row_.column<float>(1); }
  absl::Span<const float> goal() const { return row_.column<float>(2); }
  absl::Span<const float> observation() const { return row_.column<float>(0); }

  void Reset(uint64_t seed) { ASSERT_THAT(env_->Reset({seed, {}}, row_.view().row(0)), IsOk()); }
  StepResult Step(float x, float y) {
    action_.column<float>(0)[0] = x;
    action_.column<float>(0)[1] = y;
    StepResult result;
    EXPECT_THAT(env_->Step(ColumnsView(action_.view()).row(0), row_.view().row(0), &result),
                IsOk());
    return result;
  }
  void StartAt(const std::vector<double>& state) {
    StateDict dict;
    ASSERT_THAT(dict.WriteSpan<double>("state", state), IsOk());
    ASSERT_THAT(dict.WriteInt("steps", 0), IsOk());
    ASSERT_THAT(dict.WriteInt("over", 0), IsOk());
    ASSERT_THAT(env_->LoadState(&dict), IsOk());
  }

 private:
  std::unique_ptr<Env> env_;
  BatchBuilder row_;
  BatchBuilder action_;
};

TEST(GoalsTest, AreRegisteredAndHaveGoals) {
  EXPECT_THAT(EnvRegistry().Names(), ElementsAre("PointMaze-v0", "ReachGoal-v0"));
  for (const std::string& name : EnvRegistry().Names()) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Env> env, Create(name));
    EXPECT_EQ(env->spec().name, name);
    EXPECT_THAT(CheckGoalFields(*env->spec().observation), IsOk());
  }
}

TEST(GoalsTest, MovesByTheEquationsOfTheHeader) {
  Stage stage("ReachGoal-v0");
  stage.StartAt({0.1, -0.2, 0.5, 0, 0.8, 0.8});
  const StepResult result = stage.Step(0.4f, -1);
  // vx = 0.5 + 0.05 (10 * 0.4 - 2 * 0.5), vy = 0.05 * -10.
  EXPECT_NEAR(stage.observation()[2], 0.65, 1e-6);
  EXPECT_NEAR(stage.observation()[3], -0.5, 1e-6);
  EXPECT_NEAR(stage.place()[0], 0.1 + 0.05 * 0.65, 1e-6);
  EXPECT_NEAR(stage.place()[1], -0.2 - 0.05 * 0.5, 1e-6);
  EXPECT_THAT(stage.goal(), ElementsAre(0.8f, 0.8f));
  EXPECT_EQ(result.reward, -1);
}

TEST(GoalsTest, PaysWithinTheRadiusOnly) {
  Stage stage("ReachGoal-v0");
  stage.StartAt({0.3, 0.3, 0, 0, 0.3 + 0.049, 0.3});
  EXPECT_EQ(stage.Step(0, 0).reward, 0);
  stage.StartAt({0.3, 0.3, 0, 0, 0.3 + 0.051, 0.3});
  EXPECT_EQ(stage.Step(0, 0).reward, -1);
}

TEST(GoalsTest, WallsStopThePoint) {
  Stage stage("PointMaze-v0");
  // In the second row from the top, under a wall, which begins at y = 0.5.
  stage.StartAt({0, 0.25, 0, 0, 0.8, 0.8});
  for (int i = 0; i < 20; ++i) stage.Step(0, 1);
  EXPECT_GT(stage.place()[1], 0.3f);
  EXPECT_LE(stage.place()[1], 0.5f);
  // The edge of the square does, too.
  for (int i = 0; i < 20; ++i) stage.Step(1, 0);
  EXPECT_GT(stage.place()[0], 0.7f);
  EXPECT_LE(stage.place()[0], 1.0f);
}

// Steers to the goal without walls.
TEST(GoalsTest, APilotReachesTheGoalAndARandomWalkSeldom) {
  Stage stage("ReachGoal-v0");
  Rng rng(0, "test");
  int reached = 0;
  int met = 0;
  constexpr int kEpisodes = 200;
  for (uint64_t seed = 0; seed < kEpisodes; ++seed) {
    for (const bool random : {false, true}) {
      stage.Reset(seed);
      StepResult result;
      while (!result.truncated) {
        float force[2];
        for (size_t i = 0; i < 2; ++i) {
          const double ahead = 4 * (stage.goal()[i] - stage.place()[i]);
          const double wanted = random ? rng.Uniform(-1, 1) : ahead - stage.observation()[2 + i];
          force[i] = static_cast<float>(std::max(-1.0, std::min(1.0, wanted)));
        }
        result = stage.Step(force[0], force[1]);
      }
      (random ? met : reached) += result.info.GetOr("is_success", -1) == 1;
    }
  }
  EXPECT_EQ(reached, kEpisodes);
  EXPECT_LT(met, kEpisodes / 20);
}

TEST(GoalsTest, RendersPointGoalAndWalls) {
  Stage stage("PointMaze-v0");
  stage.StartAt({0, 0.25, 0, 0, 0.75, 0.75});
  DING_ASSERT_OK_AND_ASSIGN(const Image image, stage.env().Render());
  const auto at = [&image](double x, double y) {
    const auto column = static_cast<size_t>((x + 1) / 2 * image.width);
    const auto row = static_cast<size_t>((1 - y) / 2 * image.height);
    const uint8_t* const pixel = &image.rgb[3 * (row * static_cast<size_t>(image.width) + column)];
    return std::vector<int>(pixel, pixel + 3);
  };
  EXPECT_THAT(at(0.01, 0.25), ElementsAre(60, 90, 190));
  EXPECT_THAT(at(0.75, 0.75), ElementsAre(90, 190, 110));
  EXPECT_THAT(at(-0.5, 0.75), ElementsAre(120, 120, 130));
  EXPECT_THAT(at(-0.5, 0.25), ElementsAre(255, 255, 255));
}

}  // namespace
}  // namespace ding
