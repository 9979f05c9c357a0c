// Registers the two-player games TicTacToe and ConnectFour, and the single-player envs
// TicTacToe-vs-random, TicTacToe-vs-perfect, ConnectFour-vs-random and ConnectFour-vs-search.
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/board_games/board_game_env.h"
#include "ding_worker/env/board_games/board_games.pb.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/connect_four.h"
#include "ding_worker/env/board_games/tic_tac_toe.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"

namespace ding {
namespace {

constexpr char kSearchName[] = "ConnectFour-vs-search";
constexpr int kDefaultDepth = 4;

absl::StatusOr<BoardGameConfig> ReadConfig(const EnvConfig& config) {
  BoardGameConfig params;
  DING_RETURN_IF_ERROR(UnpackEnvParams(config, &params));
  if (params.has_search_depth() && config.type() != kSearchName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "env '", config.type(), "': search_depth is set, but only '", kSearchName, "' has it"));
  }
  return params;
}

BoardGameOptions ToOptions(const BoardGameConfig& config) {
  BoardGameOptions options;
  if (config.has_first_player()) options.first_player = config.first_player();
  options.opening_moves = config.opening_moves();
  return options;
}

template <typename Position>
absl::StatusOr<std::unique_ptr<Env>> CreateGame(const EnvConfig& config) {
  DING_ASSIGN_OR_RETURN(const BoardGameConfig params, ReadConfig(config));
  return CreateBoardGame<Position>(ToOptions(params));
}

template <typename Position, typename Opponent>
absl::StatusOr<std::unique_ptr<Env>> CreateAgainst(const EnvConfig& config) {
  DING_ASSIGN_OR_RETURN(const BoardGameConfig params, ReadConfig(config));
  return CreateBoardGameAgainst<Position>(config.type(), std::make_shared<Opponent>(),
                                          ToOptions(params));
}

absl::StatusOr<std::unique_ptr<Env>> CreateAgainstSearch(const EnvConfig& config) {
  DING_ASSIGN_OR_RETURN(const BoardGameConfig params, ReadConfig(config));
  const int depth = params.has_search_depth() ? params.search_depth() : kDefaultDepth;
  if (depth < 1 || depth > ConnectFourSearch::kMaxDepth) {
    return absl::InvalidArgumentError(absl::StrCat("env '", config.type(), "': search_depth is ",
                                                   depth, ", expected 1..",
                                                   ConnectFourSearch::kMaxDepth));
  }
  return CreateBoardGameAgainst<ConnectFour>(
      config.type(), std::make_shared<ConnectFourSearch>(depth), ToOptions(params));
}

DING_REGISTER(EnvRegistry(), "TicTacToe", CreateGame<TicTacToe>, "TicTacToe for two players",
              &BoardGameConfig::descriptor);
DING_REGISTER(EnvRegistry(), "ConnectFour", CreateGame<ConnectFour>, "Connect Four for two players",
              &BoardGameConfig::descriptor);
DING_REGISTER(EnvRegistry(), "TicTacToe-vs-random",
              (CreateAgainst<TicTacToe, RandomBoardPlayer<TicTacToe>>),
              "TicTacToe for one player, against random moves", &BoardGameConfig::descriptor);
DING_REGISTER(EnvRegistry(), "TicTacToe-vs-perfect",
              (CreateAgainst<TicTacToe, PerfectTicTacToePlayer>),
              "TicTacToe for one player, against perfect play", &BoardGameConfig::descriptor);
DING_REGISTER(EnvRegistry(), "ConnectFour-vs-random",
              (CreateAgainst<ConnectFour, RandomBoardPlayer<ConnectFour>>),
              "Connect Four for one player, against random moves", &BoardGameConfig::descriptor);
DING_REGISTER(EnvRegistry(), kSearchName, CreateAgainstSearch,
              "Connect Four for one player, against a search of search_depth moves",
              &BoardGameConfig::descriptor);

}  // namespace
}  // namespace ding
