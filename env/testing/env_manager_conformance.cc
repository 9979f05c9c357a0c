#include "ding_worker/env/testing/env_manager_conformance.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
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

TEST_P(EnvManagerConformance, StatesFollowTheLifeCycle) {
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

TEST_P(EnvManagerConformance, ReturnsObservationsAndEndsOfEpisodes) {
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
  // The last observations of the two ended episodes, and the first ones of the next episodes.
  EXPECT_THAT(steps->final_obs.column<float>(0), ElementsAre(1, 1, 0, 1, 1, 1));
  const ReadyObs ready = manager->ready_obs();
  EXPECT_THAT(Row(ready, 0), ElementsAre(1, 1, 1));
  EXPECT_THAT(Row(ready, 1), ElementsAre(2, 0, -1));
  EXPECT_THAT(Row(ready, 2), ElementsAre(2, 0, -1));
}

TEST_P(EnvManagerConformance, EveryEnvRunsItsOwnNumberOfEpisodes) {
  options_.episode_num = 2;
  scripts_[0]->episode_length = 2;
  scripts_[1]->episode_length = 6;
  scripts_[2]->episode_length = 3;
  const auto manager = Launched();
  std::vector<size_t> ready;
  int finished[3] = {};
  while (!manager->done()) {
    ready.push_back(manager->ready_obs().env_ids.size());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
    for (const FinishedEpisode& episode : steps->finished) {
      const int env_id = steps->env_ids[static_cast<size_t>(episode.row)];
      ++finished[env_id];
      EXPECT_EQ(episode.length, scripts_[static_cast<size_t>(env_id)]->episode_length);
    }
  }
  EXPECT_THAT(finished, ElementsAre(2, 2, 2));
  EXPECT_THAT(ready, ElementsAre(3, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1));
  // There was no further reset.
  EXPECT_EQ(scripts_[0]->log.resets, 2);
  EXPECT_THAT(Step(manager.get(), {0}), IsFailedPrecondition("DONE"));

  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_THAT(States(*manager), Each(EnvState::kRun));
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  EXPECT_EQ(manager->env_state(0), EnvState::kRun) << "counts begin anew with a reset of all";
}

TEST_P(EnvManagerConformance, RefusesASecondLaunchUntilClosed) {
  const auto manager = Launched();
  EXPECT_THAT(manager->Launch(), IsFailedPrecondition("launched already"));
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  manager->Close();
  manager->Close();
  EXPECT_EQ(scripts_[0]->log.alive, 0);
  const auto closed = IsFailedPrecondition("closed");
  EXPECT_THAT(manager->Reset(), closed);
  EXPECT_THAT(manager->Reset({EnvReset{0, {}}}), closed);
  EXPECT_THAT(Step(manager.get(), {0}), closed);
  EXPECT_THAT(manager->Render(0), closed);
  StateDict state;
  EXPECT_THAT(manager->SaveState(&state), closed);
  ASSERT_THAT(manager->Launch(), IsOk());
  EXPECT_THAT(StepReady(manager.get()), IsOk());
}

TEST_P(EnvManagerConformance, ReadyObservationsAreCopiedOnlyAcrossGaps) {
  options_.auto_reset = false;
  scripts_[1]->episode_length = 1;
  const auto manager = Launched();
  const std::byte* const block = manager->ready_obs().obs.raw_column(0);
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  const ReadyObs gap = manager->ready_obs();
  EXPECT_THAT(gap.env_ids, ElementsAre(0, 2));
  EXPECT_NE(gap.obs.raw_column(0), block);
  EXPECT_THAT(gap.obs.column<float>(0), ElementsAre(1, 1, 0, 1, 1, 0));
  ASSERT_THAT(Step(manager.get(), {2, 0}, {1, 0}), IsOk());  // in any order
  EXPECT_THAT(manager->ready_obs().obs.column<float>(0), ElementsAre(1, 2, 0, 1, 2, 1));
  ASSERT_THAT(manager->Reset({EnvReset{1, {}}}), IsOk());
  EXPECT_EQ(manager->ready_obs().obs.raw_column(0), block);
  EXPECT_THAT(manager->ready_obs().obs.column<float>(0), ElementsAre(1, 2, 0, 2, 0, -1, 1, 2, 1));
}

TEST_P(EnvManagerConformance, WithoutAutoResetAnEndedEnvNeedsAReset) {
  options_.auto_reset = false;
  scripts_[1]->episode_length = 1;
  const auto manager = Launched();
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  EXPECT_THAT(States(*manager), ElementsAre(EnvState::kRun, EnvState::kNeedReset, EnvState::kRun));
  EXPECT_EQ(scripts_[1]->log.resets, 1);
  EXPECT_THAT(Step(manager.get(), {1}), IsFailedPrecondition("env 1 (Scripted)", "NEED_RESET"));
  ASSERT_THAT(manager->Reset({EnvReset{1, {}}}), IsOk());
  EXPECT_EQ(manager->env_state(1), EnvState::kRun);
  EXPECT_EQ(scripts_[0]->log.resets, 1);
}

TEST_P(EnvManagerConformance, RefusesBadStepsBeforeSteppingAnything) {
  const auto manager = Launched();
  EXPECT_THAT(Step(manager.get(), {0, 3}), IsInvalid("no env 3"));
  EXPECT_THAT(Step(manager.get(), {-1}), IsInvalid("no env -1"));
  EXPECT_THAT(Step(manager.get(), {0, 1, 0}), IsInvalid("env 0", "twice"));
  EXPECT_THAT(Step(manager.get(), {0, 1}, {1, 2}), IsInvalid("env 1", "action 2", "0..1"));
  EXPECT_THAT(Step(manager.get(), {0, 1}, {-1, 0}), IsInvalid("env 0", "action -1"));
  std::vector<int64_t> actions = {0};
  std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
  EXPECT_THAT(manager->Step({0, 1}, ColumnsView(manager->env_spec().action.get(), &column, 0, 1)),
              IsInvalid("1 actions for 2 envs"));
  for (const auto& script : scripts_) EXPECT_EQ(script->log.steps, 0);
  EXPECT_THAT(States(*manager), Each(EnvState::kRun));
  EXPECT_THAT(StepReady(manager.get()), IsOk()) << "a refused step leaves no trace";
}

TEST_P(EnvManagerConformance, AcceptsActionsWithFurtherColumns) {
  const auto manager = Launched();
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr spec, MakeSpec({Discrete("action", 2), Box("q", {2})}));
  DING_ASSERT_OK_AND_ASSIGN(BatchBuilder block, BatchBuilder::Create(spec, 4));
  block.column<int64_t>(0)[1] = 0;
  block.column<int64_t>(0)[2] = 1;
  ASSERT_THAT(manager->Step({0, 1}, ColumnsView(block.view()).Slice(1, 2)), IsOk());
  EXPECT_EQ(Row(manager->ready_obs(), 0)[2], 0);
  EXPECT_EQ(Row(manager->ready_obs(), 1)[2], 1);
}

TEST_P(EnvManagerConformance, ResetErrorClosesTheManager) {
  options_.max_retry = 3;
  options_.retry_waiting_time = absl::Seconds(7);
  scripts_[1]->on_every_reset = EnvFault::kError;
  const auto manager = Create();
  EXPECT_THAT(manager->Launch(),
              IsUnavailable("env 1 (Scripted): reset failed", "attempts: 3", "scripted error"));
  EXPECT_TRUE(manager->closed());
  EXPECT_THAT(States(*manager), Each(EnvState::kVoid));
  EXPECT_EQ(scripts_[1]->log.resets, 3);
  if (GetParam().in_this_process) {
    EXPECT_THAT(slept_, ElementsAre(absl::Seconds(7), absl::Seconds(7)));
  }
}

TEST_P(EnvManagerConformance, AutomaticResetErrorClosesTheManager) {
  scripts_[2]->episode_length = 1;
  scripts_[2]->on_reset[2] = EnvFault::kThrow;
  const auto manager = Launched();
  EXPECT_THAT(StepReady(manager.get()), IsInternal("env 2 (Scripted): reset failed",
                                                   "threw an exception: scripted exception"));
  EXPECT_TRUE(manager->closed());
}

TEST_P(EnvManagerConformance, ResetThatFailsOnceRecovers) {
  options_.max_retry = 2;
  scripts_[1]->on_reset[1] = EnvFault::kThrow;
  const auto manager = Launched();
  EXPECT_EQ(scripts_[1]->log.built, 1) << "the same env tried again";
  ASSERT_EQ(scripts_[1]->log.starts.size(), 2);
  EXPECT_EQ(scripts_[1]->log.starts[0].seed, scripts_[1]->log.starts[1].seed);
  EXPECT_THAT(Row(manager->ready_obs(), 1), ElementsAre(2, 0, -1));
}

TEST_P(EnvManagerConformance, ResetThatFailsOnceRecoversWithANewEnv) {
  options_.max_retry = 2;
  options_.retry_type = EnvRetryType::kRenew;
  scripts_[1]->on_reset[1] = EnvFault::kThrowOther;
  const auto manager = Launched();
  EXPECT_EQ(scripts_[1]->log.built, 2);
  EXPECT_EQ(scripts_[1]->log.alive, 1) << "the old one is gone";
  if (GetParam().in_this_process) {
    EXPECT_EQ(scripts_[0]->log.built, 1);
  }
}

TEST_P(EnvManagerConformance, BuildErrorsAreResetErrors) {
  scripts_[2]->on_build[1] = EnvFault::kThrowOther;
  const auto manager = Create();
  EXPECT_THAT(manager->Launch(), IsInternal("env 2 (Scripted)", "not a std::exception"));
  EXPECT_TRUE(manager->closed());
  EXPECT_EQ(scripts_[0]->log.alive, 0);
}

TEST_P(EnvManagerConformance, ObservationOfAResetMustBeFinite) {
  scripts_[0]->on_reset[1] = EnvFault::kNanObservation;
  EXPECT_THAT(Create()->Launch(), IsInternal("env 0", "'obs', element 1, is nan"));
}

TEST_P(EnvManagerConformance, StepErrorStopsOneEnvAndLosesTheStepOfOthers) {
  scripts_[1]->on_step[2] = EnvFault::kThrow;
  const auto manager = Launched();
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  EXPECT_THAT(StepReady(manager.get()), IsInternal("env 1 (Scripted): step 2 of its episode failed",
                                                   "attempts: 1", "scripted exception"));
  EXPECT_FALSE(manager->closed());
  // The step of env 0 is lost; env 2 was either stepped likewise or not at all.
  const EnvState last = GetParam().one_by_one ? EnvState::kRun : EnvState::kNeedReset;
  EXPECT_THAT(States(*manager), ElementsAre(EnvState::kNeedReset, EnvState::kError, last));
  EXPECT_EQ(scripts_[2]->log.steps, GetParam().one_by_one ? 1 : 2);
  EXPECT_THAT(manager->ready_obs().env_ids, SizeIs(GetParam().one_by_one ? 1 : 0));
  EXPECT_THAT(Step(manager.get(), {1}), IsFailedPrecondition("ERROR"));
  ASSERT_THAT(manager->Reset({EnvReset{0, {}}, EnvReset{1, {}}, EnvReset{2, {}}}), IsOk());
  EXPECT_THAT(manager->Reset({EnvReset{1, {}}, EnvReset{1, {}}}), IsInvalid("env 1", "twice"));
  EXPECT_THAT(manager->ready_obs().env_ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(StepReady(manager.get()), IsOk());
}

TEST_P(EnvManagerConformance, FailedStepIsRetriedOnTheSameEnv) {
  options_.max_retry = 3;
  scripts_[1]->on_step[2] = EnvFault::kError;
  scripts_[1]->on_step[3] = EnvFault::kThrow;
  const auto manager = Launched();
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 0, 0));
  EXPECT_EQ(scripts_[1]->log.built, 1);
  EXPECT_EQ(scripts_[1]->log.steps, 4);
  if (GetParam().in_this_process) {
    EXPECT_THAT(slept_, SizeIs(2));
  }
  EXPECT_THAT(Row(manager->ready_obs(), 1), ElementsAre(1, 2, 0));
}

TEST_P(EnvManagerConformance, StepOnARenewedEnvIsVoid) {
  options_.max_retry = 2;
  options_.retry_type = EnvRetryType::kRenew;
  scripts_[1]->on_step[2] = EnvFault::kError;
  const auto manager = Launched();
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 1, 0));
  ASSERT_THAT(steps->causes, SizeIs(1));
  EXPECT_EQ(steps->causes[0].row, 1);
  EXPECT_THAT(steps->causes[0].cause, IsUnavailable("env 1", "scripted error"));
  EXPECT_EQ(scripts_[1]->log.built, 2);
  EXPECT_EQ(scripts_[1]->log.alive, 1);
  EXPECT_THAT(Row(manager->ready_obs(), 1), ElementsAre(2, 0, -1));
}

TEST_P(EnvManagerConformance, NonFiniteValuesAreNamedAndNotRetried) {
  options_.max_retry = 5;
  scripts_[2]->on_step[2] = EnvFault::kNanObservation;
  scripts_[1]->on_step[3] = EnvFault::kInfReward;
  const auto manager = Launched();
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  EXPECT_THAT(StepReady(manager.get()),
              IsInternal("env 2 (Scripted): at step 2", "field 'obs', element 1, is nan"));
  EXPECT_EQ(scripts_[2]->log.steps, 2);
  EXPECT_THAT(States(*manager),
              ElementsAre(EnvState::kNeedReset, EnvState::kNeedReset, EnvState::kError));
  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_THAT(StepReady(manager.get()),
              IsInternal("env 1 (Scripted): at step 1", "the reward is inf"));
}

TEST_P(EnvManagerConformance, StepThatIsNotFinite_IsAbnormalIfWanted) {
  scripts_[1]->on_step[2] = EnvFault::kNanObservation;
  scripts_[2]->on_step[5] = EnvFault::kInfReward;  // with the end of an episode
  options_.drop_not_finite = true;
  options_.max_retry = 3;
  const auto manager = Launched();
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* steps, StepReady(manager.get()));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 1, 0));
  EXPECT_THAT(steps->reward, ElementsAre(1, 0, 1));
  ASSERT_EQ(steps->causes.size(), 1);
  EXPECT_EQ(steps->causes[0].row, 1);
  EXPECT_THAT(steps->causes[0].cause.message(),
              AllOf(HasSubstr("env 1 (Scripted): at step 2 of its episode"),
                    HasSubstr("field 'obs', element 1, is nan")));
  EXPECT_THAT(Row(manager->ready_obs(), 1), ElementsAre(2, 0, -1));
  for (int i = 0; i < 2; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(steps, StepReady(manager.get()));
  EXPECT_THAT(steps->abnormal, ElementsAre(0, 0, 1));
  EXPECT_THAT(steps->terminated, ElementsAre(1, 0, 0));
  ASSERT_EQ(steps->finished.size(), 1);
  EXPECT_EQ(steps->finished[0].row, 0);
}

TEST_P(EnvManagerConformance, StepsThatAreNotFinite_AreBounded) {
  options_.drop_not_finite = true;
  options_.max_abnormal_steps = 2;
  // Two in a row, and an abnormal one among them; another step sets the count back.
  scripts_[1]->on_step = {{2, EnvFault::kNanObservation},
                          {3, EnvFault::kAbnormal},
                          {6, EnvFault::kInfReward},
                          {7, EnvFault::kAbnormal},
                          {8, EnvFault::kNanObservation}};
  const auto manager = Launched();
  for (int i = 0; i < 7; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk()) << i;
  EXPECT_THAT(StepReady(manager.get()),
              IsInternal("env 1 (Scripted): 3 abnormal steps in a row", "element 1, is nan"));
  EXPECT_EQ(manager->env_state(1), EnvState::kError);
}

TEST_P(EnvManagerConformance, ResetThatIsNotFinite_BeginsTheNextEpisodeIfWanted) {
  for (const int64_t reset : {2, 4, 5, 6}) scripts_[1]->on_reset[reset] = EnvFault::kNanObservation;
  options_.drop_not_finite = true;
  options_.max_abnormal_steps = 2;
  const auto manager = Launched();
  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_THAT(States(*manager), Each(EnvState::kRun));
  EXPECT_THAT(Row(manager->ready_obs(), 1), ElementsAre(3, 0, -1));
  EXPECT_THAT(manager->Reset(), IsInternal("element 1, is nan"));
  EXPECT_TRUE(manager->closed());
}

TEST_P(EnvManagerConformance, AbnormalStepIsVoidAndTheEnvContinues) {
  scripts_[1]->on_step[2] = EnvFault::kAbnormal;
  scripts_[1]->on_step[7] = EnvFault::kAbnormal;  // with the end of an episode
  for (const bool auto_reset : {true, false}) {
    SCOPED_TRACE(auto_reset);
    options_.auto_reset = auto_reset;
    for (const auto& script : scripts_) script->log = {};
    const auto manager = Launched();
    ASSERT_THAT(manager->Reset({EnvReset{1, NamedValues{{"level", 4}}}}), IsOk());
    ASSERT_THAT(StepReady(manager.get()), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepReady(manager.get()));
    EXPECT_THAT(steps->abnormal, ElementsAre(0, 1, 0));
    EXPECT_THAT(steps->reward, ElementsAre(1, 0, 1));
    EXPECT_THAT(States(*manager), Each(EnvState::kRun));
    EXPECT_THAT(Row(manager->ready_obs(), 0), ElementsAre(1, 2, 0));
    EXPECT_THAT(Row(manager->ready_obs(), 1), ElementsAre(3, 0, -1));
    // The reset has used the stored parameters.
    EXPECT_EQ(scripts_[1]->log.starts.back().params.GetOr("level", 0), 4);
    for (int i = 0; i < 4; ++i) ASSERT_THAT(Step(manager.get(), {1}), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const last, Step(manager.get(), {1}));
    EXPECT_THAT(last->abnormal, ElementsAre(1));
    EXPECT_THAT(last->terminated, ElementsAre(0));
    EXPECT_THAT(last->finished, IsEmpty());
    EXPECT_EQ(last->final_obs.rows(), 0);
  }
}

TEST_P(EnvManagerConformance, ConsecutiveAbnormalStepsAreBounded) {
  options_.max_abnormal_steps = 2;
  for (const int64_t step : {1, 2, 4, 5, 6}) scripts_[1]->on_step[step] = EnvFault::kAbnormal;
  const auto manager = Launched();
  for (int i = 0; i < 5; ++i) ASSERT_THAT(StepReady(manager.get()), IsOk()) << i;
  EXPECT_THAT(StepReady(manager.get()),
              IsInternal("env 1 (Scripted): 3 abnormal steps in a row", "at most 2"));
  EXPECT_EQ(manager->env_state(1), EnvState::kError);
  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_THAT(StepReady(manager.get()), IsOk());
}

std::vector<uint64_t> SeedsOf(const ScriptedEnvScript& script) {
  std::vector<uint64_t> seeds;
  const ScriptedEnvStarts& starts = script.log.starts;
  for (int64_t i = 0; i < starts.size(); ++i) seeds.push_back(starts[i].seed);
  return seeds;
}

TEST_P(EnvManagerConformance, DerivesSeedsOfEpisodes) {
  const auto derived = [](uint64_t seed, uint64_t episode) {
    return Rng::DeriveSeed(seed, "env/episode", episode);
  };
  const auto manager = Create();
  ASSERT_THAT(manager->Seed(40, /*dynamic=*/true), IsOk());
  ASSERT_THAT(manager->Launch(), IsOk());
  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_THAT(SeedsOf(*scripts_[1]), ElementsAre(derived(41, 0), derived(41, 1)));
  ASSERT_THAT(manager->Seed({7, 8, 9}, /*dynamic=*/true), IsOk());
  ASSERT_THAT(manager->Reset({EnvReset{1, {}}}), IsOk());
  EXPECT_EQ(SeedsOf(*scripts_[1]).back(), derived(8, 0));
  ASSERT_THAT(manager->Seed({7, 8, 9}, /*dynamic=*/false), IsOk());
  ASSERT_THAT(manager->Reset(), IsOk());
  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_THAT(SeedsOf(*scripts_[1]),
              ElementsAre(derived(41, 0), derived(41, 1), derived(8, 0), 8, 8));
  EXPECT_THAT(manager->Seed({1, 2}, true), IsInvalid("2 seeds for 3 envs"));
}

TEST_P(EnvManagerConformance, StoredParametersStayUntilReplaced) {
  scripts_[1]->episode_length = 1;
  const auto manager = Launched();
  const auto level = [this] { return scripts_[1]->log.starts.back().params.GetOr("level", 0); };
  EXPECT_EQ(level(), 0);
  ASSERT_THAT(manager->Reset({EnvReset{1, NamedValues{{"level", 3}}}}), IsOk());
  EXPECT_EQ(level(), 3);
  ASSERT_THAT(StepReady(manager.get()), IsOk());
  EXPECT_EQ(scripts_[1]->log.starts.size(), 3);
  EXPECT_EQ(level(), 3) << "an automatic reset";
  ASSERT_THAT(manager->Reset({EnvReset{1, {}}}), IsOk());
  EXPECT_EQ(level(), 3) << "a reset without parameters (D8)";
  ASSERT_THAT(manager->Reset(), IsOk());
  EXPECT_EQ(level(), 3);
  ASSERT_THAT(manager->Reset({EnvReset{1, NamedValues{}}}), IsOk());
  EXPECT_EQ(level(), 0);
  EXPECT_THAT(manager->Reset({EnvReset{0, {}}, EnvReset{5, {}}}), IsInvalid("no env 5"));
}

TEST_P(EnvManagerConformance, ReportsAllProblemsOfOptions) {
  options_.episode_num = -1;
  options_.max_retry = 0;
  options_.retry_waiting_time = absl::Seconds(-1);
  options_.max_abnormal_steps = -2;
  EXPECT_THAT(GetParam().create(options_, 0, Factories()),
              IsInvalid("episode_num is -1", "max_retry is 0", "retry_waiting_time is -1s",
                        "max_abnormal_steps is -2"));
  EXPECT_THAT(GetParam().create({}, 0, {}), IsInvalid("no env factories"));
  scripts_[0]->on_build[1] = EnvFault::kThrow;
  EXPECT_THAT(BaseEnvManager::Create({}, Factories()), IsInternal("env 0", "scripted exception"));
}

TEST_P(EnvManagerConformance, RefusesEnvsWithDifferentSpecs) {
  scripts_[2]->action_count = 4;
  EXPECT_THAT(Create()->Launch(),
              IsInvalid("env 2", "'action' is int64[] in 0..3", "expected int64[] in 0..1"));
}

TEST_P(EnvManagerConformance, Renders) {
  const auto manager = Launched();
  ASSERT_THAT(Step(manager.get(), {1}), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Image image, manager->Render(1));
  EXPECT_EQ(image.rgb[0], 1);
  EXPECT_THAT(manager->Render(3), IsInvalid("no env 3"));
}

TEST_P(EnvManagerConformance, ShowsHowAnEpisodeEndsBeforeTheNextOneBegins) {
  scripts_[1]->episode_length = 2;
  const auto manager = Create();
  std::vector<int> ended;
  const auto look = [&](int env_id) {
    DING_ASSERT_OK_AND_ASSIGN(const Image image, manager->Render(env_id));
    // The picture shows the number of the step.
    EXPECT_EQ(image.rgb[0], scripts_[static_cast<size_t>(env_id)]->episode_length);
    ended.push_back(env_id);
  };
  manager->set_on_episode_end(look);
  ASSERT_THAT(manager->Launch(), IsOk());
  for (int i = 0; i < 4; ++i) ASSERT_THAT(Step(manager.get(), {1}), IsOk());
  EXPECT_THAT(ended, ElementsAre(1, 1));
  manager->set_on_episode_end(nullptr);
  for (int i = 0; i < 4; ++i) ASSERT_THAT(Step(manager.get(), {1}), IsOk());
  EXPECT_THAT(ended, ElementsAre(1, 1));
}

}  // namespace
}  // namespace ding
