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

absl::StatusOr<BoardGameOptions> ToOptions(const EnvConfig& config, const BoardGameConfig& params) {
  if (params.has_search_depth() && config.type() != kSearchName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "env '", config.type(), "': search_depth is set, but only '", kSearchName, "' has it"));
  }
  BoardGameOptions options;
  if (params.has_first_player()) options.first_player = params.first_player();
  options.opening_moves = params.opening_moves();
  return options;
}

template <typename Position>
absl::StatusOr<std::unique_ptr<Env>> CreateGame(const EnvConfig& config,
                                                const BoardGameConfig& params) {
  DING_ASSIGN_OR_RETURN(const BoardGameOptions options, ToOptions(config, params));
  return CreateBoardGame<Position>(options);
}

template <typename Position, typename Opponent>
absl::StatusOr<std::unique_ptr<Env>> CreateAgainst(const EnvConfig& config,
                                                   const BoardGameConfig& params) {
  DING_ASSIGN_OR_RETURN(const BoardGameOptions options, ToOptions(config, params));
  return CreateBoardGameAgainst<Position>(config.type(), std::make_shared<Opponent>(), options);
}

absl::StatusOr<std::unique_ptr<Env>> CreateAgainstSearch(const EnvConfig& config,
                                                         const BoardGameConfig& params) {
  DING_ASSIGN_OR_RETURN(const BoardGameOptions options, ToOptions(config, params));
  const int depth = params.has_search_depth() ? params.search_depth() : kDefaultDepth;
  return CreateBoardGameAgainst<ConnectFour>(config.type(),
                                             std::make_shared<ConnectFourSearch>(depth), options);
}

DING_REGISTER(EnvRegistry(), "TicTacToe", CreateGame<TicTacToe>, "TicTacToe for two players");
DING_REGISTER(EnvRegistry(), "ConnectFour", CreateGame<ConnectFour>,
              "Connect Four for two players");
DING_REGISTER(EnvRegistry(), "TicTacToe-vs-random",
              (CreateAgainst<TicTacToe, RandomBoardPlayer<TicTacToe>>),
              "TicTacToe for one player, against random moves");
DING_REGISTER(EnvRegistry(), "TicTacToe-vs-perfect",
              (CreateAgainst<TicTacToe, PerfectTicTacToePlayer>),
              "TicTacToe for one player, against perfect play");
DING_REGISTER(EnvRegistry(), "ConnectFour-vs-random",
              (CreateAgainst<ConnectFour, RandomBoardPlayer<ConnectFour>>),
              "Connect Four for one player, against random moves");
DING_REGISTER(EnvRegistry(), kSearchName, CreateAgainstSearch,
              "Connect Four for one player, against a search of search_depth moves");

}  // namespace
}  // namespace ding
