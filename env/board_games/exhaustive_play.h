// Plays a fixed policy against all replies of the other side, which proves that the policy never
// loses.
//
// Each sequence of moves counts as one game. Against a deterministic policy TicTacToe has a few
// hundred games; Connect Four has too many to enumerate.
//
// Position: env/board_games/tic_tac_toe.h.   Threads: thread-compatible.
//
// Example:
//   for (const int side : {0, 1}) {
//     DING_ASSERT_OK_AND_ASSIGN(const AllReplies result, PlayAllReplies<TicTacToe>(policy, side));
//     EXPECT_EQ(result.lost, 0) << result.first_loss;
//   }
#ifndef DING_WORKER_ENV_BOARD_GAMES_EXHAUSTIVE_PLAY_H_
#define DING_WORKER_ENV_BOARD_GAMES_EXHAUSTIVE_PLAY_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/board_games/board_player.h"

namespace ding {

// A deterministic policy: returns the action for `board` and `mask`
// (env/board_games/board_player.h).
using BoardPolicy = std::function<absl::StatusOr<int64_t>(absl::Span<const float> board,
                                                          absl::Span<const uint8_t> mask)>;

// The results of all games, from the view of the policy.
struct AllReplies {
  int64_t won = 0;
  int64_t drawn = 0;
  int64_t lost = 0;
  std::string first_loss;  // the moves of the first lost game, "4 0 8 2"
};

namespace internal_board_games {

template <typename Position>
absl::Status PlayOn(const Position& position, int side, const BoardPolicy& policy,
                    std::vector<int64_t>* moves, AllReplies* result) {
  if (position.over()) {
    if (position.HasWon(side)) {
      ++result->won;
    } else if (!position.HasWon(1 - side)) {
      ++result->drawn;
    } else if (result->lost++ == 0) {
      result->first_loss = absl::StrJoin(*moves, " ");
    }
    return absl::OkStatus();
  }
  std::array<float, 3 * Position::kCells> board;
  std::array<uint8_t, Position::kMoves + 1> mask;
  ShowBoard(position, position.to_move(), absl::MakeSpan(board), absl::MakeSpan(mask));
  if (position.to_move() == side) {
    DING_ASSIGN_OR_RETURN(const int64_t action, policy(board, mask));
    if (action < 0 || action >= Position::kMoves || mask[static_cast<size_t>(action)] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the policy plays ", action, " after the moves [",
                       absl::StrJoin(*moves, " "), "], which is not legal"));
    }
    mask.fill(0);
    mask[static_cast<size_t>(action)] = 1;
  }
  for (int move = 0; move < Position::kMoves; ++move) {
    if (mask[static_cast<size_t>(move)] == 0) continue;
    Position next = position;
    next.Play(move);
    moves->push_back(move);
    DING_RETURN_IF_ERROR(PlayOn(next, side, policy, moves, result));
    moves->pop_back();
  }
  return absl::OkStatus();
}

}  // namespace internal_board_games

// Plays all games in which `policy` has `side` (side 0 begins). kInvalidArgument names an illegal
// action and the moves before it; errors of the policy are returned.
template <typename Position>
absl::StatusOr<AllReplies> PlayAllReplies(const BoardPolicy& policy, int side) {
  AllReplies result;
  std::vector<int64_t> moves;
  DING_RETURN_IF_ERROR(internal_board_games::PlayOn(Position(), side, policy, &moves, &result));
  return result;
}

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_EXHAUSTIVE_PLAY_H_
