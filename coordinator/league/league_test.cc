#include "ding_worker/coordinator/league/league.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/league/league.pb.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kMain[] = "naive_sp_player_default_0";

PolicyVersion Version(uint64_t number) {
  PolicyVersion version;
  version.set_policy_id("policy_0");
  version.set_version(number);
  version.set_key(absl::StrCat("key-", number));
  return version;
}

OneVsOneLeague Make(const LeagueConfig& config = {}, uint64_t seed = 0) {
  return OneVsOneLeague::Create(config, seed).value();
}

// Makes `count` snapshots, of the versions 1, 2, ...
void MakeSnapshots(int count, OneVsOneLeague* league) {
  for (int i = 1; i <= count; ++i) {
    league->NotePolicy(Version(static_cast<uint64_t>(i)));
    ASSERT_TRUE(league->NoteTrainStep(20 * i));
  }
}

TEST(OneVsOneLeagueTest, DefaultsAreThoseOfTheOriginal) {
  const OneVsOneLeague league = Make();
  EXPECT_EQ(league.active().id(), kMain);
  EXPECT_THAT(league.historical(), IsEmpty());
  const LeagueConfig config;
  EXPECT_EQ(config.player_category_size(), 0);
  EXPECT_EQ(config.active_players().naive_sp_player(), 1);
  EXPECT_EQ(config.payoff().type(), "battle");
}

TEST(OneVsOneLeagueTest, FieldsOutOfTheirRangesAreListed) {
  EXPECT_THAT(OneVsOneLeague::Problems(LeagueConfig()), IsEmpty());
  LeagueConfig config;
  config.mutable_naive_sp_player()->set_one_phase_step(0);
  config.mutable_naive_sp_player()->mutable_branch_probs()->set_sp(0.6);
  config.mutable_naive_sp_player()->set_strong_win_rate(1.5);
  config.mutable_payoff()->set_decay(0);
  config.mutable_payoff()->set_min_win_rate_games(0);
  config.mutable_metric()->set_mu(NAN);
  config.mutable_metric()->set_sigma(0);
  config.mutable_metric()->set_beta(0);
  config.mutable_metric()->set_tau(-1);
  config.mutable_metric()->set_draw_probability(1);
  EXPECT_THAT(
      OneVsOneLeague::Problems(config),
      ElementsAre("naive_sp_player.one_phase_step is 0, expected at least 1",
                  "naive_sp_player.strong_win_rate is 1.5, expected in [0, 1]",
                  "payoff.decay is 0, expected in (0, 1]",
                  "payoff.min_win_rate_games is 0, expected at least 1",
                  "metric.mu is nan, expected finite", "metric.sigma is 0, expected above 0",
                  "metric.beta is 0, expected above 0", "metric.tau is -1, expected at least 0",
                  "metric.draw_probability is 1, expected in (0, 1)",
                  HasSubstr("pfsp 0.5 and sp 0.6, expected probabilities")));
}

TEST(OneVsOneLeagueTest, ALeagueWithoutPlayersIsRefused) {
  LeagueConfig config;
  config.mutable_active_players()->set_naive_sp_player(0);
  EXPECT_THAT(OneVsOneLeague::Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a league without players: 1 categories with 0 active players")));
  config.mutable_active_players()->set_naive_sp_player(2);
  config.set_max_historical_players(0);
  config.add_player_category("a b");
  config.mutable_payoff()->set_decay(2);
  config.mutable_payoff()->set_type("other");
  EXPECT_THAT(
      OneVsOneLeague::Create(config),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("2 active players, expected 1"), HasSubstr("player_category 'a b'"),
                     HasSubstr("max_historical_players is 0"), HasSubstr("payoff.decay is 2"),
                     HasSubstr("payoff.type is 'other', expected 'battle'"))));
}

TEST(OneVsOneLeagueTest, TheFirstGamesAreSelfPlay) {
  OneVsOneLeague league = Make();
  for (int i = 0; i < 50; ++i) {
    const OneVsOneLeague::Job job = league.GetJob();
    EXPECT_EQ(job.home_id, kMain);
    EXPECT_TRUE(job.self_play());
    EXPECT_FALSE(job.away_policy.has_key());
    league.FinishJob(job.home_id, job.away_id, {TaskGameResult::WINS});
  }
  EXPECT_EQ(league.payoff().Record(kMain, kMain).draws(), 50);
  EXPECT_EQ(league.active().rating().mu(), 0);
}

TEST(OneVsOneLeagueTest, ASnapshotIsAVersionThatIsKept) {
  OneVsOneLeague league = Make();
  EXPECT_FALSE(league.NoteTrainStep(20)) << "there is no version yet";
  league.NotePolicy(Version(1));
  EXPECT_TRUE(league.NoteTrainStep(21));
  EXPECT_FALSE(league.NoteTrainStep(41)) << "of the same version";
  league.NotePolicy(Version(2));
  EXPECT_TRUE(league.NoteTrainStep(42));
  league.NotePolicy(Version(3));
  ASSERT_THAT(league.historical(), SizeIs(2));
  EXPECT_EQ(league.historical()[0].id(), absl::StrCat(kMain, "_21_historical"));
  EXPECT_EQ(league.historical()[1].train_step(), 42);
  EXPECT_EQ(league.historical()[1].parent_id(), kMain);
  EXPECT_TRUE(league.Keeps(Version(1)));
  EXPECT_TRUE(league.Keeps(Version(2)));
  EXPECT_FALSE(league.Keeps(Version(3)));
}

TEST(OneVsOneLeagueTest, AStrongPlayerIsSnapshottedAfterOnePhase) {
  OneVsOneLeague league = Make();
  MakeSnapshots(1, &league);
  league.NotePolicy(Version(2));
  EXPECT_FALSE(league.NoteTrainStep(30));
  league.FinishJob(kMain, league.historical()[0].id(),
                   std::vector<TaskGameResult>(20, TaskGameResult::WINS));
  EXPECT_TRUE(league.NoteTrainStep(30));
}

TEST(OneVsOneLeagueTest, FavoursOpponentsThatItDoesNotBeat) {
  OneVsOneLeague league = Make();
  MakeSnapshots(3, &league);
  const std::string weak = league.historical()[0].id();
  const std::string strong = league.historical()[1].id();
  const std::string unknown = league.historical()[2].id();
  league.FinishJob(kMain, weak, std::vector<TaskGameResult>(30, TaskGameResult::WINS));
  league.FinishJob(kMain, strong, std::vector<TaskGameResult>(30, TaskGameResult::LOSSES));
  EXPECT_THAT(league.WinRates(), ElementsAre(1, 0, 0.5));
  EXPECT_GT(league.active().rating().sigma(), 0);
  EXPECT_LT(league.historical()[0].rating().mu(), league.historical()[1].rating().mu());
  std::map<std::string, int> games;
  for (int i = 0; i < 4000; ++i) ++games[league.GetJob().away_id];
  EXPECT_NEAR(games[kMain], 2000, 160);
  EXPECT_EQ(games[weak], 0);
  EXPECT_NEAR(games[strong], 1600, 160);
  EXPECT_NEAR(games[unknown], 400, 100);
}

TEST(OneVsOneLeagueTest, TheWeakestOfTooManyLeaves) {
  LeagueConfig config;
  config.set_max_historical_players(2);
  OneVsOneLeague league = Make(config);
  MakeSnapshots(2, &league);
  league.FinishJob(kMain, league.historical()[1].id(),
                   std::vector<TaskGameResult>(20, TaskGameResult::WINS));
  const std::string weak = league.historical()[1].id();
  league.NotePolicy(Version(3));
  ASSERT_TRUE(league.NoteTrainStep(60));
  ASSERT_THAT(league.historical(), SizeIs(2));
  EXPECT_TRUE(league.Keeps(Version(1)));
  EXPECT_FALSE(league.Keeps(Version(2)));
  EXPECT_TRUE(league.Keeps(Version(3)));
  // The result of a task that played against the player that has left does not count.
  league.FinishJob(kMain, weak, {TaskGameResult::WINS});
  EXPECT_EQ(GamesOf(league.payoff().Record(kMain, weak)), 0);
}

TEST(OneVsOneLeagueTest, ContinuesFromItsSavedState) {
  OneVsOneLeague league = Make();
  MakeSnapshots(4, &league);
  for (int i = 0; i < 40; ++i) {
    const OneVsOneLeague::Job job = league.GetJob();
    league.FinishJob(
        job.home_id, job.away_id,
        {i % 3 == 0 ? TaskGameResult::LOSSES : TaskGameResult::WINS, TaskGameResult::DRAWS});
  }
  StateDict saved;
  ASSERT_THAT(league.SaveState(&saved), IsOk());
  OneVsOneLeague loaded = Make({}, /*seed=*/99);
  ASSERT_THAT(loaded.LoadState(&saved), IsOk());
  for (OneVsOneLeague* each : {&league, &loaded}) {
    each->NotePolicy(Version(5));
    EXPECT_FALSE(each->NoteTrainStep(90));
  }
  for (int i = 0; i < 200; ++i) {
    const OneVsOneLeague::Job job = league.GetJob();
    const OneVsOneLeague::Job same = loaded.GetJob();
    EXPECT_EQ(job.away_id, same.away_id);
    EXPECT_EQ(job.away_policy.key(), same.away_policy.key());
    for (OneVsOneLeague* each : {&league, &loaded}) {
      each->FinishJob(job.home_id, job.away_id, {TaskGameResult::LOSSES});
    }
  }
  EXPECT_EQ(loaded.WinRates(), league.WinRates());
  EXPECT_EQ(loaded.active().rating().mu(), league.active().rating().mu());
  EXPECT_TRUE(loaded.NoteTrainStep(100));
}

TEST(OneVsOneLeagueTest, AnInvalidStateChangesNothing) {
  OneVsOneLeague league = Make();
  MakeSnapshots(2, &league);
  const auto load = [&league](const LeagueState& state) {
    StateDict changed;
    EXPECT_THAT(changed.WriteString("league", state.SerializeAsString()), IsOk());
    EXPECT_THAT(changed.WriteRng("league_rng", Rng(0, "x")), IsOk());
    return league.LoadState(&changed);
  };
  LeagueState state;
  EXPECT_THAT(load(state), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 active")));
  state.add_active()->set_id(kMain);
  state.mutable_active(0)->mutable_rating()->set_sigma(1);
  LeagueState bad = state;
  bad.mutable_active(0)->mutable_rating()->set_sigma(0);
  EXPECT_THAT(load(bad), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("saved rating")));
  bad = state;
  bad.add_historical()->set_id("old");
  EXPECT_THAT(load(bad), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no policy")));
  bad = state;
  bad.add_payoff()->set_wins(-1);
  EXPECT_THAT(load(bad), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("saved games")));
  bad = state;
  bad.mutable_active(0)->set_snapshot_step(5);
  EXPECT_THAT(load(bad), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a snapshot at step 5")));
  EXPECT_THAT(league.historical(), SizeIs(2));
  EXPECT_THAT(load(state), IsOk());
  EXPECT_THAT(league.historical(), IsEmpty());
}

TEST(PfspTest, FavoursOpponentsThatAreNotBeaten) {
  EXPECT_THAT(Pfsp({0.5, 0.75, 1}), ElementsAre(DoubleNear(0.8, 1e-12), DoubleNear(0.2, 1e-12), 0));
  EXPECT_THAT(Pfsp({0, 0}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(Pfsp({1, 1, 1, 1}), ElementsAre(0.25, 0.25, 0.25, 0.25)) << "not 0 / 0";
  EXPECT_THAT(Pfsp({}), IsEmpty());
}

NaiveSpPlayer PlayerWith(double pfsp) {
  NaiveSpPlayerConfig config;
  config.mutable_branch_probs()->set_pfsp(pfsp);
  config.mutable_branch_probs()->set_sp(1 - pfsp);
  return NaiveSpPlayer(config, {});
}

TEST(NaiveSpPlayerTest, DefaultsAreThoseOfTheOriginal) {
  NaiveSpPlayerConfig config;
  EXPECT_EQ(config.one_phase_step(), 10);
  EXPECT_EQ(config.branch_probs().pfsp(), 0.5);
  EXPECT_EQ(config.branch_probs().sp(), 0.5);
  EXPECT_EQ(config.strong_win_rate(), 0.7);
}

TEST(NaiveSpPlayerTest, OpponentsHaveTheirProbabilities) {
  const NaiveSpPlayer player = PlayerWith(/*pfsp=*/0.3);
  const std::vector<double> rates = {0.9, 0.2, 1, 0.5};
  const std::vector<double> expected = Pfsp(rates);
  constexpr int kDraws = 20000;
  std::vector<int> counts(rates.size());
  int self = 0;
  Rng rng(7, "player_test");
  for (int i = 0; i < kDraws; ++i) {
    const std::optional<size_t> chosen = player.ChooseOpponent(rates, &rng);
    chosen.has_value() ? ++counts[*chosen] : ++self;
  }
  const auto expect_share = [](int count, double share) {
    EXPECT_NEAR(count, kDraws * share, 5 * std::sqrt(kDraws * share * (1 - share)));
  };
  expect_share(self, 0.7);
  for (size_t i = 0; i < rates.size(); ++i) expect_share(counts[i], 0.3 * expected[i]);
  EXPECT_EQ(counts[2], 0) << "who is always beaten";
}

TEST(NaiveSpPlayerTest, PlaysItselfWithoutHistoricalPlayers) {
  const NaiveSpPlayer player = PlayerWith(/*pfsp=*/1);
  Rng rng(7, "player_test");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(player.ChooseOpponent({}, &rng).has_value());
  EXPECT_EQ(player.ChooseOpponent({1}, &rng), 0u);
}

TEST(NaiveSpPlayerTest, IsTrainedEnoughAfterTwoPhasesOrOneThatBeatsAll) {
  NaiveSpPlayer player({}, {});
  player.set_train_step(9);
  EXPECT_FALSE(player.IsTrainedEnough({1}));
  player.set_train_step(10);
  EXPECT_FALSE(player.IsTrainedEnough({})) << "it has beaten nobody";
  EXPECT_FALSE(player.IsTrainedEnough({0.9, 0.7}));
  EXPECT_TRUE(player.IsTrainedEnough({0.9, 0.71}));
  player.set_train_step(19);
  EXPECT_FALSE(player.IsTrainedEnough({0}));
  player.set_train_step(20);
  EXPECT_TRUE(player.IsTrainedEnough({0}));
  player.NoteSnapshot();
  player.set_train_step(39);
  EXPECT_FALSE(player.IsTrainedEnough({0}));
  EXPECT_TRUE(player.IsTrainedEnough({0.8}));
  player.set_train_step(40);
  EXPECT_TRUE(player.IsTrainedEnough({0}));
}

TEST(NaiveSpPlayerTest, ALearnerThatBeginsAnewCountsFromItsNewIterations) {
  NaiveSpPlayer player({}, {});
  player.set_train_step(1000);
  player.NoteSnapshot();
  player.set_train_step(5);
  player.set_train_step(25);
  EXPECT_TRUE(player.IsTrainedEnough({0}));
}

}  // namespace
}  // namespace ding
