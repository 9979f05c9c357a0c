// Tests of the Box2D tasks as the registry creates them: they conform, a saved episode continues
// bit for bit in the middle of contacts, a simple pilot lands, and they render. formulas_test.sh
// compares rewards and observations with formulas written apart.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/box2d/bipedal_walker.h"
#include "ding_worker/env/box2d/box2d.pb.h"
#include "ding_worker/env/box2d/box2d_env.h"
#include "ding_worker/env/box2d/lunar_lander.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

absl::StatusOr<std::unique_ptr<Env>> Create(const std::string& name) {
  EnvConfig config;
  config.set_type(name);
  return create_env(config);
}

absl::StatusOr<std::unique_ptr<Env>> Create(const std::string& name,
                                            const LunarLanderParams& params) {
  EnvConfig config;
  config.set_type(name);
  config.mutable_params()->PackFrom(params);
  return create_env(config);
}

std::vector<EnvConformanceCase> AllEnvs() {
  std::vector<EnvConformanceCase> cases;
  for (const std::string& name : EnvRegistry().Names()) {
    cases.push_back(
        {absl::StrReplaceAll(name, {{"-", "_"}}), [name] { return Create(name); }, 2000});
  }
  cases.push_back({"windy", [] {
                     LunarLanderParams params;
                     params.set_enable_wind(true);
                     return Create("LunarLanderContinuous-v3", params);
                   }});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Box2d, EnvConformance, testing::ValuesIn(AllEnvs()), EnvConformanceName);

// An env with its rows.
class Stage {
 public:
  explicit Stage(absl::StatusOr<std::unique_ptr<Env>> env)
      : env_(*std::move(env)),
        row_(*BatchBuilder::Create(env_->spec().observation, 1)),
        action_(*BatchBuilder::Create(env_->spec().action, 1)) {}
  explicit Stage(const std::string& name) : Stage(Create(name)) {}

  Env& env() { return *env_; }
  absl::Span<const float> obs() const { return row_.column<float>(0); }
  const StepResult& result() const { return result_; }
  bool over() const { return result_.terminated || result_.truncated || result_.abnormal; }

  void Reset(uint64_t seed) {
    result_ = StepResult();
    ASSERT_THAT(env_->Reset({seed, {}}, row_.view().row(0)), IsOk());
  }
  absl::Status Step(const std::vector<double>& action) {
    for (size_t i = 0; i < action.size(); ++i) {
      if (env_->spec().action->field(0).is_discrete()) {
        action_.column<int64_t>(0)[i] = static_cast<int64_t>(action[i]);
      } else {
        action_.column<float>(0)[i] = static_cast<float>(action[i]);
      }
    }
    result_ = StepResult();
    return env_->Step(ColumnsView(action_.view()).row(0), row_.view().row(0), &result_);
  }

 private:
  std::unique_ptr<Env> env_;
  BatchBuilder row_;
  BatchBuilder action_;
  StepResult result_;
};

TEST(Box2dTest, AllAreRegisteredUnderTheirNames) {
  EXPECT_THAT(EnvRegistry().Names(), ElementsAre("BipedalWalker-v3", "BipedalWalkerHardcore-v3",
                                                 "LunarLander-v3", "LunarLanderContinuous-v3"));
  for (const std::string& name : EnvRegistry().Names()) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Env> env, Create(name));
    EXPECT_EQ(env->spec().name, name);
  }
}

// Steers towards the pad by a weighted sum of what it sees, and brakes.
std::vector<double> Pilot(absl::Span<const float> s, bool continuous) {
  const double tilt = std::clamp(0.5 * s[0] + 1.0 * s[2], -0.4, 0.4);
  const bool landed = s[6] > 0 || s[7] > 0;
  const double turn = landed ? 0 : 0.5 * (tilt - s[4]) - s[5];
  const double lift = landed ? -0.5 * s[3] : 0.5 * (0.55 * std::abs(s[0]) - s[1]) - 0.5 * s[3];
  if (continuous) {
    return {std::clamp(20 * lift - 1, -1.0, 1.0), std::clamp(-20 * turn, -1.0, 1.0)};
  }
  if (lift > std::abs(turn) && lift > 0.05) return {2};
  return {turn < -0.05 ? 3.0 : turn > 0.05 ? 1.0 : 0.0};
}

void ExpectPilotLands(const std::string& name) {
  Stage stage(name);
  const bool continuous = !stage.env().spec().action->field(0).is_discrete();
  double sum = 0;
  int rests = 0;
  constexpr int kEpisodes = 40;
  for (uint64_t seed = 0; seed < kEpisodes; ++seed) {
    stage.Reset(seed);
    while (!stage.over()) {
      ASSERT_THAT(stage.Step(Pilot(stage.obs(), continuous)), IsOk());
      sum += stage.result().reward;
    }
    rests += stage.result().terminated && stage.result().reward == 100;
  }

  // In Gymnasium such a pilot gets between 200 and 280 in most episodes.
  EXPECT_GT(sum / kEpisodes, 200) << name;
  EXPECT_GT(rests, kEpisodes / 2) << name;
}

TEST(Box2dTest, APilotLands) {
  ExpectPilotLands("LunarLander-v3");
  ExpectPilotLands("LunarLanderContinuous-v3");
}

// Plays `from` on and `to`, which was restored from it, and expects the same bits.
void ExpectSamePath(Stage* from, Stage* to, int steps, bool continuous) {
  for (int i = 0; i < steps && !from->over(); ++i) {
    const std::vector<double> action = Pilot(from->obs(), continuous);
    ASSERT_THAT(from->Step(action), IsOk());
    ASSERT_THAT(to->Step(action), IsOk());
    ASSERT_TRUE(std::equal(from->obs().begin(), from->obs().end(), to->obs().begin())) << i;
    ASSERT_EQ(from->result().reward, to->result().reward) << i;
    ASSERT_EQ(from->over(), to->over());
  }
}

TEST(Box2dTest, SavedEpisodesContinueExactlyWhileLegsTouchTheGround) {
  Stage stage("LunarLanderContinuous-v3");
  stage.Reset(3);
  while (stage.obs()[6] == 0) {
    ASSERT_FALSE(stage.over());
    ASSERT_THAT(stage.Step(Pilot(stage.obs(), true)), IsOk());
  }
  StateDict state;
  ASSERT_THAT(stage.env().SaveState(&state), IsOk());
  Stage restored("LunarLanderContinuous-v3");
  ASSERT_THAT(restored.env().LoadState(&state), IsOk());
  ExpectSamePath(&stage, &restored, 1000, true);
  EXPECT_EQ(stage.result().reward, 100);  // it came to rest after many contacts
}

TEST(Box2dTest, AnEnvWithoutAnEpisodeIsSavedToo) {
  Stage stage("BipedalWalker-v3");
  StateDict state;
  ASSERT_THAT(stage.env().SaveState(&state), IsOk());
  Stage restored("BipedalWalker-v3");
  restored.Reset(1);
  ASSERT_THAT(restored.env().LoadState(&state), IsOk());
  EXPECT_THAT(restored.Step({0, 0, 0, 0}), IsFailedPrecondition("Reset()"));
  EXPECT_THAT(restored.env().Render(), IsFailedPrecondition());
}

absl::Status Load(const std::vector<int64_t>& actions, std::vector<float> obs) {
  StateDict state;
  for (const absl::Status& status :
       {state.WriteInt("seed", 0), state.WriteSpan<int64_t>("actions", actions),
        state.WriteSpan<float>("obs", obs), state.WriteInt("over", 0)}) {
    if (!status.ok()) return status;
  }
  return Stage("LunarLander-v3").env().LoadState(&state);
}

TEST(Box2dTest, RefusesBrokenStates) {
  const std::vector<float> obs(8);
  EXPECT_THAT(Load({0, 4}, obs), IsInvalid("contains 4, which is not legal"));
  EXPECT_THAT(Load(std::vector<int64_t>(1001), obs), IsInvalid("up to 1000"));
  EXPECT_THAT(Load({0}, {1, 2}), IsInvalid());
  EXPECT_THAT(Load({0, 1, 2}, obs),
              IsFailedPrecondition("the 3 saved actions lead to another observation"));
}

TEST(Box2dTest, WindMovesTheLander) {
  LunarLanderParams params;
  params.set_enable_wind(true);
  params.set_wind_power(20);
  params.set_turbulence_power(0);
  Stage calm("LunarLander-v3");
  Stage windy(Create("LunarLander-v3", params));
  calm.Reset(2);
  windy.Reset(2);
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(calm.Step({0}), IsOk());
    ASSERT_THAT(windy.Step({0}), IsOk());
  }
  EXPECT_GT(std::abs(calm.obs()[2] - windy.obs()[2]), 0.01);
  EXPECT_NEAR(calm.obs()[3], windy.obs()[3], 1e-4);  // it does not blow up or down
}

TEST(Box2dTest, RefusesParamsOutsideOfTheirRanges) {
  LunarLanderParams params;
  params.set_gravity(-12);
  EXPECT_THAT(Create("LunarLander-v3", params), IsInvalid("gravity is -12"));
  params.set_gravity(-10);
  params.set_wind_power(3);
  EXPECT_THAT(Create("LunarLander-v3", params), IsInvalid("set enable_wind: true"));
  params.set_enable_wind(true);
  params.set_turbulence_power(3);
  EXPECT_THAT(Create("LunarLander-v3", params), IsInvalid("turbulence_power is 3"));
  EXPECT_THAT(Create("BipedalWalker-v3", params), IsInvalid("takes none"));
  Stage stage("LunarLander-v3");
  BatchBuilder row = *BatchBuilder::Create(stage.env().spec().observation, 1);
  EXPECT_THAT(stage.env().Reset({0, {{"gravity", -3}}}, row.view().row(0)),
              IsInvalid("got 'gravity'"));
}

// A game whose world becomes unstable in the third step.
class Unstable {
 public:
  struct Options {};
  using Action = int64_t;
  static constexpr int kActionSize = 1;
  Unstable(const Options&, uint64_t) {}
  ClassicOutcome Step(absl::Span<const int64_t>) {
    if (++steps_ == 3) value_ = std::numeric_limits<float>::quiet_NaN();
    return {0, false};
  }
  void Observe(absl::Span<float> obs) const { std::fill(obs.begin(), obs.end(), value_); }
  Image Draw() const { return {}; }

 private:
  int steps_ = 0;
  float value_ = 0;
};

TEST(Box2dTest, AnUnstableWorldIsAbnormalAndTheRunGoesOn) {
  const auto create = []() -> absl::StatusOr<std::unique_ptr<Env>> {
    EnvSpec spec = (*Create("LunarLander-v3"))->spec();
    return std::make_unique<Box2dEnv<Unstable>>(spec, Unstable::Options());
  };
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseEnvManager> manager,
                            BaseEnvManager::Create({}, {create}));
  ASSERT_THAT(manager->Launch(), IsOk());
  for (int step = 1; step <= 7; ++step) {
    int64_t action = 0;
    std::byte* const column = reinterpret_cast<std::byte*>(&action);
    const ColumnsView actions(manager->env_spec().action.get(), &column, 0, 1);
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps,
                              manager->Step(manager->ready_obs().env_ids, actions));
    EXPECT_EQ(steps->abnormal[0] != 0, step % 3 == 0) << step;
    EXPECT_TRUE(steps->finished.empty());
  }
}

TEST(Box2dTest, TheHardcoreGroundHasObstaclesAndTheOtherNone) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed, "test");
    const WalkerTerrain plain = MakeWalkerTerrain(false, &rng);
    const WalkerTerrain hardcore = MakeWalkerTerrain(true, &rng);
    EXPECT_TRUE(plain.obstacles.empty());
    EXPECT_GT(hardcore.obstacles.size(), 10);
    for (const WalkerTerrain* terrain : {&plain, &hardcore}) {
      ASSERT_EQ(terrain->heights.size(), static_cast<size_t>(kTerrainLength));
      // The walker starts on flat ground.
      for (int i = 0; i < kTerrainStartPad; ++i) {
        EXPECT_EQ(terrain->heights[static_cast<size_t>(i)], kTerrainHeight);
      }
    }
  }
}

std::vector<int> Pixel(const Image& image, int x, int y) {
  const size_t first = (static_cast<size_t>(y) * static_cast<size_t>(image.width) + x) * 3;
  return {image.rgb.at(first), image.rgb.at(first + 1), image.rgb.at(first + 2)};
}

TEST(Box2dTest, Renders) {
  Stage lander("LunarLander-v3");
  lander.Reset(0);
  DING_ASSERT_OK_AND_ASSIGN(const Image moon, lander.env().Render());
  EXPECT_EQ(moon.width, 600);
  EXPECT_EQ(moon.height, 400);
  EXPECT_THAT(Pixel(moon, 50, 50), ElementsAre(0, 0, 0));          // sky
  EXPECT_THAT(Pixel(moon, 300, 395), ElementsAre(255, 255, 255));  // ground
  EXPECT_THAT(Pixel(moon, 300, 5), ElementsAre(128, 102, 230));    // the lander
  EXPECT_THAT(Pixel(moon, 245, 255), ElementsAre(204, 204, 0));    // the left flag
  Stage walker("BipedalWalker-v3");
  walker.Reset(0);
  DING_ASSERT_OK_AND_ASSIGN(const Image hills, walker.env().Render());
  EXPECT_THAT(Pixel(hills, 120, 233), ElementsAre(127, 51, 229));  // the hull
  EXPECT_THAT(Pixel(hills, 300, 390), ElementsAre(102, 153, 76));  // the ground
}

}  // namespace
}  // namespace ding
