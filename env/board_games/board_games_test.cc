// Tests of the board games as the registry creates them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/board_games/board_games.pb.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/connect_four.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

absl::StatusOr<std::unique_ptr<Env>> Create(const std::string& type,
                                            const BoardGameConfig& params = {}) {
  EnvConfig config;
  config.set_type(type);
  config.mutable_params()->PackFrom(params);
  return create_env(config);
}

BoardGameConfig Config(int first_player, int opening_moves = 0) {
  BoardGameConfig config;
  config.set_first_player(first_player);
  config.set_opening_moves(opening_moves);
  return config;
}

std::vector<EnvConformanceCase> AllEnvs() {
  std::vector<EnvConformanceCase> cases;
  for (const std::string& name : EnvRegistry().Names()) {
    const std::string id = absl::StrReplaceAll(name, {{"-", "_"}});
    cases.push_back({id, [name] { return Create(name); }});
    BoardGameConfig opening;
    opening.set_opening_moves(4);
    cases.push_back({id + "_opening", [name, opening] { return Create(name, opening); }});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(BoardGames, EnvConformance, testing::ValuesIn(AllEnvs()),
                         EnvConformanceName);

// An env with its rows.
class Table {
 public:
  explicit Table(const std::string& type, const BoardGameConfig& params = {})
      : env_(*Create(type, params)),
        row_(*BatchBuilder::Create(env_->spec().observation, 1)),
        action_(*BatchBuilder::Create(env_->spec().action, 1)) {}

  Env& env() { return *env_; }

  absl::Status Reset(uint64_t seed, NamedValues params = {}) {
    return env_->Reset({seed, std::move(params)}, row_.view().row(0));
  }

  // Steps with the actions of all players.
  absl::Status Step(absl::Span<const int64_t> actions, StepResult* result) {
    for (size_t i = 0; i < actions.size(); ++i) {
      action_.column<int64_t>(static_cast<int>(i))[0] = actions[i];
    }
    *result = StepResult();
    result->other_rewards.resize(actions.size() - 1);
    return env_->Step(ColumnsView(action_.view()).row(0), row_.view().row(0), result);
  }

  // Plane 0 (own stones), 1 (the opponent's) or 2 (turn) of a player's observation.
  std::vector<float> Plane(int player, int plane) const {
    const absl::Span<const float> board = row_.column<float>(2 * player);
    const size_t cells = board.size() / 3;
    const absl::Span<const float> values = board.subspan(cells * static_cast<size_t>(plane), cells);
    return {values.begin(), values.end()};
  }
  std::vector<int> Mask(int player) const {
    const absl::Span<const uint8_t> mask = row_.column<uint8_t>(2 * player + 1);
    return {mask.begin(), mask.end()};
  }
  int Stones(int player) const {
    int count = 0;
    for (const int plane : {0, 1}) {
      for (const float stone : Plane(player, plane)) count += stone == 1;
    }
    return count;
  }

 private:
  const std::unique_ptr<Env> env_;
  BatchBuilder row_;
  BatchBuilder action_;
};

TEST(BoardGamesTest, AllAreRegistered) {
  EXPECT_THAT(EnvRegistry().Names(),
              ElementsAre("ConnectFour", "ConnectFour-vs-random", "ConnectFour-vs-search",
                          "TicTacToe", "TicTacToe-vs-perfect", "TicTacToe-vs-random"));
  for (const std::string& name : EnvRegistry().Names()) {
    EXPECT_EQ(Table(name).env().spec().name, name);
  }
}

TEST(BoardGamesTest, EachPlayerSeesItsOwnSideAndWaitsForTheOther) {
  Table table("TicTacToe", Config(/*first_player=*/1));
  ASSERT_THAT(table.Reset(0), IsOk());
  EXPECT_THAT(table.Mask(0), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(table.Mask(1), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 0));
  StepResult result;
  ASSERT_THAT(table.Step({9, 4}, &result), IsOk());
  EXPECT_THAT(table.Plane(1, 0), ElementsAre(0, 0, 0, 0, 1, 0, 0, 0, 0));
  EXPECT_THAT(table.Plane(0, 1), table.Plane(1, 0));
  EXPECT_THAT(table.Plane(0, 2), testing::Each(1));
  EXPECT_THAT(table.Plane(1, 2), testing::Each(0));
  EXPECT_THAT(table.Mask(0), ElementsAre(1, 1, 1, 1, 0, 1, 1, 1, 1, 0));
  EXPECT_THAT(table.Mask(1), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
}

TEST(BoardGamesTest, TheWinnerGetsOneAndTheLoserMinusOne) {
  for (const int first : {0, 1}) {
    Table table("ConnectFour", Config(first));
    ASSERT_THAT(table.Reset(3), IsOk());
    StepResult result;
    // The sides play columns 0 and 1 in turn, until four stones are in column 0.
    for (int i = 0; i < 7; ++i) {
      EXPECT_FALSE(result.terminated);
      EXPECT_EQ(result.reward, 0);
      const int64_t move = i % 2;
      const bool player_0 = (i % 2 == 0) == (first == 0);
      ASSERT_THAT(table.Step({player_0 ? move : 7, player_0 ? 7 : move}, &result), IsOk());
    }
    EXPECT_TRUE(result.terminated);
    EXPECT_EQ(result.reward, first == 0 ? 1 : -1);
    EXPECT_EQ(result.other_rewards[0], -result.reward);
    for (const int player : {0, 1})
      EXPECT_THAT(table.Mask(player), ElementsAre(0, 0, 0, 0, 0, 0, 0, 1));
    EXPECT_THAT(table.Step({7, 7}, &result), IsFailedPrecondition("Reset()"));
  }
}

TEST(BoardGamesTest, ADrawGivesNoReward) {
  Table table("TicTacToe", Config(0));
  ASSERT_THAT(table.Reset(0), IsOk());
  StepResult result;
  int i = 0;
  for (const int64_t move : {4, 0, 2, 6, 3, 5, 1, 7, 8}) {
    ASSERT_THAT(table.Step({i % 2 == 0 ? move : 9, i % 2 == 0 ? 9 : move}, &result), IsOk());
    EXPECT_EQ(result.reward, 0);
    EXPECT_EQ(result.terminated, ++i == 9);
  }
  EXPECT_FALSE(result.truncated);
}

TEST(BoardGamesTest, IllegalActionsChangeNothing) {
  Table table("TicTacToe", Config(0));
  ASSERT_THAT(table.Reset(0), IsOk());
  StepResult result;
  EXPECT_THAT(table.Step({9, 9}, &result), IsInvalid("player 0 cannot play 9 here"));
  EXPECT_THAT(table.Step({0, 1}, &result),
              IsInvalid("player 1 has to wait (action 9), but its action is 1"));
  ASSERT_THAT(table.Step({0, 9}, &result), IsOk());
  EXPECT_EQ(table.Stones(0), 1);
  EXPECT_THAT(table.Step({9, 0}, &result), IsInvalid("player 1 cannot play 0 here"));
}

TEST(BoardGamesTest, TheFirstPlayerIsDrawnUnlessItIsFixed) {
  Table table("TicTacToe");
  int began = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    ASSERT_THAT(table.Reset(seed), IsOk());
    began += table.Plane(0, 2)[0] == 1;
  }
  EXPECT_NEAR(began, 200, 50);  // Five standard deviations.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const int first : {0, 1}) {
      ASSERT_THAT(table.Reset(seed, {{"first_player", first}}), IsOk());
      EXPECT_EQ(table.Plane(first, 2)[0], 1);
    }
  }
}

TEST(BoardGamesTest, OpeningsAreDrawnFromTheSeed) {
  Table table("ConnectFour", Config(0, 6));
  std::set<std::vector<float>> boards;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    ASSERT_THAT(table.Reset(seed), IsOk());
    EXPECT_EQ(table.Stones(0), 6);
    boards.insert(table.Plane(0, 0));
  }
  EXPECT_GT(boards.size(), 40);
  ASSERT_THAT(table.Reset(0, {{"opening_moves", 0}}), IsOk());
  EXPECT_EQ(table.Stones(0), 0);
}

TEST(BoardGamesTest, RefusesInvalidOptionsAndParameters) {
  EXPECT_THAT(Create("TicTacToe", Config(2)),
              IsInvalid("params.first_player is 2, expected in [0, 1]"));
  EXPECT_THAT(Create("TicTacToe-vs-random", Config(0, 5)),
              IsInvalid("opening_moves is 5, expected 0..4 in TicTacToe"));
  BoardGameConfig depth;
  depth.set_search_depth(13);
  EXPECT_THAT(Create("ConnectFour-vs-search", depth),
              IsInvalid("params.search_depth is 13, expected in [1, 12]"));
  depth.set_search_depth(3);
  EXPECT_THAT(Create("ConnectFour", depth), IsInvalid("only 'ConnectFour-vs-"));
  EnvConfig other;
  other.set_type("ConnectFour");
  other.mutable_params()->PackFrom(EnvManagerConfig());
  EXPECT_THAT(create_env(other),
              IsInvalid("ding.EnvManagerConfig, expected a ding.BoardGameConfig"));

  Table table("ConnectFour", Config(0));
  ASSERT_THAT(table.Reset(0), IsOk());
  StepResult result;
  ASSERT_THAT(table.Step({3, 7}, &result), IsOk());
  EXPECT_THAT(table.Reset(0, {{"komi", 1}}), IsInvalid("parameter 'komi'"));
  EXPECT_THAT(table.Reset(0, {{"opening_moves", 1.5}}), IsInvalid("is 1.5"));
  EXPECT_THAT(table.Reset(0, {{"opening_moves", 7}}), IsInvalid("0..6"));
  ASSERT_THAT(table.Step({7, 3}, &result), IsOk()) << "the game goes on";
  EXPECT_EQ(table.Stones(0), 2);
}

TEST(BoardGamesTest, TheOpponentAnswersEveryMove) {
  for (const int first : {0, 1}) {
    Table table("TicTacToe-vs-random", Config(first));
    ASSERT_THAT(table.Reset(1), IsOk());
    EXPECT_EQ(table.Stones(0), first);
    EXPECT_EQ(table.Plane(0, 2)[0], 1) << "it is always the player's turn";
    StepResult result;
    int64_t move = 0;
    while (table.Mask(0)[static_cast<size_t>(move)] == 0) ++move;
    ASSERT_THAT(table.Step({move}, &result), IsOk());
    EXPECT_EQ(table.Stones(0), first + 2);
    EXPECT_THAT(table.Step({9}, &result), IsInvalid("cannot play 9 here"));
  }
}

// The mean reward of always playing the first legal move, over `games` games.
double MeanReward(const std::string& type, int games) {
  Table table(type);
  double sum = 0;
  for (int i = 0; i < games; ++i) {
    EXPECT_THAT(table.Reset(static_cast<uint64_t>(i)), IsOk());
    StepResult result;
    while (!result.terminated) {
      int64_t move = 0;
      while (table.Mask(0)[static_cast<size_t>(move)] == 0) ++move;
      EXPECT_THAT(table.Step({move}, &result), IsOk());
    }
    sum += result.reward;
  }
  return sum / games;
}

TEST(BoardGamesTest, OpponentsDifferInStrength) {
  EXPECT_GT(MeanReward("TicTacToe-vs-random", 300), 0);
  EXPECT_LT(MeanReward("TicTacToe-vs-perfect", 300), -0.5);
  EXPECT_GT(MeanReward("ConnectFour-vs-random", 300), 0);
  EXPECT_LT(MeanReward("ConnectFour-vs-search", 50), -0.9);
}

TEST(BoardGamesTest, RefusesBrokenStatesAndChangesNothing) {
  Table table("TicTacToe-vs-random", Config(0));
  ASSERT_THAT(table.Reset(0), IsOk());
  StateDict good;
  ASSERT_THAT(table.env().SaveState(&good), IsOk());
  const auto load = [&](absl::Span<const int64_t> stones, int64_t first_player) {
    StateDict broken;
    EXPECT_THAT(broken.WriteSpan<int64_t>("stones", stones), IsOk());
    EXPECT_THAT(broken.WriteInt("first_player", first_player), IsOk());
    EXPECT_THAT(broken.WriteInt("begun", 1), IsOk());
    EXPECT_THAT(broken.WriteRng("opponent", Rng(9, "test")), IsOk());
    return table.env().LoadState(&broken);
  };
  EXPECT_THAT(load({1, 1}, 0), IsInvalid("that can occur in a game of TicTacToe"));
  EXPECT_THAT(load({1, 0}, 2), IsInvalid("'first_player' is 2"));
  StateDict after;
  ASSERT_THAT(table.env().SaveState(&after), IsOk());
  EXPECT_EQ(*good.ReadInt("first_player"), *after.ReadInt("first_player"));
  Rng before_rng(1, "");
  Rng after_rng(2, "");
  ASSERT_THAT(good.ReadRng("opponent", &before_rng), IsOk());
  ASSERT_THAT(after.ReadRng("opponent", &after_rng), IsOk());
  EXPECT_EQ(before_rng.state(), after_rng.state());
}

TEST(BoardGamesTest, RendersTheStones) {
  Table table("ConnectFour", Config(0));
  ASSERT_THAT(table.Reset(0), IsOk());
  StepResult result;
  ASSERT_THAT(table.Step({0, 7}, &result), IsOk());
  ASSERT_THAT(table.Step({7, 1}, &result), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Image image, table.env().Render());
  ASSERT_EQ(image.width, 420);
  ASSERT_EQ(image.height, 360);
  const auto pixel = [&image](int x, int y) {
    const size_t at = static_cast<size_t>(3 * (y * image.width + x));
    return std::vector<int>{image.rgb[at], image.rgb[at + 1], image.rgb[at + 2]};
  };
  EXPECT_THAT(pixel(30, 330), ElementsAre(204, 51, 51));   // the first player's stone, lower left
  EXPECT_THAT(pixel(90, 330), ElementsAre(230, 190, 40));  // the opponent's stone beside it
  EXPECT_THAT(pixel(30, 270), ElementsAre(255, 255, 255));
}

// The longest line, counted stone by stone.
int LongestLine(const ConnectFour& position, int side) {
  int longest = 0;
  for (int row = 0; row < ConnectFour::kRows; ++row) {
    for (int column = 0; column < ConnectFour::kColumns; ++column) {
      for (const auto& [down, right] : {std::pair{0, 1}, {1, 0}, {1, 1}, {1, -1}}) {
        int length = 0;
        int r = row;
        int c = column;
        while (r < ConnectFour::kRows && c >= 0 && c < ConnectFour::kColumns &&
               position.Has(side, r, c)) {
          ++length;
          r += down;
          c += right;
        }
        longest = std::max(longest, length);
      }
    }
  }
  return longest;
}

// Visits all positions of random games.
template <typename Visit>
void VisitRandomGames(int games, const Visit& visit) {
  Rng rng(11, "test/games");
  const RandomBoardPlayer<ConnectFour> player;
  for (int i = 0; i < games; ++i) {
    ConnectFour position;
    while (!position.over()) {
      visit(position);
      position.Play(player.Choose(position, &rng));
    }
    visit(position);
  }
}

TEST(ConnectFourTest, FourInALineWin) {
  int wins = 0;
  int draws = 0;
  VisitRandomGames(2000, [&](const ConnectFour& position) {
    for (const int side : {0, 1}) {
      ASSERT_EQ(position.HasWon(side), LongestLine(position, side) >= 4);
      wins += position.HasWon(side);
    }
    draws += position.moves() == ConnectFour::kCells && !position.HasWon(0) && !position.HasWon(1);
  });
  EXPECT_GT(wins, 1900);
  EXPECT_GT(draws, 0);
}

TEST(ConnectFourTest, StonesFallOntoTheStonesBelow) {
  ConnectFour position;
  for (int i = 0; i < ConnectFour::kRows; ++i) {
    ASSERT_TRUE(position.CanPlay(2));
    position.Play(2);
    EXPECT_TRUE(position.Has(i % 2, ConnectFour::kRows - 1 - i, 2));
    EXPECT_FALSE(position.Has(1 - i % 2, ConnectFour::kRows - 1 - i, 2));
  }
  EXPECT_FALSE(position.CanPlay(2));
  EXPECT_TRUE(position.CanPlay(1));
  EXPECT_FALSE(position.CanPlay(-1));
  EXPECT_FALSE(position.CanPlay(ConnectFour::kMoves));
  EXPECT_FALSE(position.over());
}

TEST(ConnectFourTest, RestoresPositionsOfGamesAndRefusesOthers) {
  VisitRandomGames(50, [](const ConnectFour& position) {
    const auto restored = ConnectFour::FromStones(position.stones(0), position.stones(1));
    ASSERT_TRUE(restored.has_value());
    EXPECT_EQ(restored->moves(), position.moves());
    EXPECT_EQ(restored->over(), position.over());
  });
  EXPECT_FALSE(ConnectFour::FromStones(1, 1)) << "two stones in one cell";
  EXPECT_FALSE(ConnectFour::FromStones(2, 0)) << "a stone in the air";
  EXPECT_FALSE(ConnectFour::FromStones(0, 1)) << "side 1 began";
  EXPECT_FALSE(ConnectFour::FromStones(uint64_t{1} << 49, 0)) << "beside the board";
  EXPECT_FALSE(ConnectFour::FromStones(0b1010101, 0b0101010)) << "a column of seven";
  // Side 0 has four in a column, but side 1 has moved since.
  EXPECT_FALSE(ConnectFour::FromStones(0b1111, uint64_t{0b1111} << 14));
}

// The number of move sequences of length n is known as the perft of this game.
int64_t CountSequences(const ConnectFour& position, int depth) {
  if (depth == 0) return 1;
  if (position.over()) return 0;
  int64_t count = 0;
  for (int move = 0; move < ConnectFour::kMoves; ++move) {
    if (!position.CanPlay(move)) continue;
    ConnectFour next = position;
    next.Play(move);
    count += CountSequences(next, depth - 1);
  }
  return count;
}

TEST(ConnectFourTest, HasTheKnownNumberOfMoveSequences) {
  EXPECT_EQ(CountSequences(ConnectFour(), 6), 117649);
  EXPECT_EQ(CountSequences(ConnectFour(), 7), 823536);
  EXPECT_EQ(CountSequences(ConnectFour(), 8), 5673234);
}

// Plain minimax without pruning.
int Minimax(const ConnectFour& position, int depth) {
  if (position.HasWon(1 - position.to_move())) return position.moves() - ConnectFourSearch::kWin;
  if (position.over()) return 0;
  if (depth == 0) return ConnectFourSearch::Evaluate(position);
  int best = -2 * ConnectFourSearch::kWin;
  for (int move = 0; move < ConnectFour::kMoves; ++move) {
    if (!position.CanPlay(move)) continue;
    ConnectFour next = position;
    next.Play(move);
    best = std::max(best, -Minimax(next, depth - 1));
  }
  return best;
}

TEST(ConnectFourSearchTest, ValuesAndMovesEqualMinimax) {
  VisitRandomGames(12, [](const ConnectFour& position) {
    for (const int depth : {1, 2, 4}) {
      ASSERT_EQ(ConnectFourSearch::Value(position, depth), Minimax(position, depth));
      if (position.over()) continue;
      uint32_t best = 0;
      const int value = Minimax(position, depth);
      for (int move = 0; move < ConnectFour::kMoves; ++move) {
        if (!position.CanPlay(move)) continue;
        ConnectFour next = position;
        next.Play(move);
        if (-Minimax(next, depth - 1) == value) best |= 1u << move;
      }
      ASSERT_EQ(ConnectFourSearch(depth).BestMoves(position), best);
    }
  });
}

// The evaluation, counted cell by cell.
int EvaluateByHand(const ConnectFour& position) {
  constexpr int kWeight[] = {0, 0, 1, 5};
  int value = 0;
  for (int row = 0; row < ConnectFour::kRows; ++row) {
    for (int column = 0; column < ConnectFour::kColumns; ++column) {
      for (const auto& [down, right] : {std::pair{0, 1}, {1, 0}, {1, 1}, {1, -1}}) {
        int count[2] = {0, 0};
        int cells = 0;
        for (int i = 0; i < 4; ++i) {
          const int r = row + i * down;
          const int c = column + i * right;
          if (r >= ConnectFour::kRows || c < 0 || c >= ConnectFour::kColumns) break;
          ++cells;
          for (const int side : {0, 1}) count[side] += position.Has(side, r, c);
        }
        if (cells < 4) continue;
        const int own = count[position.to_move()];
        const int other = count[1 - position.to_move()];
        if (other == 0) value += kWeight[own];
        if (own == 0) value -= kWeight[other];
      }
    }
  }
  return value;
}

TEST(ConnectFourSearchTest, EvaluationCountsLines) {
  VisitRandomGames(100, [](const ConnectFour& position) {
    if (!position.over()) {
      ASSERT_EQ(ConnectFourSearch::Evaluate(position), EvaluateByHand(position));
    }
  });
}

TEST(ConnectFourSearchTest, WinsAtOnceAndPreventsALoss) {
  ConnectFour position;
  for (const int move : {3, 0, 3, 0, 3}) position.Play(move);
  const ConnectFourSearch two(2);
  EXPECT_EQ(two.BestMoves(position), 1u << 3) << "stops four in column 3";
  position.Play(6);
  EXPECT_EQ(two.BestMoves(position), 1u << 3) << "completes it";
}

// Counts the games that depth 4 wins; it begins every other game.
TEST(ConnectFourSearchTest, BeatsRandomPlayAndAShallowerSearch) {
  const ConnectFourSearch four(4);
  const ConnectFourSearch two(2);
  const RandomBoardPlayer<ConnectFour> random;
  const auto points = [&four](const BoardPlayer<ConnectFour>& other, int games) {
    Rng rng(5, "test/match");
    double sum = 0;
    for (int i = 0; i < games; ++i) {
      ConnectFour position;
      while (!position.over()) {
        const bool own = position.to_move() == i % 2;
        position.Play(own ? four.Choose(position, &rng) : other.Choose(position, &rng));
      }
      sum += position.HasWon(i % 2) ? 1 : position.HasWon(1 - i % 2) ? 0 : 0.5;
    }
    return sum / games;
  };
  EXPECT_GE(points(random, 100), 0.99);
  EXPECT_GE(points(two, 200), 0.6);
}

TEST(ConnectFourSearchTest, IsAFunctionOfItsSeed) {
  const ConnectFourSearch player(2);
  const auto game = [&player](uint64_t seed) {
    Rng rng(seed, "test/seed");
    ConnectFour position;
    while (!position.over()) position.Play(player.Choose(position, &rng));
    return position.stones(0);
  };
  EXPECT_EQ(game(1), game(1));
  EXPECT_TRUE(game(1) != game(2) || game(2) != game(3)) << "equal moves are drawn from";
}

}  // namespace
}  // namespace ding
