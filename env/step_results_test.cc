// What an env returns beside observations and one reward: the info fields that it declares
// (EnvSpec::info) and rewards of several components. All env managers, and what is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_adapters.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/process/process_message.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "ding_worker/env/testing/objectives_env.h"
#include "ding_worker/env/testing/telling_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

constexpr int kEnvs = 3;

INSTANTIATE_TEST_SUITE_P(Telling, EnvConformance,
                         testing::Values(EnvConformanceCase{"telling", TellingEnv::Make}),
                         EnvConformanceName);

struct ManagerCase {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<EnvManager>>(std::vector<EnvFactory>)> create;
};

std::vector<ManagerCase> ManagerCases() {
  return {ManagerCase{
              "Base",
              [](std::vector<EnvFactory> factories) -> absl::StatusOr<std::unique_ptr<EnvManager>> {
                return BaseEnvManager::Create({}, std::move(factories));
              }},
          ManagerCase{
              "Threads",
              [](std::vector<EnvFactory> factories) -> absl::StatusOr<std::unique_ptr<EnvManager>> {
                return CreateAsyncThreadEnvManager({}, std::move(factories));
              }},
          ManagerCase{
              "Processes",
              [](std::vector<EnvFactory> factories) -> absl::StatusOr<std::unique_ptr<EnvManager>> {
                return CreateSubprocessEnvManager({}, std::move(factories));
              }}};
}

std::string ManagerCaseName(const testing::TestParamInfo<ManagerCase>& info) {
  return info.param.name;
}

class InfoTest : public testing::TestWithParam<ManagerCase> {
 protected:
  static absl::StatusOr<std::unique_ptr<EnvManager>> Launched(std::vector<EnvFactory> factories) {
    auto manager = GetParam().create(std::move(factories));
    if (!manager.ok()) return manager;
    // Episodes of 3, 4 and 5 steps.
    const std::vector<uint64_t> seeds = {0, 1, 2};
    EXPECT_THAT((*manager)->Seed(seeds, /*dynamic=*/false), IsOk());
    const absl::Status launched = (*manager)->Launch();
    if (!launched.ok()) return launched;
    return manager;
  }
};

absl::StatusOr<const Timesteps*> StepEnvs(EnvManager* manager, const std::vector<int>& ids,
                                          const std::vector<int64_t>& actions) {
  auto rows =
      *BatchBuilder::Create(manager->env_spec().action, static_cast<int64_t>(actions.size()));
  std::copy(actions.begin(), actions.end(), rows.column<int64_t>(0).begin());
  return manager->Step(ids, rows.view());
}

TEST_P(InfoTest, Step_DeclaredFields_AreColumnsOfTheTimesteps) {
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, Launched({kEnvs, TellingEnv::Make}));
  ASSERT_NE(manager->env_spec().info, nullptr);
  std::vector<int64_t> length = {3, 4, 5};
  std::vector<int64_t> step(kEnvs, 0);
  for (int64_t i = 0; i < 24; ++i) {
    // Not all envs, and in another order.
    const std::vector<int> ids = i % 3 == 0 ? std::vector<int>{2, 0} : std::vector<int>{0, 1, 2};
    const std::vector<int64_t> actions(ids.size(), i % 2);
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepEnvs(manager.get(), ids, actions));
    ASSERT_EQ(steps->info.rows(), static_cast<int64_t>(ids.size()));
    EXPECT_TRUE(steps->info.spec() == *manager->env_spec().info);
    size_t finished = 0;
    for (size_t row = 0; row < ids.size(); ++row) {
      const auto env = static_cast<size_t>(ids[row]);
      const int64_t t = ++step[env];
      const RowView info = steps->info.row(static_cast<int64_t>(row));
      EXPECT_EQ(info.scalar<int64_t>(0), t);
      EXPECT_THAT(info.field<double>(1), ElementsAre(t, i % 2));
      EXPECT_EQ(info.scalar<uint8_t>(2), i % 2);
      EXPECT_THAT(info.field<int32_t>(3), ElementsAre(t, 2 * t, 3 * t, 4 * t));
      if (t != length[env]) continue;
      // A metric of the episode has the last value of each single number.
      ASSERT_LT(finished, steps->finished.size());
      const FinishedEpisode& episode = steps->finished[finished++];
      EXPECT_EQ(episode.info.Get("step"), t);
      EXPECT_EQ(episode.info.Get("seen"), i % 2);
      EXPECT_EQ(episode.info.Get("position"), std::nullopt);
      step[env] = 0;
    }
    EXPECT_EQ(finished, steps->finished.size());
  }
}

TEST_P(InfoTest, Step_FieldsChange_IsAnErrorWithNameFoundAndExpected) {
  const EnvFactory changes = []() -> absl::StatusOr<std::unique_ptr<Env>> {
    return std::make_unique<TellingEnv>([](int64_t step, StepResult* result) {
      if (step < 2) return;
      result->info_row.Clear(*MakeSpec({Scalar("info/steps", DType::kInt64)}));
    });
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, Launched({kEnvs, changes}));
  ASSERT_THAT(StepEnvs(manager.get(), {0, 1, 2}, {0, 0, 0}), IsOk());
  EXPECT_THAT(StepEnvs(manager.get(), {0, 1, 2}, {0, 0, 0}).status(),
              IsInternal("env 0 (Telling)", "info/steps", "info/step"));
}

TEST_P(InfoTest, Step_FieldOfAnotherType_IsAnError) {
  const EnvFactory wrong = []() -> absl::StatusOr<std::unique_ptr<Env>> {
    return std::make_unique<TellingEnv>(
        [](int64_t, StepResult* result) { result->info_row.field<float>(1)[0] = 1; });
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, Launched({kEnvs, wrong}));
  EXPECT_THAT(StepEnvs(manager.get(), {0, 1, 2}, {0, 0, 0}).status(),
              IsInternal("info/position", "float64", "float32"));
}

INSTANTIATE_TEST_SUITE_P(Managers, InfoTest, testing::ValuesIn(ManagerCases()), ManagerCaseName);

TEST(InfoSpecTest, OtherNamesAreRefused) {
  EnvSpec spec = TellingEnv().spec();
  EXPECT_THAT(ValidateEnvSpec(spec), IsOk());
  spec.info = *MakeSpec({Scalar("distance", DType::kFloat32)});
  EXPECT_THAT(ValidateEnvSpec(spec),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "env 'Telling': info field 'distance' must be named 'info/<name>'"));
}

TEST(InfoSpecTest, ReachesOtherProcesses) {
  ProcessMessageWriter out;
  Put(TellingEnv().spec(), &out);
  ProcessMessageReader in(out.bytes());
  EnvSpec spec;
  ASSERT_THAT(TakeEnvSpec(&in, &spec), IsOk());
  ASSERT_NE(spec.info, nullptr);
  EXPECT_TRUE(*spec.info == *TellingEnv().spec().info);
}

// Tests of rewards of several components: all env managers against a replay of the episodes by
// hand, what is refused, and MakeWeightedReward().

constexpr size_t kComponents = 3;

absl::StatusOr<std::unique_ptr<Env>> MakeWeightedObjectives() {
  return MakeWeightedReward(std::make_unique<ObjectivesEnv>(Shape{3}), {1, 0, -2});
}

INSTANTIATE_TEST_SUITE_P(Objectives, EnvConformance,
                         testing::Values(EnvConformanceCase{"one", ObjectivesEnv::Factory({1})},
                                         EnvConformanceCase{"three", ObjectivesEnv::Factory({3})},
                                         EnvConformanceCase{"weighted", MakeWeightedObjectives}),
                         EnvConformanceName);

class RewardComponentsTest : public testing::TestWithParam<ManagerCase> {
 protected:
  static std::unique_ptr<EnvManager> Manager(const EnvFactory& factory) {
    auto manager = GetParam().create(std::vector<EnvFactory>(kEnvs, factory));
    EXPECT_THAT(manager, IsOk());
    if (!manager.ok()) return nullptr;
    EXPECT_THAT((*manager)->Seed(7, /*dynamic=*/true), IsOk());
    EXPECT_THAT((*manager)->Launch(), IsOk());
    return *std::move(manager);
  }
};

absl::StatusOr<const Timesteps*> Step(EnvManager* manager, const std::vector<int64_t>& actions) {
  auto rows =
      *BatchBuilder::Create(manager->env_spec().action, static_cast<int64_t>(actions.size()));
  std::copy(actions.begin(), actions.end(), rows.column<int64_t>(0).begin());
  std::vector<int> ids;
  for (size_t i = 0; i < actions.size(); ++i) ids.push_back(static_cast<int>(i));
  return manager->Step(ids, rows.view());
}

// The sums of the rewards of the running episode of an env.
struct Sums {
  std::vector<double> components = std::vector<double>(kComponents, 0);
  double all = 0;
};

// Checks a step against the observations before and after it, by the rules of ObjectivesEnv.
void ExpectStep(const Timesteps& steps, const ReadyObs& after, std::vector<Sums>* sums) {
  size_t finished = 0;
  ASSERT_EQ(steps.reward_components.size(), kEnvs * kComponents);
  for (size_t env = 0; env < kEnvs; ++env) {
    const bool ends = steps.terminated[env] != 0 || steps.truncated[env] != 0;
    const ColumnsView& seen = ends ? steps.final_obs : after.obs;
    const auto row = ends ? finished : env;
    const float x = seen.column<float>(0)[2 * row];
    const float t = seen.column<float>(0)[2 * row + 1];
    double sum = 0;
    for (size_t c = 0; c < kComponents; ++c) {
      const float reward = static_cast<float>(c + 1) * x + t;
      EXPECT_EQ(steps.reward_components[env * kComponents + c], reward);
      (*sums)[env].components[c] += reward;
      sum += reward;
    }
    EXPECT_EQ(steps.reward[env], static_cast<float>(sum));
    (*sums)[env].all += sum;
    if (!ends) continue;
    const FinishedEpisode& episode = steps.finished[finished++];
    EXPECT_THAT(episode.episode_return, DoubleEq((*sums)[env].all));
    ASSERT_EQ(episode.component_returns.size(), kComponents);
    for (size_t c = 0; c < kComponents; ++c) {
      EXPECT_THAT(episode.component_returns[c], DoubleEq((*sums)[env].components[c]));
    }
    (*sums)[env] = Sums();
  }
}

TEST_P(RewardComponentsTest, RewardsAndReturnsAreThoseOfTheSteps) {
  const auto manager = Manager(ObjectivesEnv::Factory({kComponents}));
  ASSERT_NE(manager, nullptr);
  EXPECT_EQ(manager->env_spec().reward_components(), kComponents);
  std::vector<Sums> sums(kEnvs);
  Rng rng(1, "actions");
  int episodes = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<int64_t> actions;
    for (int env = 0; env < kEnvs; ++env) {
      actions.push_back(static_cast<int64_t>(rng.UniformInt(2)));
    }
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get(), actions));
    episodes += static_cast<int>(steps->finished.size());
    ExpectStep(*steps, manager->ready_obs(), &sums);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(episodes, 20);
}

TEST_P(RewardComponentsTest, ReturnsContinueAfterLoading) {
  const auto saved = Manager(ObjectivesEnv::Factory({kComponents}));
  ASSERT_NE(saved, nullptr);
  ASSERT_THAT(Step(saved.get(), {0, 1, 1}), IsOk());
  ASSERT_THAT(Step(saved.get(), {1, 1, 0}), IsOk());
  StateDict state;
  ASSERT_THAT(saved->SaveState(&state), IsOk());
  const auto loaded = Manager(ObjectivesEnv::Factory({kComponents}));
  std::vector<int> restarted;
  ASSERT_THAT(loaded->LoadState(&state, &restarted), IsOk());
  EXPECT_THAT(restarted, ElementsAre());
  int episodes = 0;
  for (int i = 0; i < 8; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const expected, Step(saved.get(), {1, 0, 1}));
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(loaded.get(), {1, 0, 1}));
    EXPECT_EQ(steps->reward_components, expected->reward_components);
    ASSERT_EQ(steps->finished.size(), expected->finished.size());
    for (size_t k = 0; k < steps->finished.size(); ++k, ++episodes) {
      EXPECT_EQ(steps->finished[k].episode_return, expected->finished[k].episode_return);
      EXPECT_EQ(steps->finished[k].component_returns, expected->finished[k].component_returns);
    }
  }
  EXPECT_GE(episodes, kEnvs);
}

TEST_P(RewardComponentsTest, ResultsThatDoNotFitTheSpecAreErrors) {
  const auto error_of = [](const ObjectivesEnv::Alter& alter) {
    const auto manager = Manager(ObjectivesEnv::Factory({kComponents}, alter));
    return Step(manager.get(), {0, 1, 1}).status();
  };
  EXPECT_THAT(
      error_of([](int64_t, StepResult* result) { result->reward_components.pop_back(); }),
      IsInternal("env 0 (Objectives): 2 reward_components, expected 3 as its reward_shape says"));
  EXPECT_THAT(error_of([](int64_t, StepResult* result) { result->reward = 2; }),
              IsInternal("reward is 2 beside 3 reward_components, expected that it stays 0"));
  EXPECT_THAT(
      error_of([](int64_t, StepResult* result) {
        result->reward_components[1] = std::numeric_limits<float>::quiet_NaN();
      }),
      IsInternal("env 0 (Objectives): at step 1 of its episode: component 1 of the reward is nan"));
}

TEST_P(RewardComponentsTest, ComponentsThatTheSpecDoesNotHaveAreNoticedAtTheEnd) {
  const auto manager = Manager(ObjectivesEnv::Factory({}, [](int64_t step, StepResult* result) {
    result->reward_components.assign(2, 1);
    result->truncated = step == 2;
  }));
  const absl::Status first = Step(manager.get(), {0, 1, 1}).status();
  EXPECT_THAT(first.ok() ? Step(manager.get(), {0, 1, 1}).status() : first,
              IsInternal("2 reward_components, expected 0 as its reward_shape says"));
}

TEST_P(RewardComponentsTest, AnAbnormalStepHasNoRewards) {
  const auto manager =
      Manager(ObjectivesEnv::Factory({kComponents}, [](int64_t, StepResult* result) {
        result->abnormal = true;
        result->reward_components[0] = std::numeric_limits<float>::infinity();
      }));
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get(), {0, 1, 1}));
  EXPECT_THAT(steps->reward_components, testing::Each(0));
  EXPECT_THAT(steps->reward, testing::Each(0));
  EXPECT_TRUE(steps->finished.empty());
}

TEST_P(RewardComponentsTest, AllEnvsMustHaveTheSameComponents) {
  auto manager = GetParam().create({ObjectivesEnv::Factory({3}), ObjectivesEnv::Factory({2})});
  ASSERT_THAT(manager, IsOk());
  EXPECT_THAT((*manager)->Launch(), IsInvalid("its reward is float32[2], expected float32[3]"));
}

TEST_P(RewardComponentsTest, StatisticsOfTheEnv_WithNamesOfReturns_StandBesideThem) {
  const auto manager =
      Manager(ObjectivesEnv::Factory({kComponents}, [](int64_t, StepResult* result) {
        result->truncated = true;
        result->info = {{"return_1", 5}, {"eval_episode_return", 6}};
      }));
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get(), {0, 1, 1}));
  ASSERT_EQ(steps->finished.size(), kEnvs);
  EXPECT_EQ(steps->finished[0].episode_return, 6);
  EXPECT_EQ(steps->finished[0].info.Get("return_1"), 5);
  EXPECT_THAT(steps->finished[0].component_returns,
              ElementsAre(steps->reward_components[0], steps->reward_components[1],
                          steps->reward_components[2]));
}

TEST_P(RewardComponentsTest, WeightedRewards_KeepTheReturnsOfTheirComponents) {
  const auto manager = Manager([]() -> absl::StatusOr<std::unique_ptr<Env>> {
    return MakeWeightedReward(std::make_unique<ObjectivesEnv>(Shape{kComponents},
                                                              [](int64_t step, StepResult* result) {
                                                                result->terminated = false;
                                                                result->truncated = step == 2;
                                                                if (step == 2)
                                                                  result->info = {{"return_1", 5}};
                                                              }),
                              {1, 0, -2});
  });
  ASSERT_NE(manager, nullptr);
  for (int episode = 0; episode < 2; ++episode) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* steps, Step(manager.get(), {0, 1, 1}));
    EXPECT_TRUE(steps->finished.empty());
    DING_ASSERT_OK_AND_ASSIGN(steps, Step(manager.get(), {0, 1, 1}));
    ASSERT_EQ(steps->finished.size(), kEnvs);
    const FinishedEpisode& finished = steps->finished[0];
    EXPECT_EQ(finished.info.Get("return_1"), 5);
    ASSERT_EQ(finished.component_returns.size(), kComponents);
    EXPECT_NEAR(finished.component_returns[0] - 2 * finished.component_returns[2],
                finished.episode_return, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Managers, RewardComponentsTest, testing::ValuesIn(ManagerCases()),
                         ManagerCaseName);

TEST(RewardShapeTest, ShapesOtherThanAListAreRefused) {
  const auto error_of = [](const Shape& shape) {
    return ValidateEnvSpec(ObjectivesEnv(shape).spec());
  };
  EXPECT_THAT(error_of({}), IsOk());
  EXPECT_THAT(error_of({1}), IsOk());
  EXPECT_THAT(error_of({2, 2}), IsInvalid("env 'Objectives': reward_shape is [2, 2], expected [] "
                                          "or [R] with 1 to 65536 components"));
  EXPECT_THAT(error_of({0}), IsInvalid());
}

TEST(WeightedRewardTest, TheRewardIsTheWeightedSum) {
  DING_ASSERT_OK_AND_ASSIGN(
      const auto manager,
      BaseEnvManager::Create({}, std::vector<EnvFactory>(kEnvs, MakeWeightedObjectives)));
  DING_ASSERT_OK_AND_ASSIGN(
      const auto objectives,
      BaseEnvManager::Create({}, std::vector<EnvFactory>(kEnvs, ObjectivesEnv::Factory({3}))));
  EXPECT_TRUE(manager->env_spec().reward_shape.empty());
  EXPECT_EQ(manager->env_spec().reward_low, -20 - 2 * 40);
  EXPECT_EQ(manager->env_spec().reward_high, 40 + 2 * 20);
  ASSERT_THAT(manager->Launch(), IsOk());
  ASSERT_THAT(objectives->Launch(), IsOk());
  int episodes = 0;
  for (int i = 0; i < 40; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get(), {1, 0, 1}));
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const expected, Step(objectives.get(), {1, 0, 1}));
    EXPECT_TRUE(steps->reward_components.empty());
    for (size_t env = 0; env < kEnvs; ++env) {
      const double first = expected->reward_components[3 * env];
      const double third = expected->reward_components[3 * env + 2];
      EXPECT_EQ(steps->reward[env], static_cast<float>(first - 2 * third));
    }
    ASSERT_EQ(steps->finished.size(), expected->finished.size());
    for (size_t k = 0; k < steps->finished.size(); ++k, ++episodes) {
      EXPECT_EQ(steps->finished[k].component_returns, expected->finished[k].component_returns);
    }
  }
  EXPECT_GT(episodes, 10);
}

TEST(WeightedRewardTest, OtherWeightsAreRefused) {
  const auto error_of = [](const Shape& shape, std::vector<double> weights) {
    return MakeWeightedReward(std::make_unique<ObjectivesEnv>(shape), std::move(weights)).status();
  };
  EXPECT_THAT(error_of({3}, {1, 2}), IsInvalid("reward_weights are [1, 2], but the reward of env "
                                               "'Objectives' is float32[3], expected 3 weights"));
  EXPECT_THAT(error_of({}, {1}),
              IsInvalid("is float32[], expected no weights: it is one number already"));
  EXPECT_THAT(error_of({2}, {1, std::numeric_limits<double>::infinity()}),
              IsInvalid("expected finite numbers"));
}

TEST(WeightedRewardTest, AConfigGivesTheWeights) {
  const ScopedRegistration<EnvCreator> objectives(
      &EnvRegistry(), "objectives", [](const EnvConfig&) { return ObjectivesEnv::Factory({2})(); });
  EnvConfig config;
  config.set_type("objectives");
  DING_ASSERT_OK_AND_ASSIGN(const auto as_it_is, create_env(config));
  EXPECT_EQ(as_it_is->spec().reward_components(), 2);
  config.add_reward_weights(1);
  EXPECT_THAT(create_env(config), IsInvalid("expected 2 weights"));
  config.add_reward_weights(0.5);
  DING_ASSERT_OK_AND_ASSIGN(const auto weighted, create_env(config));
  EXPECT_EQ(weighted->spec().reward_components(), 0);
}

}  // namespace
}  // namespace ding
