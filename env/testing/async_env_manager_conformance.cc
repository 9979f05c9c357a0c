// Tests for env managers that can return before all envs have answered.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/testing/env_manager_conformance.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AsyncEnvManagerConformance);

TEST_P(AsyncEnvManagerConformance, OtherEnvsContinueWhileOneIsBusy) {
  const auto manager = LaunchedWith(1);
  scripts_[0]->hold_steps = true;
  // The first call steps all three envs.
  std::vector<int> steps(3, 0);
  for (int i = 0; i < 20; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const answered, StepReady(manager.get()));
    for (const int env_id : answered->env_ids) ++steps[static_cast<size_t>(env_id)];
    EXPECT_THAT(manager->ready_obs().env_ids, Not(Contains(0)));
  }
  EXPECT_EQ(steps[0], 0);
  EXPECT_GE(steps[1] + steps[2], 1);
  EXPECT_EQ(manager->env_state(0), EnvState::kRun);
  EXPECT_THAT(Step(manager.get(), {0}), IsFailedPrecondition("env 0", "not answered"));
  EXPECT_THAT(manager->Render(0), IsFailedPrecondition("not answered"));
  scripts_[0]->hold_steps = false;
  // Calls that step no env collect the answers of busy envs.
  while (steps[0] == 0) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const answered, Step(manager.get(), {}));
    for (const int env_id : answered->env_ids) ++steps[static_cast<size_t>(env_id)];
  }
  EXPECT_THAT(manager->ready_obs().env_ids, Contains(0));
  EXPECT_EQ(Row(manager->ready_obs(), 0)[1], 1);
}

TEST_P(AsyncEnvManagerConformance, EveryStepIsReportedOnce) {
  scripts_[1]->episode_length = 3;
  scripts_[2]->episode_length = 1;
  for (const int wait_num : {1, 2}) {
    const auto manager = LaunchedWith(wait_num);
    std::vector<int> asked(3, 0);
    std::vector<int> answered(3, 0);
    std::vector<int64_t> finished(3, 0);
    const auto take = [&](const Timesteps& steps) {
      EXPECT_TRUE(std::is_sorted(steps.env_ids.begin(), steps.env_ids.end()));
      for (const int env_id : steps.env_ids) ++answered[static_cast<size_t>(env_id)];
      for (const FinishedEpisode& episode : steps.finished) {
        const int env_id = steps.env_ids[static_cast<size_t>(episode.row)];
        EXPECT_EQ(episode.length, scripts_[static_cast<size_t>(env_id)]->episode_length);
        EXPECT_EQ(episode.episode_return, static_cast<double>(episode.length));
        ++finished[static_cast<size_t>(env_id)];
      }
    };
    for (int i = 0; i < 300; ++i) {
      for (const int env_id : manager->ready_obs().env_ids) ++asked[static_cast<size_t>(env_id)];
      DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
      take(*steps);
    }
    while (answered != asked) {
      DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get(), {}));
      take(*steps);
    }
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_GT(asked[i], 0);
      EXPECT_EQ(finished[i], asked[i] / scripts_[i]->episode_length);
    }
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const none, Step(manager.get(), {}));
    EXPECT_THAT(none->env_ids, IsEmpty());
  }
}

TEST_P(AsyncEnvManagerConformance, AnEnvThatIsResettingBecomesReadyLater) {
  scripts_[0]->episode_length = 1;
  const auto manager = LaunchedWith(1);
  scripts_[0]->hold_resets = true;
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* steps, Step(manager.get(), {0}));
  EXPECT_THAT(steps->env_ids, ElementsAre(0));
  ASSERT_THAT(steps->finished, SizeIs(1));
  EXPECT_THAT(steps->final_obs.column<float>(0), ElementsAre(1, 1, 0));
  EXPECT_EQ(manager->env_state(0), EnvState::kReset);
  EXPECT_THAT(manager->ready_obs().env_ids, ElementsAre(1, 2));
  scripts_[0]->hold_resets = false;
  DING_ASSERT_OK_AND_ASSIGN(steps, Step(manager.get(), {}));
  EXPECT_THAT(steps->env_ids, IsEmpty());
  EXPECT_THAT(manager->ready_obs().env_ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(Row(manager->ready_obs(), 0), ElementsAre(2, 0, -1));
}

TEST_P(AsyncEnvManagerConformance, ResetWaitsForTheEnvsToReset) {
  const auto manager = LaunchedWith(1);
  scripts_[0]->hold_steps = true;
  while (manager->ready_obs().env_ids.size() == 3) {
    ASSERT_THAT(Step(manager.get(), {0, 1}), IsOk());
  }
  ASSERT_THAT(manager->Reset({EnvReset{1, {}}, EnvReset{2, {}}}), IsOk());
  EXPECT_THAT(manager->ready_obs().env_ids, ElementsAre(1, 2));
  scripts_[0]->hold_steps = false;
  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_THAT(manager->ready_obs().env_ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(Row(manager->ready_obs(), 0), ElementsAre(2, 0, -1));
  // The answers from before the reset are dropped.
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get(), {}));
  EXPECT_THAT(steps->env_ids, IsEmpty());
}

TEST_P(AsyncEnvManagerConformance, ABusyEnvIsSavedLikeOneThatCannotSaveItsState) {
  const auto manager = LaunchedWith(1);
  scripts_[0]->hold_steps = true;
  ASSERT_THAT(Step(manager.get(), {0, 1}), IsOk());
  StateDict saved;
  ASSERT_THAT(manager->SaveState(&saved), IsOk());
  scripts_[0]->hold_steps = false;
  manager->Close();  // The envs of both managers would write to the same scripts.
  const auto other = LaunchedWith(1);
  ASSERT_THAT(Step(other.get(), {0, 1, 2}), IsOk());
  std::vector<int> restarted;
  ASSERT_THAT(other->LoadState(&saved, &restarted), IsOk());
  EXPECT_THAT(restarted, Contains(0));
  EXPECT_THAT(restarted, Not(Contains(2)));
  EXPECT_THAT(States(*other), Each(EnvState::kRun));
  EXPECT_THAT(other->ready_obs().env_ids, ElementsAre(0, 1, 2));
}

TEST_P(AsyncEnvManagerConformance, AStepErrorNamesTheEnvAndOthersContinue) {
  scripts_[1]->on_step[1] = EnvFault::kThrow;
  const auto manager = LaunchedWith(1);
  scripts_[0]->hold_steps = true;
  EXPECT_THAT(Step(manager.get(), {0, 1}),
              IsInternal("env 1 (Scripted): step 1 of its episode failed"));
  EXPECT_THAT(States(*manager), ElementsAre(EnvState::kRun, EnvState::kError, EnvState::kRun));
  EXPECT_THAT(manager->ready_obs().env_ids, ElementsAre(2));
  scripts_[0]->hold_steps = false;
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step(manager.get(), {}));
  EXPECT_THAT(steps->env_ids, ElementsAre(0));
}

}  // namespace
}  // namespace ding
