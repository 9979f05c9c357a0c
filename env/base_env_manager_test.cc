#include "ding_worker/env/base_env_manager.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr absl::StatusCode kInternal = absl::StatusCode::kInternal;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// A manager of three scripted envs and what is needed to drive it.
class BaseEnvManagerTest : public testing::Test {
 protected:
  BaseEnvManagerTest() {
    for (int i = 0; i < 3; ++i) scripts_.push_back(std::make_shared<ScriptedEnvScript>());
    options_.sleep = [this](absl::Duration time) { slept_.push_back(time); };
  }

  std::vector<EnvFactory> Factories() {
    std::vector<EnvFactory> factories;
    for (const auto& script : scripts_) factories.push_back(ScriptedEnvFactory(script));
    return factories;
  }

  std::unique_ptr<BaseEnvManager> Create() {
    absl::StatusOr<std::unique_ptr<BaseEnvManager>> manager =
        BaseEnvManager::Create(options_, Factories());
    EXPECT_THAT(manager, IsOk());
    return manager.ok() ? *std::move(manager) : nullptr;
  }

  std::unique_ptr<BaseEnvManager> Launched() {
    std::unique_ptr<BaseEnvManager> manager = Create();
    EXPECT_THAT(manager->Launch(), IsOk());
    return manager;
  }

  // Steps `env_ids` with these actions, 0 where there are none.
  absl::StatusOr<const Timesteps*> Step(EnvManager* manager, const std::vector<int>& env_ids,
                                        std::vector<int64_t> actions = {}) {
    actions.resize(env_ids.size());
    std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
    return manager->Step(env_ids, ColumnsView(manager->env_spec().action.get(), &column, 0,
                                              static_cast<int64_t>(actions.size())));
  }
  absl::StatusOr<const Timesteps*> StepReady(EnvManager* manager) {
    const ReadyObs ready = manager->ready_obs();
    return Step(manager, std::vector<int>(ready.env_ids.begin(), ready.env_ids.end()));
  }

  static std::vector<EnvState> States(const EnvManager& manager) {
    std::vector<EnvState> states;
    for (int i = 0; i < manager.env_num(); ++i) states.push_back(manager.env_state(i));
    return states;
  }

  // Row `i` of what is ready.
  static std::vector<float> Row(const ReadyObs& ready, int i) {
    const absl::Span<const float> row = ready.obs.row(i).field<float>(0);
    return {row.begin(), row.end()};
  }

  BaseEnvManager::Options options_;
  std::vector<std::shared_ptr<ScriptedEnvScript>> scripts_;
  std::vector<absl::Duration> slept_;
};

TEST_F(BaseEnvManagerTest, StatesFollowThePhases) {
  options_.episode_num = 2;
  const auto manager = Create();
  EXPECT_TRUE(manager->closed());
  EXPECT_THAT(States(*manager), Each(EnvState::kVoid));
  EXPECT_THAT(manager->ready_obs().env_ids, IsEmpty());
  ASSERT_THAT(manager->Launch(), IsOk());
  EXPECT_FALSE(manager->closed());
  EXPECT_THAT(States(*manager), Each(EnvState::kRun));
  for (int step = 0; step < 9; ++step) {
    ASSERT_THAT(StepReady(manager.get()), IsOk());
    EXPECT_THAT(States(*manager), Each(EnvState::kRun));
    EXPECT_FALSE(manager->done());
  }
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  EXPECT_THAT(States(*manager), Each(EnvState::kDone));
  EXPECT_TRUE(manager->done());
  EXPECT_THAT(manager->ready_obs().env_ids, IsEmpty());
  manager->Close();
  EXPECT_TRUE(manager->closed());
  EXPECT_THAT(States(*manager), Each(EnvState::kVoid));
}

TEST_F(BaseEnvManagerTest, ObservationsAndEndsOfEpisodes) {
  scripts_[1]->episode_length = 1;
  scripts_[2]->episode_length = 1;
  scripts_[2]->truncate = true;
  scripts_[2]->info = {{"eval_episode_return", 7.5}, {"score", 3}};
  const auto manager = Launched();
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps,
                            Step(manager.get(), {0, 1, 2}, {1, 0, 1}));
  EXPECT_THAT(steps->env_ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(steps->reward, ElementsAre(1, 1, 1));
  EXPECT_THAT(steps->terminated, ElementsAre(0, 1, 0));
  EXPECT_THAT(steps->truncated, ElementsAre(0, 0, 1));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 0, 0));
  ASSERT_THAT(steps->finished, SizeIs(2));
  EXPECT_EQ(steps->finished[0].row, 1);
  EXPECT_EQ(steps->finished[0].episode_return, 1);
  EXPECT_EQ(steps->finished[0].length, 1);
  EXPECT_EQ(steps->finished[1].row, 2);
  EXPECT_EQ(steps->finished[1].episode_return, 7.5);
  EXPECT_EQ(steps->finished[1].info.GetOr("score", 0), 3);
  // The last observations of the two that ended, and the first ones of their next episodes.
  EXPECT_THAT(steps->final_obs.column<float>(0), ElementsAre(1, 1, 0, 1, 1, 1));
  const ReadyObs ready = manager->ready_obs();
  EXPECT_THAT(Row(ready, 0), ElementsAre(1, 1, 1));
  EXPECT_THAT(Row(ready, 1), ElementsAre(2, 0, -1));
  EXPECT_THAT(Row(ready, 2), ElementsAre(2, 0, -1));
}

}  // namespace
}  // namespace ding
