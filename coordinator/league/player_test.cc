#include <cmath>
#include <optional>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/league/league.h"
#include "ding_worker/coordinator/league/league.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  EXPECT_THAT(NaiveSpPlayer::Problems(config), IsEmpty());
  config.set_one_phase_step(0);
  config.mutable_branch_probs()->set_sp(0.6);
  config.set_strong_win_rate(1.5);
  EXPECT_THAT(NaiveSpPlayer::Problems(config),
              ElementsAre(HasSubstr("one_phase_step is 0"),
                          HasSubstr("pfsp 0.5 and sp 0.6, expected probabilities"),
                          HasSubstr("strong_win_rate is 1.5")));
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
