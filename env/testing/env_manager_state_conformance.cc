// Tests that every env manager must pass: saving and restoring.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/testing/env_manager_conformance.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool SameState(const StateDict& a, const StateDict& b) {
  const auto same = [](const TensorMap::Entry& x, const TensorMap::Entry& y) {
    return x.first == y.first && BitwiseEqual(x.second, y.second);
  };
  return a.tensors().size() == b.tensors().size() &&
         std::equal(a.tensors().begin(), a.tensors().end(), b.tensors().begin(), same);
}

TEST_P(EnvManagerStateConformance, RestoredManagerContinuesIdentically) {
  const auto manager = Midway();
  EXPECT_THAT(States(*manager), ElementsAre(EnvState::kRun, EnvState::kRun, EnvState::kDone));
  StateDict saved;
  ASSERT_THAT(manager->SaveState(&saved), IsOk());
  StateDict again;
  ASSERT_THAT(manager->SaveState(&again), IsOk());
  EXPECT_TRUE(SameState(saved, again));

  // Load into a closed manager and into a running one.
  for (const bool launched : {false, true}) {
    SCOPED_TRACE(launched);
    // The scripts count calls over all envs, so both managers get copies that begin with the same
    // counts.
    const auto scripts = scripts_;
    for (auto& script : scripts_) script = std::make_shared<ScriptedEnvScript>(*script);
    const auto other = Create();
    if (launched) {
      ASSERT_THAT(other->Launch(), IsOk());
      ASSERT_THAT(StepReady(other.get()), IsOk());
    }
    ASSERT_THAT(other->LoadState(&saved, &restarted_), IsOk());
    EXPECT_THAT(restarted_, IsEmpty());
    EXPECT_EQ(States(*other), States(*manager));
    StateDict reloaded;
    ASSERT_THAT(other->SaveState(&reloaded), IsOk());
    EXPECT_TRUE(SameState(saved, reloaded));
    scripts_ = scripts;
  }
}

TEST_P(EnvManagerStateConformance, EnvsThatCannotSaveTheirStateAreRestarted) {
  scripts_[1]->can_save = false;
  const auto manager = Midway();
  StateDict saved;
  ASSERT_THAT(manager->SaveState(&saved), IsOk());
  const auto other = Create();
  ASSERT_THAT(other->LoadState(&saved, &restarted_), IsOk());
  EXPECT_THAT(restarted_, ElementsAre(1));
  const EpisodeStart start = scripts_[1]->log.starts.back();
  // The launch, the explicit reset and the episode of 7 steps before it.
  EXPECT_EQ(start.seed, Rng::DeriveSeed(22, "env/episode", 3));
  EXPECT_EQ(start.params.GetOr("level", 0), 3);
  EXPECT_EQ(start.params.GetOr("wind", 0), 0.5);
  EXPECT_THAT(Row(other->ready_obs(), 0), ElementsAre(2, 3, 0));
  EXPECT_EQ(Row(other->ready_obs(), 1)[1], 0);
}

TEST_P(EnvManagerStateConformance, RefusesAStateOfOtherEnvs) {
  StateDict saved;
  ASSERT_THAT(Midway()->SaveState(&saved), IsOk());
  scripts_.pop_back();
  const auto manager = Launched();
  EXPECT_THAT(manager->LoadState(&saved, &restarted_), IsInvalid("expected 2 elements"));
  StateDict empty("checkpoint 7");
  EXPECT_THAT(manager->LoadState(&empty, &restarted_), IsNotFound("checkpoint 7"));
  // The manager is unchanged.
  EXPECT_THAT(States(*manager), Each(EnvState::kRun));
  EXPECT_THAT(Row(manager->ready_obs(), 0), ElementsAre(3, 0, -1));
}

TEST_P(EnvManagerStateConformance, RefusesAnUnknownEnvState) {
  StateDict saved;
  const auto manager = Midway();
  ASSERT_THAT(manager->SaveState(&saved), IsOk());
  TensorMap tensors = saved.tensors();
  tensors.Set("state", Tensor::FromSpan<uint8_t>({3}, {2, 200, 4}));
  StateDict broken(tensors, "broken");
  EXPECT_THAT(manager->LoadState(&broken, &restarted_), IsInvalid("env 1", "200"));
  EXPECT_FALSE(manager->closed());
}

TEST_P(EnvManagerStateConformance, BrokenStateOfAnEnvClosesTheManager) {
  StateDict saved;
  const auto manager = Midway();
  ASSERT_THAT(manager->SaveState(&saved), IsOk());
  TensorMap tensors = saved.tensors();
  tensors.Set("env/1/state", Tensor::Zeros(DType::kInt64, {2}));
  StateDict broken(tensors, "broken");
  EXPECT_THAT(manager->LoadState(&broken, &restarted_),
              IsInvalid("env 1 (Scripted): loading its state"));
  EXPECT_TRUE(manager->closed());
}

// Steps a manager of CartPoles with actions that are a function of the step number; returns all its
// outputs as bytes.
std::string PlayCartPoles(EnvManager* manager, int64_t from, int64_t to) {
  std::string shown;
  const auto show = [&shown](const auto* values, size_t count) {
    shown.append(reinterpret_cast<const char*>(values), count * sizeof(*values));
  };
  for (int64_t step = from; step < to; ++step) {
    const ReadyObs ready = manager->ready_obs();
    show(ready.env_ids.data(), ready.env_ids.size());
    const absl::Span<const float> obs = ready.obs.column<float>(0);
    show(obs.data(), obs.size());
    std::vector<int64_t> actions(ready.env_ids.size());
    for (size_t i = 0; i < actions.size(); ++i) actions[i] = (step * 7 + ready.env_ids[i]) / 3 % 2;
    std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
    const absl::StatusOr<const Timesteps*> steps =
        manager->Step(ready.env_ids, ColumnsView(manager->env_spec().action.get(), &column, 0,
                                                 static_cast<int64_t>(actions.size())));
    EXPECT_THAT(steps, IsOk());
    if (!steps.ok()) return shown;
    show((*steps)->terminated.data(), actions.size());
    for (const FinishedEpisode& episode : (*steps)->finished) {
      show(&episode.row, 1);
      show(&episode.episode_return, 1);
      show(&episode.length, 1);
    }
    const absl::Span<const float> final_obs = (*steps)->final_obs.column<float>(0);
    show(final_obs.data(), final_obs.size());
  }
  return shown;
}

TEST_P(EnvManagerStateConformance, CartPolesContinueByteForByteAsInBaseEnvManager) {
  const std::vector<EnvFactory> factories(4, [] { return CreateCartPole("CartPole-v1", 500); });
  std::vector<std::string> shown;
  std::vector<StateDict> ends;
  StateDict saved;
  for (const bool one_thread : {true, false}) {
    SCOPED_TRACE(one_thread);
    const auto create = [&]() -> std::unique_ptr<EnvManager> {
      if (one_thread) return *BaseEnvManager::Create({}, factories);
      return *GetParam().create({}, 0, factories);
    };
    const auto whole = create();
    ASSERT_THAT(whole->Seed(5, /*dynamic=*/true), IsOk());
    ASSERT_THAT(whole->Launch(), IsOk());
    shown.push_back(PlayCartPoles(whole.get(), 0, 100));
    saved = StateDict();
    ASSERT_THAT(whole->SaveState(&saved), IsOk());
    shown.push_back(PlayCartPoles(whole.get(), 100, 400));
    ends.emplace_back();
    ASSERT_THAT(whole->SaveState(&ends.back()), IsOk());

    const auto resumed = create();
    std::vector<int> restarted;
    ASSERT_THAT(resumed->LoadState(&saved, &restarted), IsOk());
    EXPECT_THAT(restarted, IsEmpty());
    EXPECT_TRUE(PlayCartPoles(resumed.get(), 100, 400) == shown.back());
    ends.emplace_back();
    ASSERT_THAT(resumed->SaveState(&ends.back()), IsOk());
  }
  EXPECT_TRUE(shown[0] == shown[2] && shown[1] == shown[3]);
  for (size_t i = 1; i < ends.size(); ++i) EXPECT_TRUE(SameState(ends[0], ends[i])) << i;
}

}  // namespace
}  // namespace ding
