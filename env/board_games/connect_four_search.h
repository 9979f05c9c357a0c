// A Connect Four player that looks a fixed number of moves ahead (alpha-beta), and judges what it
// finds there by counting lines.
//
// Evaluation: of the 69 lines of four cells, one with two stones of one side and none of the other
// counts 1 for that side, one with three counts 5. A win counts kWin less the number of moves made
// by then, so that it takes the shortest way and loses by the longest.
//
// Alpha-beta leaves out only what cannot matter: Value() is that of plain minimax to the same
// depth. Depth 2 sees a win of its own and the reply that it must not allow; depth 4 sees simple
// traps, and wins about three games of four against depth 2.
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
  static constexpr int kWin = 10000;  // more than all lines together
  static constexpr int kMaxDepth = 12;

  // Looks `depth` moves ahead, 1 to kMaxDepth.
  explicit ConnectFourSearch(int depth);

  // The evaluation, for the side to move, of a position that is not over.
  static int Evaluate(const ConnectFour& position);
  // For the side to move, `depth` moves ahead.
  static int Value(const ConnectFour& position, int depth);
  // The moves, a bit each, whose value is the best one. `position` is not over.
  uint32_t BestMoves(const ConnectFour& position) const;
  // Any of the best moves, uniformly.
  int Choose(const ConnectFour& position, Rng* rng) const override {
    return DrawMove(BestMoves(position), rng);
  }

 private:
  const int depth_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOARD_GAMES_CONNECT_FOUR_SEARCH_H_
