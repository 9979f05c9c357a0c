#include "ding_worker/collector/serial/self_play_collector.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/batch.h"
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

using testing::HasSubstr;

constexpr int kEnvs = 3;

absl::StatusOr<std::unique_ptr<IBattleCollector>> OfRows(EnvManager* env,
                                                         const std::vector<CollectMode*>& seats) {
  return BattleSampleSerialCollector::Create({}, env, seats, ComponentDeps());
}

absl::StatusOr<std::unique_ptr<IBattleCollector>> OfEpisodes(
    EnvManager* env, const std::vector<CollectMode*>& seats) {
  return BattleEpisodeSerialCollector::Create({}, env, seats, ComponentDeps());
}

CollectOptions Target(int64_t target) {
  CollectOptions options;
  options.target = target;
  return options;
}

// Deterministic pseudo-random play of TicTacToe.
struct TicTacToeRun {
  explicit TicTacToeRun(bool on_policy = false,
                        const SelfPlayCollector::MakeBattleCollector& make = OfRows) {
    const std::vector<EnvFactory> factories(kEnvs, [] { return CreateBoardGame<TicTacToe>({}); });
    envs = *BaseEnvManager::Create({}, factories);
    EXPECT_THAT(envs->Seed(uint64_t{0}, /*dynamic=*/true), IsOk());
    const EnvSpec player = PlayerSpec(envs->env_spec());
    CollectAttributes attributes;
    attributes.on_policy = on_policy;
    policy = *RandomCollectMode::Create(player.action, 0, attributes, player.observation);
    collector = *SelfPlayCollector::Create(make, envs.get(), policy.get(), "collector");
  }
  SegmentBatch Collect(int64_t target) {
    absl::StatusOr<SegmentBatch> data = collector->Collect(Target(target));
    EXPECT_THAT(data, IsOk());
    EXPECT_THAT(ValidateSegments(*data), IsOk());
    return *std::move(data);
  }

  std::unique_ptr<EnvManager> envs;
  std::unique_ptr<CollectMode> policy;
  std::unique_ptr<SelfPlayCollector> collector;
};

// Returns "action reward" by stream and step, with "!" after the last row of an episode.
using Moves = std::map<std::pair<int64_t, int64_t>, std::string>;

void AddTo(const SegmentBatch& data, Moves* moves) {
  for (const Segment& segment : data.segments) {
    for (int64_t k = 0; k < segment.length; ++k) {
      const auto row = static_cast<size_t>(segment.begin + k);
      const bool last = k + 1 == segment.length && segment.end != SegmentEnd::kCut;
      std::string text = absl::StrCat(data.rows.column<int64_t>("action")[row], " ",
                                      data.rows.column<float>("reward")[row], last ? "!" : "");
      EXPECT_TRUE(
          moves->emplace(std::make_pair(segment.stream, segment.first_step + k), text).second);
    }
  }
}

// In each game of KnockoutEnv the players end after 6, 1 and 3 steps.
void ExpectKnockoutRows(const SegmentBatch& data) {
  ASSERT_THAT(ValidateSegments(data), IsOk());
  const auto place = [](const Batch& batch, int64_t row) {
    const absl::Span<const float> values = batch.column<float>("obs/place").subspan(3 * row, 3);
    return std::vector<float>(values.begin(), values.end());
  };
  for (size_t i = 0; i < data.segments.size(); ++i) {
    const Segment& segment = data.segments[i];
    const std::vector<float> first = place(data.rows, segment.begin);
    const auto role = static_cast<int64_t>(first[1]);
    for (int64_t k = 0; k < segment.length; ++k) {
      EXPECT_THAT(place(data.rows, segment.begin + k), testing::ElementsAre(first[0] + k, role, 1));
      const float reward = data.rows.column<float>("reward")[segment.begin + k];
      const int64_t action = data.rows.column<int64_t>("action")[segment.begin + k];
      EXPECT_EQ(reward, role == 1 ? -1 : 0.5f * static_cast<float>(action));
    }
    const auto end = static_cast<int64_t>(first[0]) + segment.length;
    const bool over = end == KnockoutEnv::StepsOf(role);
    EXPECT_EQ(segment.end, !over       ? SegmentEnd::kCut
                           : role == 1 ? SegmentEnd::kTerminated
                                       : SegmentEnd::kTruncated);
    EXPECT_THAT(place(data.final_obs, static_cast<int64_t>(i)),
                testing::ElementsAre(end, role, over ? 0 : 1));
  }
}

// The same policy plays in all seats of both runs, so their games are the same.
TEST(SelfPlayCollectorTest, WithAnOpponent_EachSideHasTheRowsOfItsSeats) {
  TicTacToeRun self_play;
  TicTacToeRun against;
  against.collector = *SelfPlayCollector::Create(
      OfRows, against.envs.get(), against.policy.get(), "collector",
      SelfPlayCollector::Opponent{against.policy.get(), /*learns=*/true});
  Moves all;
  Moves of_policy;
  Moves of_opponent;
  for (int i = 0; i < 8; ++i) {
    AddTo(self_play.Collect(12), &all);
    AddTo(against.Collect(12), &of_policy);
    for (const SegmentBatch& data : against.collector->TakeOpponentData()) {
      AddTo(data, &of_opponent);
    }
    EXPECT_TRUE(against.collector->TakeOpponentData().empty()) << "taken";
  }
  // The stream of player p in env i is 2 i + p.
  for (const auto& [place, move] : of_policy) EXPECT_EQ(place.first % 2, 0) << move;
  for (const auto& [place, move] : of_opponent) EXPECT_EQ(place.first % 2, 1) << move;
  of_policy.merge(of_opponent);
  EXPECT_EQ(of_policy, all);
}

TEST(SelfPlayCollectorTest, APlayerThatEndsBeforeItsGameHasOneLastRow) {
  for (const bool episodes : {false, true}) {
    SCOPED_TRACE(episodes);
    const std::vector<EnvFactory> factories(kEnvs, KnockoutEnv::Create);
    const auto envs = *BaseEnvManager::Create({}, factories);
    ASSERT_THAT(envs->Seed(uint64_t{0}, /*dynamic=*/true), IsOk());
    const EnvSpec player = PlayerSpec(envs->env_spec());
    const auto policy =
        *RandomCollectMode::Create(player.action, 0, CollectAttributes(), player.observation);
    const auto collector = *SelfPlayCollector::Create(episodes ? OfEpisodes : OfRows, envs.get(),
                                                      policy.get(), "collector");
    std::map<int64_t, int64_t> rows_of_role;
    for (int i = 0; i < 20; ++i) {
      CollectOptions options = Target(9);
      options.drop_extra = false;
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
      ExpectKnockoutRows(data);
      for (int64_t row = 0; row < data.size(); ++row) {
        ++rows_of_role[static_cast<int64_t>(data.rows.column<float>("obs/place")[3 * row + 1])];
      }
    }
    if (!episodes) continue;
    EXPECT_THAT(rows_of_role, testing::ElementsAre(testing::Pair(0, 6 * 180), testing::Pair(1, 180),
                                                   testing::Pair(2, 3 * 180)));
    EXPECT_EQ(collector->envstep(), 6 * 180) << "steps of the game";
  }
}

TEST(SelfPlayCollectorTest, ReturnsTheChoicesOfAllPlayersWithTheResultOfTheirGame) {
  TicTacToeRun run(/*on_policy=*/false, OfEpisodes);
  const SegmentBatch data = run.Collect(40);
  ASSERT_EQ(data.segments.size(), 80u) << "one of each player of each game";
  int decided = 0;
  for (const Segment& segment : data.segments) {
    EXPECT_EQ(segment.end, SegmentEnd::kTerminated);
    const auto last = static_cast<size_t>(segment.begin + segment.length - 1);
    const float result = data.rows.column<float>("reward")[last];
    for (auto row = static_cast<size_t>(segment.begin); row < last; ++row) {
      EXPECT_EQ(data.rows.column<float>("reward")[row], 0);
    }
    decided += result != 0 ? 1 : 0;
    EXPECT_LE(segment.length, 5) << "of nine moves at most";
  }
  EXPECT_GT(decided, 40) << "winners and losers: random play is seldom a draw";
  double sum = 0;
  for (const float reward : data.rows.column<float>("reward")) sum += reward;
  EXPECT_EQ(sum, 0) << "what the winner gets, the loser pays";
  for (const int64_t action : data.rows.column<int64_t>("action")) {
    EXPECT_LT(action, TicTacToe::kMoves) << "nobody waits";
  }
}

TEST(SelfPlayCollectorTest, ManySmallCollectsReturnTheSameAsOne) {
  Moves whole;
  Moves pieces;
  {
    TicTacToeRun run;
    AddTo(run.Collect(120 * kEnvs), &whole);
  }
  TicTacToeRun run;
  int64_t collects = 0;
  while (run.collector->envstep() < 120 * kEnvs) {
    AddTo(run.Collect(kEnvs), &pieces);
    ++collects;
  }
  EXPECT_GT(collects, 50);
  EXPECT_EQ(pieces, whole);
}

TEST(SelfPlayCollectorTest, AnOnPolicyCollectReturnsItsOwnRowsOnly) {
  // A choice that is held back at the end is dropped, so fewer rows are returned.
  TicTacToeRun on_policy(/*on_policy=*/true);
  TicTacToeRun off_policy;
  int64_t on_policy_rows = 0;
  int64_t off_policy_rows = 0;
  for (int64_t i = 0; i < 20; ++i) {
    CollectOptions options = Target(4 * kEnvs);
    options.train_iter = i;
    const SegmentBatch data = *on_policy.collector->Collect(options);
    for (const int64_t iter : data.rows.column<int64_t>("collect_iter")) EXPECT_EQ(iter, i);
    on_policy_rows += data.size();
    off_policy_rows += off_policy.Collect(4 * kEnvs).size();
  }
  EXPECT_LT(on_policy_rows, off_policy_rows - 20);
}

TEST(SelfPlayCollectorTest, ContinuesFromASavedState) {
  TicTacToeRun run;
  run.Collect(7 * kEnvs);
  StateDict envs_state;
  StateDict policy_state;
  StateDict state;
  ASSERT_THAT(run.envs->SaveState(&envs_state), IsOk());
  ASSERT_THAT(run.policy->SaveState(&policy_state), IsOk());
  ASSERT_THAT(run.collector->SaveState(&state), IsOk());
  TicTacToeRun resumed;
  std::vector<int> restarted;
  ASSERT_THAT(resumed.envs->LoadState(&envs_state, &restarted), IsOk());
  ASSERT_THAT(resumed.policy->LoadState(&policy_state), IsOk());
  ASSERT_THAT(resumed.collector->LoadState(&state), IsOk());
  EXPECT_EQ(resumed.collector->envstep(), run.collector->envstep());
  Moves expected;
  Moves found;
  AddTo(run.Collect(20 * kEnvs), &expected);
  AddTo(resumed.Collect(20 * kEnvs), &found);
  EXPECT_EQ(found, expected);
}

TEST(SelfPlayCollectorTest, DoesNotLinkAcrossAReset) {
  TicTacToeRun run;
  Moves moves;
  AddTo(run.Collect(kEnvs), &moves);
  const EnvSpec player = PlayerSpec(run.envs->env_spec());
  const auto other = *RandomCollectMode::Create(player.action, 1, {}, player.observation);
  ASSERT_THAT(run.collector->ResetPolicy(other.get()), IsOk());
  AddTo(run.Collect(5 * kEnvs), &moves);
  ASSERT_THAT(run.collector->ResetPolicy(nullptr), IsOk());
  AddTo(run.Collect(5 * kEnvs), &moves);
  ASSERT_THAT(run.collector->ResetEnv(nullptr), IsOk());
  AddTo(run.Collect(5 * kEnvs), &moves);
  ASSERT_THAT(run.collector->DropEpisodes({1}), IsOk());
  AddTo(run.Collect(5 * kEnvs), &moves);
  EXPECT_GT(run.collector->envstep(), 0);
  ASSERT_THAT(run.collector->Reset(run.policy.get(), run.envs.get()), IsOk());
  EXPECT_EQ(run.collector->envstep(), 0);
  AddTo(run.Collect(5 * kEnvs), &moves);
  run.collector->set_envstep(1000);
  EXPECT_EQ(run.collector->envstep(), 1000);
}

TEST(SelfPlayCollectorTest, AnOpponent_HasSettingsAndTrainSamplesOfItsOwn) {
  for (const bool learns : {false, true}) {
    FakeEnvManager::Options options;
    options.players = 3;
    FakeEnvManager games(options);
    FakePolicy policy;
    FakePolicy opponent;
    std::vector<int64_t> calls;
    policy.on_train_sample = [&](SegmentBatch* data) { calls.push_back(data->size()); };
    opponent.on_train_sample = [&](SegmentBatch* data) { calls.push_back(-data->size()); };
    DING_ASSERT_OK_AND_ASSIGN(
        const auto collector,
        SelfPlayCollector::Create(OfRows, &games, &policy, "collector",
                                  SelfPlayCollector::Opponent{&opponent, learns}));
    collector->set_opponent_settings({{"eps", 0.5}});
    CollectOptions collect = Target(12);
    collect.policy_settings = {{"eps", 0.25}};
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(collect));
    EXPECT_EQ(data.size(), 12);
    EXPECT_EQ(policy.last_settings.GetOr("eps", 0), 0.25);
    EXPECT_EQ(opponent.last_settings.GetOr("eps", 0), 0.5);
    EXPECT_EQ(calls, learns ? std::vector<int64_t>({-24, 12}) : std::vector<int64_t>({12}));
    EXPECT_EQ(collector->TakeOpponentData().size(), learns ? 1u : 0u);
  }
}

TEST(SelfPlayCollectorTest, PassesTheRowsOfAllPlayersThroughOneGetTrainSample) {
  FakeEnvManager::Options options;
  options.players = 2;
  FakeEnvManager games(options);
  FakePolicy policy;
  std::vector<int64_t> calls;
  policy.on_train_sample = [&](SegmentBatch* data) { calls.push_back(data->size()); };
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SelfPlayCollector::Create(OfRows, &games, &policy, "collector"));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(Target(12)));
  EXPECT_EQ(data.size(), 24);
  EXPECT_THAT(calls, testing::ElementsAre(24));
  EXPECT_EQ(collector->envstep(), 12);
}

// A collector that never returns a choice.
class NoRows : public IBattleCollector {
 public:
  absl::Status ResetEnv(EnvManager*) override { return absl::OkStatus(); }
  absl::Status ResetPolicies(std::vector<CollectMode*>) override { return absl::OkStatus(); }
  absl::Status Reset(std::vector<CollectMode*>, EnvManager*) override { return absl::OkStatus(); }
  absl::Status DropEpisodes(absl::Span<const int>) override { return absl::OkStatus(); }
  absl::StatusOr<BattleData> Collect(const CollectOptions&) override {
    BattleData data;
    data.players.resize(2);
    return data;
  }
  int64_t envstep() const override { return 0; }
  void set_envstep(int64_t) override {}
  int64_t total_episode_count() const override { return 0; }
  absl::Status SaveState(StateWriter*) const override { return absl::OkStatus(); }
  absl::Status LoadState(StateReader*) override { return absl::OkStatus(); }
};

TEST(SelfPlayCollectorTest, AGameWithoutChoicesIsAnError) {
  FakeEnvManager::Options options;
  options.players = 2;
  FakeEnvManager games(options);
  FakePolicy policy;
  const auto make = [](EnvManager*, const std::vector<CollectMode*>&)
      -> absl::StatusOr<std::unique_ptr<IBattleCollector>> { return std::make_unique<NoRows>(); };
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SelfPlayCollector::Create(make, &games, &policy, "collector"));
  EXPECT_THAT(collector->Collect(Target(12)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no player had a choice")));
}

TEST(SelfPlayCollectorTest, RefusesPartsThatDoNotFit) {
  FakeEnvManager for_one((FakeEnvManager::Options()));
  FakeEnvManager::Options options;
  options.players = 2;
  FakeEnvManager games(options);
  FakePolicy policy;
  FakePolicy other_actions({}, 9);
  const auto create = [](EnvManager* env, CollectMode* policy) {
    return SelfPlayCollector::Create(OfRows, env, policy, "collector").status();
  };
  EXPECT_THAT(create(nullptr, &policy),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("collector: no env manager")));
  EXPECT_THAT(create(&games, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("collector: no policy")));
  EXPECT_THAT(create(&for_one, &policy),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 1 player, expected a game of at least 2")));
  EXPECT_THAT(create(&games, &other_actions), StatusIs(absl::StatusCode::kInvalidArgument));
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SelfPlayCollector::Create(OfRows, &games, &policy, "collector"));
  EXPECT_THAT(collector->ResetPolicy(&other_actions), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(collector->ResetEnv(&for_one), StatusIs(absl::StatusCode::kInvalidArgument));
  CollectOptions with_seeds = Target(3);
  with_seeds.level_seeds = {1, 2, 3};
  EXPECT_THAT(collector->Collect(with_seeds),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("level seeds")));
  EXPECT_THAT(collector->Collect(Target(3)), IsOk()) << "goes on with what it has";
}

}  // namespace
}  // namespace ding
