// Tests of parallel collectors in games: self-play of one policy, whole episodes, and evaluations
// by an evaluator of the run.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collectors.h"
#include "ding_worker/collector/serial/self_play_collector.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/board_games/board_game_env.h"
#include "ding_worker/env/board_games/tic_tac_toe.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/testing/game_envs.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int kEnvs = 4;

// A policy that plays a game, TicTacToe if no other is named, at random, the same in each run.
struct GameRun {
  explicit GameRun(
      const CollectAttributes& attributes,
      const EnvFactory& factory = [] { return CreateBoardGame<TicTacToe>({}); }) {
    const std::vector<EnvFactory> factories(kEnvs, factory);
    envs = *BaseEnvManager::Create({}, factories);
    EXPECT_THAT(envs->Seed(uint64_t{3}, /*dynamic=*/true), IsOk());
    const EnvSpec player = PlayerSpec(envs->env_spec());
    policy = *RandomCollectMode::Create(player.action, 1, attributes, player.observation);
    link.Publish(0, AModel());
  }
  // Runs a collecting task and returns what it has sent.
  std::vector<FakeLink::Sent> Collect(int64_t episodes_per_env) {
    ParallelCollectorParts parts = {envs.get(), policy.get(), nullptr, &link, episodes_per_env};
    collector = ZerglingParallelCollector::Create({}, {}, parts, {}).value();
    EXPECT_THAT(collector->Run(), IsOk());
    return link.sent();
  }

  std::unique_ptr<EnvManager> envs;
  std::unique_ptr<CollectMode> policy;
  FakeLink link;
  std::unique_ptr<ZerglingParallelCollector> collector;
};

// Each hand-over of the task is what a Collect() of a serial run returns, byte for byte.
void ExpectTheRowsOfASerialRun(const EnvFactory& game) {
  constexpr int64_t kSamples = 6;
  for (const bool on_policy : {false, true}) {
    SCOPED_TRACE(on_policy);
    CollectAttributes attributes = Samples(kSamples * kEnvs);
    attributes.on_policy = on_policy;
    GameRun parallel(attributes, game);
    const std::vector<FakeLink::Sent> sent = parallel.Collect(/*episodes_per_env=*/40);
    // The last hand-overs are of a task of which some envs have come to their end.
    ASSERT_GE(sent.size(), 22u);

    GameRun serial(attributes, game);
    const auto make = [](EnvManager* env, const std::vector<CollectMode*>& seats) {
      return BattleSampleSerialCollector::Create({}, env, seats, ComponentDeps());
    };
    DING_ASSERT_OK_AND_ASSIGN(
        const auto collector,
        SelfPlayCollector::Create(make, serial.envs.get(), serial.policy.get(), "serial"));
    CollectOptions options;
    options.target = kSamples * kEnvs;
    options.train_iter = 0;
    options.drop_extra = false;
    for (size_t i = 0; i < 18; ++i) {
      SCOPED_TRACE(i);
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch expected, collector->Collect(options));
      ExpectSameData(sent[i].data, expected);
    }
  }
}

TEST(SelfPlayParallelTest, SendsTheRowsOfASerialRun) {
  ExpectTheRowsOfASerialRun([] { return CreateBoardGame<TicTacToe>({}); });
}

TEST(SelfPlayParallelTest, SendsTheRowsOfASerialRun_PlayersEndBeforeTheirGame) {
  ExpectTheRowsOfASerialRun(KnockoutEnv::Create);
}

TEST(SelfPlayParallelTest, PlaysAllSeatsAndReportsPlayer0) {
  GameRun run(Samples(8 * kEnvs));
  double rewards = 0;
  int64_t ends[2] = {0, 0};
  for (const FakeLink::Sent& sent : run.Collect(/*episodes_per_env=*/10)) {
    EXPECT_THAT(ValidateSegments(sent.data), IsOk());
    for (const float reward : sent.data.rows.column<float>("reward")) rewards += reward;
    for (const int64_t action : sent.data.rows.column<int64_t>("action")) {
      EXPECT_LT(action, TicTacToe::kMoves) << "nobody waits";
    }
    for (const Segment& segment : sent.data.segments) {
      ends[segment.stream % 2] += segment.end == SegmentEnd::kTerminated ? 1 : 0;
    }
  }
  EXPECT_THAT(ends, ElementsAre(40, 40)) << "each player of each game";
  EXPECT_EQ(rewards, 0) << "what the winner gets, the loser pays";
  const CollectorFinishInfo info = run.collector->GetFinishInfo();
  EXPECT_THAT(info.episode_return, SizeIs(40));
  EXPECT_FALSE(info.is_game) << "there is no opponent to win against";
}

TEST(SelfPlayParallelTest, HandsOverAsManyWholeEpisodesAsAreAskedFor) {
  CollectAttributes attributes;
  attributes.n_episode = 7;
  GameRun run(attributes);
  const std::vector<FakeLink::Sent> sent = run.Collect(/*episodes_per_env=*/10);
  int64_t before = 0;
  for (size_t i = 0; i < sent.size(); ++i) {
    const int64_t episodes = sent[i].progress.cur_episode - before;
    before = sent[i].progress.cur_episode;
    if (i + 1 < sent.size()) {
      EXPECT_GE(episodes, 7);
      EXPECT_LT(episodes, 7 + kEnvs) << "those that end in the same step";
    }
    EXPECT_THAT(sent[i].data.segments, SizeIs(static_cast<size_t>(2 * episodes)));
    for (const Segment& segment : sent[i].data.segments) {
      EXPECT_EQ(segment.end, SegmentEnd::kTerminated);
    }
  }
  EXPECT_EQ(before, 40) << "the last ones are sent at the end of the task";
}

TEST(SelfPlayParallelTest, AnEvaluatorOfTheRunEvaluates) {
  FakeEnvManager envs({});
  FakePolicy policy;
  FakeLink link;
  link.Publish(77, AModel());
  EvalResult result;
  result.mean_return = 2;
  result.envstep_count = 30;
  result.episode_return = {1, 3};
  result.episode_info = {{"eval_episode_return", {1, 3}},
                         {"info/never", {std::numeric_limits<double>::quiet_NaN()}},
                         {"info/success", {0, 1}}};
  std::optional<EvalOptions> asked;
  ParallelCollectorTask task;
  task.eval_flag = true;
  task.envstep = 1234;
  ParallelCollectorParts parts = {&envs, nullptr, &policy, &link, 5};
  parts.evaluator = [&](const EvalOptions& options) {
    asked = options;
    return result;
  };
  const auto run = [&]() -> absl::StatusOr<CollectorFinishInfo> {
    DING_ASSIGN_OR_RETURN(const auto collector,
                          ZerglingParallelCollector::Create({}, task, parts, {}));
    DING_RETURN_IF_ERROR(collector->Run());
    return collector->GetFinishInfo();
  };
  DING_ASSERT_OK_AND_ASSIGN(const CollectorFinishInfo info, run());
  EXPECT_THAT(info.episode_return, ElementsAre(1, 3));
  EXPECT_EQ(info.step_count, 30);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->train_iter, 77);
  EXPECT_EQ(asked->envstep, 1234);
  EXPECT_EQ(asked->n_episode, 5 * envs.env_num());

  EXPECT_FALSE(info.eval_score.has_value()) << "the mean return";
  ASSERT_EQ(info.info.size(), 1u) << "what the env gave, and has a mean";
  EXPECT_EQ(info.info[0].name, "success");
  EXPECT_EQ(info.info[0].mean, 0.5);
  EXPECT_EQ(info.info[0].count, 2);

  result.mean_return = 0.9;
  DING_ASSERT_OK_AND_ASSIGN(const CollectorFinishInfo scored, run());
  EXPECT_EQ(scored.eval_score, 0.9);
  EXPECT_THAT(scored.episode_return, ElementsAre(1, 3));
}

absl::Status LeaveRewards(int /*env_id*/, const ColumnsView& /*rows*/,
                          absl::Span<float> /*rewards*/) {
  return absl::OkStatus();
}
DING_REGISTER(RewardShapingRegistry(), "of_the_test", LeaveRewards, "leaves the rewards");

TEST(SelfPlayParallelTest, RefusesRewardShapingInGames) {
  GameRun run(Samples(8 * kEnvs));
  ParallelCollectorParts parts = {run.envs.get(), run.policy.get(), nullptr, &run.link, 1};
  ZerglingParallelCollector::Options options;
  options.reward_shaping = "of_the_test";
  EXPECT_THAT(ZerglingParallelCollector::Create(options, {}, parts, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("reward_shaping is 'of_the_test' in a game, expected none")));
}

}  // namespace
}  // namespace ding
