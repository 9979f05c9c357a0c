// Tests of the classic control envs as the registry creates them: they conform, agree with
// trajectories that testdata/trajectories.py computed from the published equations, and render.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "ding_worker/env/vector_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

// goals_test.cc has the same two functions: the registry holds the envs that a test links, so that
// each test lists its own.
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

INSTANTIATE_TEST_SUITE_P(ClassicControl, EnvConformance, testing::ValuesIn(AllEnvs()),
                         EnvConformanceName);

TEST(ClassicControlTest, AllAreRegisteredUnderTheirNames) {
  EXPECT_THAT(
      EnvRegistry().Names(),
      ElementsAre("Acrobot-v1", "CartPole-v0", "CartPole-v0-masked-velocity", "CartPole-v1",
                  "CartPole-v1-masked-velocity", "MountainCar-v0", "MountainCarContinuous-v0",
                  "Pendulum-v1", "Pendulum-v1-masked-velocity"));
  for (const std::string& name : EnvRegistry().Names()) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Env> env, Create(name));
    EXPECT_EQ(env->spec().name, name);
  }
}

TEST(ClassicControlTest, RefusesParams) {
  EnvConfig config;
  config.set_type("Pendulum-v1");
  config.mutable_params()->set_type_url("type.googleapis.com/ding.EnvConfig");
  EXPECT_THAT(create_env(config),
              IsInvalid("params hold a ding.EnvConfig, but type 'Pendulum-v1' takes none"));
}

// An env with its rows.
class Stage {
 public:
  explicit Stage(const std::string& name)
      : env_(*Create(name)),
        row_(*BatchBuilder::Create(env_->spec().observation, 1)),
        action_(*BatchBuilder::Create(env_->spec().action, 1)) {}

  Env& env() { return *env_; }
  absl::Span<const float> obs() const { return row_.column<float>(0); }

  absl::Status Reset(const EpisodeStart& start) { return env_->Reset(start, row_.view().row(0)); }

  absl::Status Step(double action, StepResult* result) {
    if (env_->spec().action->field(0).is_discrete()) {
      action_.column<int64_t>(0)[0] = static_cast<int64_t>(action);
    } else {
      action_.column<float>(0)[0] = static_cast<float>(action);
    }
    *result = StepResult();
    return env_->Step(ColumnsView(action_.view()).row(0), row_.view().row(0), result);
  }

  // Begins an episode in `state`, as if after `steps` steps.
  absl::Status StartAt(absl::Span<const double> state, int64_t steps = 0) {
    StateDict dict;
    for (const absl::Status& status :
         {dict.WriteSpan<double>("state", state), dict.WriteInt("steps", steps),
          dict.WriteInt("over", 0), env_->LoadState(&dict)}) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Env> env_;
  BatchBuilder row_;
  BatchBuilder action_;
};

std::string TestData(const std::string& name) {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                      "/env/classic_control/testdata/", name);
}

// Observations are float32.
double Tolerance(double expected) { return 1e-6 * std::max(1.0, std::abs(expected)); }

// Plays one episode of `rows` rows of the table.
void PlayEpisode(Stage* stage, int rows, std::istream* table) {
  for (int row = 1; row <= rows; ++row) {
    SCOPED_TRACE(absl::StrCat("row ", row));
    int times, terminated, truncated;
    double action, reward;
    *table >> times >> action >> reward >> terminated >> truncated;
    StepResult result;
    for (int i = 0; i < times; ++i) ASSERT_THAT(stage->Step(action, &result), IsOk());
    EXPECT_NEAR(result.reward, reward, Tolerance(reward));
    EXPECT_EQ(result.terminated, terminated == 1);
    EXPECT_EQ(result.truncated, truncated == 1);
    for (const float value : stage->obs()) {
      double expected;
      *table >> expected;
      EXPECT_NEAR(value, expected, Tolerance(expected));
    }
    ASSERT_TRUE(table->good());
    if (testing::Test::HasFailure()) return;
  }
}

// Hides that an env is a VectorEnv, so that it is stepped alone.
class Alone : public Env {
 public:
  explicit Alone(const std::string& name) : env_(*Create(name)) {}

  const EnvSpec& spec() const override { return env_->spec(); }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    return env_->Reset(start, obs);
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    return env_->Step(action, obs, result);
  }
  absl::Status SaveState(StateWriter* writer) const override { return env_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return env_->LoadState(reader); }

 private:
  const std::unique_ptr<Env> env_;
};

// Expects the same bytes, also of the episodes that ended.
void ExpectSame(const Timesteps& alone, const Timesteps& at_once, const ColumnsView& obs_alone,
                const ColumnsView& obs_at_once) {
  EXPECT_EQ(alone.reward, at_once.reward);
  EXPECT_EQ(alone.terminated, at_once.terminated);
  EXPECT_EQ(alone.truncated, at_once.truncated);
  EXPECT_EQ(alone.abnormal, at_once.abnormal);
  EXPECT_EQ(obs_alone.column<float>(0), obs_at_once.column<float>(0));
  ASSERT_EQ(alone.finished.size(), at_once.finished.size());
  if (alone.finished.empty()) return;
  EXPECT_EQ(alone.final_obs.column<float>(0), at_once.final_obs.column<float>(0));
  for (size_t i = 0; i < alone.finished.size(); ++i) {
    EXPECT_EQ(alone.finished[i].row, at_once.finished[i].row);
    EXPECT_EQ(alone.finished[i].length, at_once.finished[i].length);
    EXPECT_EQ(alone.finished[i].episode_return, at_once.finished[i].episode_return);
  }
}

// Plays random actions in `count` envs that are stepped alone and in as many that are stepped at
// once. In between, one env is reset, the envs exchange their states, and some are stepped.
void PlayBoth(const std::string& name, int count, uint64_t seed) {
  SCOPED_TRACE(absl::StrCat(name, ", ", count, " envs, seed ", seed));
  const auto make = [count](EnvFactory factory) {
    return *BaseEnvManager::Create(
        {}, std::vector<EnvFactory>(static_cast<size_t>(count), std::move(factory)));
  };
  const auto alone = make([&name] { return std::make_unique<Alone>(name); });
  const auto at_once = make([&name] { return Create(name); });
  for (BaseEnvManager* const envs : {alone.get(), at_once.get()}) {
    ASSERT_THAT(envs->Seed(seed, /*dynamic=*/true), IsOk());
    ASSERT_THAT(envs->Launch(), IsOk());
  }
  Rng rng(seed, "test/actions");
  const FieldSpec& action = alone->env_spec().action->field(0);
  const BatchBuilder actions = *BatchBuilder::Create(alone->env_spec().action, count);
  int64_t ended = 0;
  for (int step = 1; step <= 1100; ++step) {
    for (int i = 0; i < count; ++i) {
      if (action.is_discrete()) {
        actions.column<int64_t>(0)[i] =
            static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(action.num_categories)));
      } else {
        actions.column<float>(0)[i] =
            static_cast<float>(rng.Uniform(action.low[0], action.high[0]));
      }
    }
    if (step == 30 || (step % 150 == 0 && count > 1)) {
      const EnvReset reset = {step % count, std::nullopt};
      ASSERT_THAT(alone->Reset({&reset, 1}), IsOk());
      ASSERT_THAT(at_once->Reset({&reset, 1}), IsOk());
    }
    if (step % 230 == 0) {
      StateDict states[2];
      std::vector<int> restarted;
      ASSERT_THAT(alone->SaveState(&states[0]), IsOk());
      ASSERT_THAT(at_once->SaveState(&states[1]), IsOk());
      at_once->Close();
      ASSERT_THAT(alone->LoadState(&states[1], &restarted), IsOk());
      ASSERT_THAT(at_once->LoadState(&states[0], &restarted), IsOk());
      EXPECT_TRUE(restarted.empty());
    }
    const int stepped = step % 70 == 0 ? (count + 1) / 2 : count;
    const absl::Span<const int> ids = alone->ready_obs().env_ids.first(stepped);
    const ColumnsView rows = ColumnsView(actions.view()).Slice(0, stepped);
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const one, alone->Step(ids, rows));
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const all, at_once->Step(ids, rows));
    ExpectSame(*one, *all, alone->ready_obs().obs, at_once->ready_obs().obs);
    if (testing::Test::HasFailure()) FAIL() << "step " << step;
    ended += static_cast<int64_t>(one->finished.size());
  }
  EXPECT_GT(ended, 0);
}

TEST(ClassicControlTest, AStepOfAllEnvsEqualsStepsOfEach) {
  for (const std::string& name : EnvRegistry().Names()) {
    for (const int count : {1, 8, 19}) {
      PlayBoth(name, count, /*seed=*/count);
      PlayBoth(name, count, /*seed=*/1234567);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ClassicControlTest, AStepOfAllEnvsNeedsAnEpisodeOfEach) {
  Stage first("CartPole-v1");
  Stage second("CartPole-v1");
  auto* const env = dynamic_cast<VectorEnv*>(&first.env());
  ASSERT_NE(env, nullptr);
  ASSERT_THAT(first.Reset({1, {}}), IsOk());
  VectorEnv::AllEnvs all;
  VectorEnv* const envs[] = {env, dynamic_cast<VectorEnv*>(&second.env())};
  all.envs = envs;
  EXPECT_FALSE(env->StepAll(all));  // It reads nothing else.
}

TEST(ClassicControlTest, AgreesWithPublishedEquations) {
  std::ifstream table(TestData("trajectories.txt"));
  std::string word, name;
  int rows = 0;
  int episodes = 0;
  while (table >> word >> name >> rows) {
    ASSERT_EQ(word, "episode");
    SCOPED_TRACE(absl::StrCat(name, ", episode ", ++episodes, " of the table"));
    Stage stage(name);
    StateDict shape;
    ASSERT_THAT(stage.env().SaveState(&shape), IsOk());
    std::vector<double> start(static_cast<size_t>(shape.tensors().Find("state")->num_elements()));
    table >> word;
    ASSERT_EQ(word, "start");
    int64_t steps_before = 0;
    table >> steps_before;
    for (double& number : start) table >> number;
    ASSERT_THAT(stage.StartAt(start, steps_before), IsOk());
    PlayEpisode(&stage, rows, &table);
    if (HasFailure()) return;
  }
  EXPECT_EQ(episodes, 17);
}

TEST(ClassicControlTest, TimeLimitsEqualGymnasium) {
  const std::pair<const char*, int64_t> limits[] = {
      {"CartPole-v0", 200},    {"CartPole-v1", 500}, {"Pendulum-v1", 200},
      {"MountainCar-v0", 200}, {"Acrobot-v1", 500},  {"MountainCarContinuous-v0", 999}};
  for (const auto& [name, limit] : limits) {
    EXPECT_EQ(Stage(name).env().spec().max_episode_steps, limit) << name;
  }
}

// Checks that the masked env behaves like the full env and shows the elements `shown` only.
void ExpectShowsOnly(const std::string& name, const std::vector<size_t>& shown, double action) {
  Stage whole(name);
  Stage masked(name + "-masked-velocity");
  EXPECT_EQ(masked.env().spec().max_episode_steps, whole.env().spec().max_episode_steps);
  ASSERT_EQ(masked.obs().size(), shown.size());
  ASSERT_THAT(whole.Reset({17, {}}), IsOk());
  ASSERT_THAT(masked.Reset({17, {}}), IsOk());
  StepResult result;
  StepResult masked_result;
  for (int step = 0; !result.terminated && !result.truncated; ++step) {
    for (size_t i = 0; i < shown.size(); ++i) {
      EXPECT_EQ(masked.obs()[i], whole.obs()[shown[i]]) << name << ", step " << step;
    }
    ASSERT_THAT(whole.Step(action, &result), IsOk());
    ASSERT_THAT(masked.Step(action, &masked_result), IsOk());
    EXPECT_EQ(result.reward, masked_result.reward);
    EXPECT_EQ(result.terminated, masked_result.terminated);
  }
}

TEST(ClassicControlTest, MasksHideTheVelocitiesOnly) {
  ExpectShowsOnly("CartPole-v0", {0, 2}, 1);
  ExpectShowsOnly("CartPole-v1", {0, 2}, 0);
  ExpectShowsOnly("Pendulum-v1", {0, 1}, 0.5);
}

TEST(ClassicControlTest, TerminationTakesPrecedenceOverTheTimeLimit) {
  Stage stage("CartPole-v0");
  // The pole falls in this step, which is also the last that the limit allows.
  ASSERT_THAT(stage.StartAt({0, 0, 0.209, 1}, /*steps=*/199), IsOk());
  StepResult result;
  ASSERT_THAT(stage.Step(0, &result), IsOk());
  EXPECT_TRUE(result.terminated);
  EXPECT_FALSE(result.truncated);
}

TEST(ClassicControlTest, StepNeedsAnEpisode) {
  Stage stage("CartPole-v1");
  StepResult result;
  const auto needs_reset = IsFailedPrecondition("Reset()");
  EXPECT_THAT(stage.Step(0, &result), needs_reset);
  ASSERT_THAT(stage.StartAt({5, 0, 0, 0}), IsOk());
  ASSERT_THAT(stage.Step(0, &result), IsOk());
  EXPECT_TRUE(result.terminated);
  EXPECT_THAT(stage.Step(0, &result), needs_reset);
}

TEST(ClassicControlTest, RefusesParametersAndBrokenStates) {
  Stage stage("Acrobot-v1");
  EXPECT_THAT(stage.Reset({0, {{"gravity", 3}}}), IsInvalid("got 'gravity'"));
  EXPECT_THAT(stage.StartAt({0, 0, 0}), IsInvalid("expected 4 elements"));
  EXPECT_THAT(stage.StartAt({0, 0, 0, 0}, 501), IsInvalid("expected 0..500"));
  EXPECT_THAT(stage.StartAt({0, 0, 0, 1e308 * 10}), IsInvalid("inf"));
}

// Compares mean and range of each number of the start state with its uniform distribution. The mean
// of n values uniform on [-h, h] has standard deviation h / sqrt(3 n); five of these are allowed.
TEST(ClassicControlTest, StartsAreUniform) {
  const std::pair<const char*, std::vector<std::pair<double, double>>> expected[] = {
      {"CartPole-v1", {{-0.05, 0.05}, {-0.05, 0.05}, {-0.05, 0.05}, {-0.05, 0.05}}},
      {"Pendulum-v1", {{-3.14159265, 3.14159265}, {-1, 1}}},
      {"MountainCar-v0", {{-0.6, -0.4}, {0, 0}}},
      {"MountainCarContinuous-v0", {{-0.6, -0.4}, {0, 0}}},
      {"Acrobot-v1", {{-0.1, 0.1}, {-0.1, 0.1}, {-0.1, 0.1}, {-0.1, 0.1}}}};
  constexpr int kStarts = 2000;
  for (const auto& [name, ranges] : expected) {
    Stage stage(name);
    std::vector<double> sums(ranges.size());
    std::vector<double> lows(ranges.size(), 1e9);
    std::vector<double> highs(ranges.size(), -1e9);
    std::vector<double> state(ranges.size());
    for (uint64_t seed = 0; seed < kStarts; ++seed) {
      ASSERT_THAT(stage.Reset({seed, {}}), IsOk());
      StateDict dict;
      ASSERT_THAT(stage.env().SaveState(&dict), IsOk());
      ASSERT_THAT(dict.ReadSpan<double>("state", absl::MakeSpan(state)), IsOk());
      for (size_t i = 0; i < state.size(); ++i) {
        sums[i] += state[i];
        lows[i] = std::min(lows[i], state[i]);
        highs[i] = std::max(highs[i], state[i]);
      }
    }
    for (size_t i = 0; i < state.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(name, ", number ", i));
      const auto [low, high] = ranges[i];
      const double half = (high - low) / 2;
      EXPECT_NEAR(sums[i] / kStarts, (low + high) / 2, 5 * half / std::sqrt(3.0 * kStarts));
      EXPECT_NEAR(lows[i], low, 0.01 * half + 1e-7);
      EXPECT_NEAR(highs[i], high, 0.01 * half + 1e-7);
    }
  }
}

class Picture {
 public:
  explicit Picture(Image image) : image_(std::move(image)) {}
  int width() const { return image_.width; }
  int height() const { return image_.height; }
  // The color of a pixel, counted from the lower left.
  std::vector<int> At(int x, int y) const {
    const size_t pixel = (static_cast<size_t>(image_.height - 1 - y) * image_.width + x) * 3;
    return {image_.rgb.at(pixel), image_.rgb.at(pixel + 1), image_.rgb.at(pixel + 2)};
  }

 private:
  Image image_;
};

Picture Render(const std::string& name, absl::Span<const double> state) {
  Stage stage(name);
  EXPECT_THAT(stage.StartAt(state), IsOk());
  absl::StatusOr<Image> image = stage.env().Render();
  EXPECT_THAT(image, IsOk());
  return Picture(*std::move(image));
}

TEST(ClassicControlTest, RendersTheState) {
  const std::vector<int> white = {255, 255, 255};
  const Picture cartpole = Render("CartPole-v1", {1.2, 0, 0.1, 0});
  EXPECT_EQ(cartpole.width(), 600);
  EXPECT_EQ(cartpole.height(), 400);
  EXPECT_THAT(cartpole.At(430, 95), ElementsAre(0, 0, 0));         // the cart, right of centre
  EXPECT_THAT(cartpole.At(460, 207), ElementsAre(202, 152, 101));  // the pole leans right
  EXPECT_EQ(cartpole.At(440, 207), white);                         // not left
  EXPECT_EQ(cartpole.At(300, 95), white);
  const Picture pendulum = Render("Pendulum-v1", {0, 0});
  EXPECT_EQ(pendulum.width(), 500);
  EXPECT_THAT(pendulum.At(250, 340), ElementsAre(204, 77, 77));  // upright
  EXPECT_EQ(pendulum.At(250, 160), white);
  const Picture car = Render("MountainCar-v0", {-0.5236, 0});
  EXPECT_EQ(car.width(), 600);
  EXPECT_THAT(car.At(225, 55), ElementsAre(0, 0, 0));  // at the bottom of the valley
  const Picture acrobot = Render("Acrobot-v1", {0, 1.5708, 0, 0});
  EXPECT_EQ(acrobot.height(), 500);
  EXPECT_THAT(acrobot.At(250, 200), ElementsAre(0, 204, 204));  // link 1 hangs
  EXPECT_THAT(acrobot.At(310, 136), ElementsAre(0, 204, 204));  // link 2 points to the right
  EXPECT_EQ(acrobot.At(190, 136), white);
}

}  // namespace
}  // namespace ding
