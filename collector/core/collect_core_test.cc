// Tests of the core as a building block; those of the serial and battle collectors test the rest of
// it.
#include "ding_worker/collector/core/collect_core.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/collect_statistics.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A collector whose core a test can call.
class TestCollector : public CoreCollector {
 public:
  explicit TestCollector(std::unique_ptr<CollectCore> core) : CoreCollector(std::move(core)) {}
  using CoreCollector::core;
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& /*options*/) override {
    return core()->TakeTrainSamples(0);
  }
};

// Three envs, whose episodes have three steps with the rewards 0, 1, 2; a hundred more in each
// later episode.
struct Fixture : SerialParts {
  explicit Fixture(CollectCore::Options options = {}, FakeEnvManager::Options env_options = {},
                   const CollectAttributes& attributes = {})
      : SerialParts(std::move(env_options), attributes, "c"),
        collector(*CollectCore::Create(std::move(options), &envs, {&policy}, deps)),
        core(collector.core()) {}

  void Step(int times) {
    for (int i = 0; i < times; ++i) EXPECT_THAT(core->StepReadyEnvs({}), IsOk());
  }

  TestCollector collector;
  CollectCore* const core;
};

CollectCore::Options WholeEpisodes() {
  CollectCore::Options options;
  options.whole_episodes = true;
  return options;
}

TEST(CollectCoreTest, StepsAllReadyEnvsAndReturnsTheirRows) {
  Fixture f;
  f.Step(2);
  EXPECT_EQ(f.core->envstep(), 6);
  EXPECT_EQ(f.core->ready_rows(0), 6);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.core->TakeTrainSamples(0));
  EXPECT_THAT(ValidateSegments(data), IsOk());
  EXPECT_EQ(data.size(), 6);
  EXPECT_EQ(f.core->ready_rows(0), 0);
  EXPECT_EQ(f.core->total_train_sample_count(), 6);
}

TEST(CollectCoreTest, StepsSomeOfTheReadyEnvs) {
  Fixture f;
  const std::vector<int> env_ids = {1};
  const std::vector<int64_t> rows = {1};
  const ReadyObs ready = f.core->env()->ready_obs();
  DING_ASSERT_OK_AND_ASSIGN(
      const Timesteps* const timesteps,
      f.core->StepEnvs(ActingEnvs(env_ids, ready.obs, rows), {}, [](int) { return true; }));
  EXPECT_THAT(timesteps->env_ids, ElementsAre(1));
  EXPECT_THAT(f.core->unfinished_envs(), ElementsAre(1));
  EXPECT_EQ(f.core->envstep(), 1);
}

TEST(CollectCoreTest, ReturnsFinishedEpisodesOnce) {
  Fixture f(WholeEpisodes());
  f.Step(3);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.core->TakeTrainSamples(0));
  const std::vector<CollectedEpisode> episodes = f.core->TakeFinishedEpisodes(/*record=*/true);
  ASSERT_EQ(episodes.size(), 3u);
  EXPECT_THAT(episodes[1].returns, ElementsAre(0 + 1 + 2));
  EXPECT_EQ(episodes[1].env_id, 1);
  EXPECT_EQ(episodes[1].samples, 3);
  EXPECT_THAT(f.core->TakeFinishedEpisodes(true), IsEmpty());
  EXPECT_EQ(f.collector.total_episode_count(), 3);
}

TEST(CollectCoreTest, FinishCollectLogsTheFinishedEpisodes) {
  CollectCore::Options options;
  options.common.collect_print_freq = 1;
  Fixture f(options);
  f.Step(3);
  CollectOptions collect;
  collect.train_iter = 1;
  f.core->FinishCollect(collect, /*seconds=*/2);
  EXPECT_THAT(f.sink->ValuesOf("c_iter/reward_mean"), ElementsAre(3));
  EXPECT_THAT(f.sink->ValuesOf("c_iter/avg_envstep_per_sec"), ElementsAre(9 / 2.0));
}

TEST(CollectCoreTest, KnowsWhichEnvsAreInTheMiddleOfAnEpisode) {
  Fixture f;
  EXPECT_THAT(f.core->unfinished_envs(), IsEmpty()) << "it has launched them";
  f.Step(1);
  EXPECT_THAT(f.core->unfinished_envs(), ElementsAre(0, 1, 2));
  f.Step(2);
  EXPECT_THAT(f.core->unfinished_envs(), IsEmpty());
  f.Step(1);
  ASSERT_THAT(f.collector.DropEpisodes({1}), IsOk());
  EXPECT_THAT(f.core->unfinished_envs(), ElementsAre(0, 2));
  DING_ASSERT_OK_AND_ASSIGN(const auto later,
                            CollectCore::Create({}, &f.envs, {&f.policy}, f.deps));
  EXPECT_THAT(later->unfinished_envs(), ElementsAre(0, 1, 2)) << "the envs ran already";
  ASSERT_THAT(later->RestartUnfinishedEnvs(), IsOk());
  EXPECT_THAT(later->unfinished_envs(), IsEmpty());
  ASSERT_THAT(later->StepReadyEnvs({}), IsOk());
  EXPECT_EQ(f.envs.events().back().obs[2], 0) << "the first step of an episode";
}

TEST(CollectCoreTest, AnEnvThatCannotBecomeReadyIsAnError) {
  FakeEnvManager::Options once;
  once.episode_num = 1;
  Fixture f({}, once);
  f.Step(3);
  EXPECT_THAT(f.core->StepReadyEnvs({}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no env is ready")));
}

TEST(CollectCoreTest, AFailedStepDropsTheEpisodesUnderWay) {
  Fixture f;
  f.Step(3);
  f.Step(1);
  f.envs.set_step_error(absl::DataLossError("lost"));
  EXPECT_THAT(f.core->StepReadyEnvs({}), StatusIs(absl::StatusCode::kDataLoss,
                                                  AllOf(HasSubstr("lost"), Not(HasSubstr("c:")))));
  EXPECT_EQ(f.core->ready_rows(0), 9) << "the first episodes";
  EXPECT_THAT(f.core->unfinished_envs(), ElementsAre(0, 1, 2));
}

TEST(CollectCoreTest, AFailureOfARewardShapingChangesNothing) {
  Fixture f(WholeEpisodes());
  f.Step(3);
  const RewardShaping fails = [](int, const ColumnsView&, absl::Span<float> rewards) {
    rewards[0] = 7;
    return absl::DataLossError("lost");
  };
  EXPECT_THAT(f.core->ReshapeRewards(1, fails),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("reward_shaping: lost")));
  const RewardShaping last = [](int env_id, const ColumnsView&, absl::Span<float> rewards) {
    rewards[2] = static_cast<float>(10 * env_id);
    return absl::OkStatus();
  };
  ASSERT_THAT(f.core->ReshapeRewards(1, last), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.core->TakeTrainSamples(0));
  EXPECT_THAT(data.rows.column<float>("reward"), ElementsAre(0, 1, 2, 0, 1, 10, 0, 1, 2));
}

TEST(CollectCoreTest, ReportsAllProblemsAtOnce) {
  CollectCore::Options options;
  options.common.max_abnormal = 0;
  options.maxlen = 0;
  options.common.problems = {"params are wrong"};
  EXPECT_THAT(CollectCore::Create(options, nullptr, PoliciesOf(nullptr), {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("max_abnormal is 0"), HasSubstr("maxlen (traj_len) is 0"),
                             HasSubstr("params are wrong"), HasSubstr("no env manager"),
                             HasSubstr("no policy"))));
}

}  // namespace
}  // namespace ding
