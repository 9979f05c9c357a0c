#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collectors.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/board_games/board_game_env.h"
#include "ding_worker/env/board_games/tic_tac_toe.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

FakeEnvManager::Options GameOf(int players) {
  FakeEnvManager::Options options;
  options.players = players;
  return options;
}

struct Fixture {
  explicit Fixture(FakeEnvManager::Options env_options = GameOf(2),
                   const CollectAttributes& attributes = Samples(12))
      : envs(std::move(env_options)), home(attributes), away(attributes) {
    for (int player : {0, 1}) link.Publish(0, AModel(), player);
    parts.env = &envs;
    parts.link = &link;
    parts.episodes_per_env = 3;
    parts.players = {{&home, true}, {&away, true}};
  }
  MarineParallelCollector& Create() {
    absl::StatusOr<std::unique_ptr<MarineParallelCollector>> created =
        MarineParallelCollector::Create({}, task, parts, {});
    EXPECT_THAT(created, IsOk());
    collector = *std::move(created);
    return *collector;
  }
  absl::Status Problems() { return MarineParallelCollector::Create({}, task, parts, {}).status(); }

  FakeLink link;
  FakeEnvManager envs;
  FakePolicy home;
  FakePolicy away;
  ParallelCollectorParts parts;
  ParallelCollectorTask task;
  std::unique_ptr<MarineParallelCollector> collector;
};

// Returns the observations of the players in these seats before each step.
std::multiset<RowName> RowsPlayed(const FakeEnvManager& envs, const std::vector<int>& seats) {
  std::multiset<RowName> rows;
  for (const FakeEnvManager::Event& event : envs.events()) {
    for (const int seat : seats) {
      rows.insert({event.obs[0] + 1000.0f * static_cast<float>(seat), event.obs[1], event.obs[2]});
    }
  }
  return rows;
}

struct Case {
  CollectAttributes attributes;
  bool late;
};

class Games : public testing::TestWithParam<Case> {};

// Also for short episodes; no segment has rows of two episodes (D78).
TEST_P(Games, SendsEveryRowOfALearningPlayerOnce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    FakeEnvManager::Options envs = GameOf(2);
    envs.seed = seed;
    envs.subsets = envs.late = GetParam().late;
    envs.script = FakeEnvManager::RandomScript(seed, 9, 0);
    Fixture f(envs, GetParam().attributes);
    f.task.stream_base = 100;
    f.task.home_seat = static_cast<int>(seed % 2);
    f.parts.players[1].updates = seed % 3 == 0;
    ASSERT_THAT(f.Create().Run(), IsOk());
    std::vector<int> seats = {f.task.home_seat};
    if (seed % 3 == 0) seats.push_back(1 - f.task.home_seat);
    const std::multiset<RowName> played = RowsPlayed(f.envs, seats);
    EXPECT_EQ(RowsSent(f.link), played);
    for (const FakeLink::Sent& sent : f.link.sent()) {
      const absl::Span<const float> obs = sent.data.rows.column<float>("obs");
      for (const Segment& segment : sent.data.segments) {
        for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
          const auto at = static_cast<size_t>(3 * row);
          EXPECT_EQ(obs[at + 1], obs[static_cast<size_t>(3 * segment.begin) + 1])
              << "a trajectory of two episodes";
          const int env = static_cast<int>(obs[at]) % 1000;
          const int seat = static_cast<int>(obs[at]) / 1000;
          EXPECT_EQ(segment.stream, 100 + 2 * env + seat);
        }
      }
    }
    const CollectorFinishInfo info = f.collector->GetFinishInfo();
    EXPECT_TRUE(info.collector_done);
    EXPECT_TRUE(info.is_game);
    EXPECT_THAT(info.episode_return, SizeIs(9));
    EXPECT_EQ(info.step_count, static_cast<int64_t>(f.envs.events().size()));
    EXPECT_EQ(info.sample_count, static_cast<int64_t>(played.size()));
    EXPECT_EQ(info.policy_version, 1u);
    EXPECT_TRUE(f.envs.closed());
  }
}

INSTANTIATE_TEST_SUITE_P(Collectors, Games,
                         testing::Values(Case{Samples(12), false}, Case{Samples(12), true},
                                         Case{Episodes(), false}, Case{Episodes(), true}));

// In DI-engine it plays with random weights (D77).
TEST(MarineParallelCollectorTest, LoadsANonLearningPolicyOnce) {
  Fixture f;
  f.parts.players[1].updates = false;
  int home_loads = 0;
  int away_loads = 0;
  bool away_acted_unloaded = false;
  f.home.on_load_model = [&](StateReader*) {
    ++home_loads;
    return absl::OkStatus();
  };
  f.away.on_load_model = [&](StateReader*) {
    ++away_loads;
    return absl::OkStatus();
  };
  f.away.on_forward = [&](absl::Span<const int>) {
    away_acted_unloaded = away_acted_unloaded || away_loads == 0;
    for (int player : {0, 1}) f.link.Publish(1, AModel(), player);
    return absl::OkStatus();
  };
  ASSERT_THAT(f.Create().Run(), IsOk());
  EXPECT_GT(home_loads, 2);
  EXPECT_EQ(away_loads, 1);
  EXPECT_FALSE(away_acted_unloaded);
}

TEST(MarineParallelCollectorTest, WaitsForThePoliciesOfBothPlayers) {
  FakeEnvManager envs(GameOf(2));
  FakePolicy home(Samples(12));
  FakePolicy away(Samples(12));
  FakeLink link;
  link.Publish(0, AModel(), /*player=*/0);
  ParallelCollectorParts parts;
  parts.env = &envs;
  parts.link = &link;
  parts.players = {{&home, true}, {&away, false}};
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            MarineParallelCollector::Create({}, {}, parts, {}));
  std::thread publishing([&link] { link.Publish(0, AModel(), /*player=*/1); });
  EXPECT_THAT(collector->Run(), IsOk());
  publishing.join();
  EXPECT_TRUE(collector->GetFinishInfo().collector_done);
}

// The policy of player 0 has the seat of the task, and its return is reported.
TEST(MarineParallelCollectorTest, SwapsTheSeats) {
  for (const int home_seat : {0, 1}) {
    SCOPED_TRACE(home_seat);
    Fixture f;
    f.task.home_seat = home_seat;
    std::set<int> seats;
    f.home.on_forward = [&](absl::Span<const int> ids) {
      for (const int id : ids) seats.insert(id % 2);
      return absl::OkStatus();
    };
    ASSERT_THAT(f.Create().Run(), IsOk());
    EXPECT_THAT(seats, ElementsAre(home_seat));
    std::map<std::pair<float, float>, double> returns;  // of seat 0, by env and episode
    for (const FakeEnvManager::Event& event : f.envs.events()) {
      returns[{event.obs[0], event.obs[1]}] += event.reward;
    }
    double expected = 0;
    for (const auto& [episode, value] : returns) expected += value * (home_seat + 1);
    double found = 0;
    for (const double value : f.collector->GetFinishInfo().episode_return) found += value;
    EXPECT_EQ(found, expected);
  }
}

// The training data of TicTacToe are choices, the last of which has the result of the game.
TEST(MarineParallelCollectorTest, SendsTheChoicesOfAGameOfTurns) {
  const std::vector<EnvFactory> factories(4, [] { return CreateBoardGame<TicTacToe>({}); });
  for (const bool self_play : {true, false}) {
    SCOPED_TRACE(self_play);
    const std::unique_ptr<EnvManager> envs = *BaseEnvManager::Create({}, factories);
    ASSERT_THAT(envs->Seed(uint64_t{3}, /*dynamic=*/true), IsOk());
    const EnvSpec player = PlayerSpec(envs->env_spec());
    const auto home = *RandomCollectMode::Create(player.action, 1, Samples(24), player.observation);
    const auto away = *RandomCollectMode::Create(player.action, 2, Samples(24), player.observation);
    FakeLink link;
    for (int p : {0, 1}) link.Publish(0, AModel(), p);
    ParallelCollectorParts parts;
    parts.env = envs.get();
    parts.link = &link;
    parts.episodes_per_env = 10;
    parts.players = {{home.get(), true}, {away.get(), self_play}};
    ParallelCollectorTask task;
    task.home_seat = 1;
    DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                              MarineParallelCollector::Create({}, task, parts, {}));
    ASSERT_THAT(collector->Run(), IsOk());
    const CollectorFinishInfo info = collector->GetFinishInfo();
    ASSERT_THAT(info.episode_return, SizeIs(40));
    double rewards = 0;
    int64_t ends = 0;
    for (const FakeLink::Sent& sent : link.sent()) {
      EXPECT_THAT(ValidateSegments(sent.data), IsOk());
      for (const float reward : sent.data.rows.column<float>("reward")) rewards += reward;
      for (const int64_t action : sent.data.rows.column<int64_t>("action")) {
        EXPECT_LT(action, TicTacToe::kMoves) << "nobody waits";
      }
      for (const Segment& segment : sent.data.segments) {
        EXPECT_TRUE(self_play || segment.stream % 2 == 1) << "home's seat";
        ends += segment.end == SegmentEnd::kTerminated ? 1 : 0;
      }
    }
    double returns = 0;
    for (const double value : info.episode_return) returns += value;
    EXPECT_EQ(rewards, self_play ? 0 : returns) << "what the winner gets, the loser pays";
    EXPECT_EQ(ends, self_play ? 80 : 40);
  }
}

TEST(MarineParallelCollectorTest, AnEvaluationHasOnePolicyAndSendsNothing) {
  Fixture f(GameOf(1));
  f.task.eval_flag = true;
  f.parts.players.clear();
  f.parts.eval_mode = &f.home;
  ASSERT_THAT(f.Create().Run(), IsOk());
  EXPECT_THAT(f.link.sent(), IsEmpty());
  const CollectorFinishInfo info = f.collector->GetFinishInfo();
  EXPECT_TRUE(info.eval_flag);
  EXPECT_TRUE(info.is_game);
  EXPECT_TRUE(info.collector_done);
  EXPECT_THAT(info.episode_return, SizeIs(9));
}

TEST(MarineParallelCollectorTest, AFailingPolicyIsAnErrorAndAClosedLinkIsNot) {
  Fixture f;
  f.away.on_load_model = [](StateReader*) { return absl::DataLossError("not a model"); };
  EXPECT_THAT(f.Create().Run(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a model")));
  Fixture g;
  g.link.on_send_data = [] { return absl::CancelledError("closing"); };
  EXPECT_THAT(g.Create().Run(), IsOk());
  EXPECT_FALSE(g.collector->GetFinishInfo().collector_done);
}

TEST(MarineParallelCollectorTest, ChecksPlayersAndGames) {
  Fixture f;
  f.parts.players.pop_back();
  f.parts.players[0].updates = false;
  f.task.home_seat = 2;
  EXPECT_THAT(f.Problems(), StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr("1 players in a collecting task, expected 2"),
                                           HasSubstr("no player learns"),
                                           HasSubstr("home_seat is 2, expected 0 or 1"))));
  Fixture for_one(GameOf(1));
  EXPECT_THAT(for_one.Problems(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 1 players, expected 2")));
  Fixture evaluation;
  evaluation.task.eval_flag = true;
  evaluation.parts.eval_mode = &evaluation.home;
  EXPECT_THAT(evaluation.Problems(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("2 players in an evaluation, expected one policy"),
                             HasSubstr("expected 1: one that plays the opponent itself"))));
}

TEST(MarineParallelCollectorTest, IsFoundByItsName) {
  ParallelCollectorConfig config;
  config.set_type("marine");
  Fixture f;
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseParallelCollector> collector,
                            create_parallel_collector(config, f.task, f.parts, {}));
  EXPECT_NE(dynamic_cast<MarineParallelCollector*>(collector.get()), nullptr);
  EXPECT_TRUE(get_parallel_collector_cls(config)->plays_games);
}

}  // namespace
}  // namespace ding
