// A Connect Four player that searches a fixed number of moves ahead by alpha-beta, and evaluates the
// positions at the end by counting lines.
//
// Evaluation: among the 69 lines of four cells, a line with two stones of one side and none of the
// other counts 1 for that side, a line with three counts 5. A win counts kWin minus the number of
// moves made by then, so that the player prefers a quick win and a late loss.
//
// Alpha-beta is exact: Value() equals plain minimax to the same depth. Depth 2 sees its own wins and
// the opponent's replies that win; depth 4 sees simple traps and wins about three games of four
// against depth 2.
//
// Threads: thread-safe.
//
// Example:
//   const ConnectFourSearch player(/*depth=*/4);
//   position.Play(player.Choose(position, &rng));
#ifndef DING_WORKER_ENV_BOARD_GAMES_CONNECT_FOUR_SEARCH_H_
#define DING_WORKER_ENV_BOARD_GAMES_CONNECT_FOUR_SEARCH_H_

#include <cstdint>

#include "ding_worker/base/rng.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/connect_four.h"

namespace ding {

class ConnectFourSearch : public BoardPlayer<ConnectFour> {
 public:
  static constexpr int kWin = 10000;  // more than the sum of all lines
  static constexpr int kMaxDepth = 12;

  // Looks `depth` moves ahead, 1 to kMaxDepth.
  explicit ConnectFourSearch(int depth);

  // Evaluates a position that is not over, for the side to move.
  static int Evaluate(const ConnectFour& position);
  // Returns the minimax value for the side to move, `depth` moves ahead.
  static int Value(const ConnectFour& position, int depth);
  // Returns the set of moves with the best value, one bit per move. `position` must not be over.
  uint32_t BestMoves(const ConnectFour& position) const;
  // Draws uniformly from the best moves.
  int Choose(const ConnectFour& position, Rng* rng) const override {
    return DrawMove(BestMoves(position), rng);
  }

 private:
  const int depth_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_CONNECT_FOUR_SEARCH_H_
