#include "ding_worker/worker/learning_bars/board_game_bars.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/env/board_games/board_game_env.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/connect_four.h"
#include "ding_worker/env/board_games/tic_tac_toe.h"
#include "ding_worker/env/env.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {
namespace {

// A policy that is asked for one position at a time, in env 0.
class PositionPlayer {
 public:
  template <typename Position>
  static absl::StatusOr<PositionPlayer> Load(const std::string& checkpoint) {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Env> env, CreateBoardGame<Position>({}));
    const EnvSpec player = PlayerSpec(env->spec());
    DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, LoadEvalPolicy(checkpoint, player));
    DING_ASSIGN_OR_RETURN(BatchBuilder obs, BatchBuilder::Create(player.observation, 1));
    DING_ASSIGN_OR_RETURN(BatchBuilder output,
                          BatchBuilder::Create(policy->eval_mode()->output_spec(), 1));
    return PositionPlayer(std::move(policy), std::move(obs), std::move(output));
  }

  absl::StatusOr<int64_t> Choose(absl::Span<const float> board, absl::Span<const uint8_t> mask) {
    std::copy(board.begin(), board.end(), obs_.column<float>(0).begin());
    std::copy(mask.begin(), mask.end(), obs_.column<uint8_t>(1).begin());
    const int env_ids[] = {0};
    DING_RETURN_IF_ERROR(
        policy_->eval_mode()->Forward(obs_.view(), env_ids, NamedValues(), output_.view()));
    return output_.column<int64_t>(0)[0];
  }

 private:
  PositionPlayer(std::unique_ptr<Policy> policy, BatchBuilder obs, BatchBuilder output)
      : policy_(std::move(policy)), obs_(std::move(obs)), output_(std::move(output)) {}

  std::unique_ptr<Policy> policy_;
  BatchBuilder obs_;
  BatchBuilder output_;
};

// 1 if the policy, on `side`, wins from here; -1 if it loses; else 0.
absl::StatusOr<int> PlayOn(ConnectFour position, int side, const ConnectFourSearch& search,
                           PositionPlayer* policy, Rng* rng) {
  std::array<float, 3 * ConnectFour::kCells> board;
  std::array<uint8_t, ConnectFour::kMoves + 1> mask;
  while (!position.over()) {
    int move = 0;
    if (position.to_move() == side) {
      ShowBoard(position, side, absl::MakeSpan(board), absl::MakeSpan(mask));
      DING_ASSIGN_OR_RETURN(const int64_t action, policy->Choose(board, mask));
      move = static_cast<int>(action);
    } else {
      move = search.Choose(position, rng);
    }
    if (!position.CanPlay(move)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the policy plays ", move, ", which is illegal"));
    }
    position.Play(move);
  }
  return position.HasWon(side) ? 1 : position.HasWon(1 - side) ? -1 : 0;
}

}  // namespace

absl::StatusOr<AllReplies> PlayTicTacToe(const std::string& checkpoint, int side) {
  DING_ASSIGN_OR_RETURN(PositionPlayer player, PositionPlayer::Load<TicTacToe>(checkpoint));
  return PlayAllReplies<TicTacToe>(
      [&player](absl::Span<const float> board, absl::Span<const uint8_t> mask) {
        return player.Choose(board, mask);
      },
      side);
}

absl::StatusOr<SearchGames> PlayConnectFour(const std::string& checkpoint, int depth, int openings,
                                            int opening_moves, uint64_t seed) {
  DING_ASSIGN_OR_RETURN(PositionPlayer player, PositionPlayer::Load<ConnectFour>(checkpoint));
  const ConnectFourSearch search(depth);
  const RandomBoardPlayer<ConnectFour> random;
  Rng rng(seed, "connect_four_bar");
  SearchGames games;
  for (int i = 0; i < openings; ++i) {
    ConnectFour opening;
    for (int k = 0; k < opening_moves; ++k) opening.Play(random.Choose(opening, &rng));
    for (const int side : {0, 1}) {
      DING_ASSIGN_OR_RETURN(const int result, PlayOn(opening, side, search, &player, &rng));
      ++(result > 0 ? games.won : result < 0 ? games.lost : games.drawn);
    }
  }
  return games;
}

}  // namespace ding
