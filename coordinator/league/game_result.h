// The result of a game for one of its two players.
#ifndef DING_WORKER_COORDINATOR_LEAGUE_GAME_RESULT_H_
#define DING_WORKER_COORDINATOR_LEAGUE_GAME_RESULT_H_

namespace ding {

enum class GameResult { kWin, kDraw, kLoss };

// Returns the result of the same game for the other player.
inline GameResult Reversed(GameResult result) {
  switch (result) {
    case GameResult::kWin:
      return GameResult::kLoss;
    case GameResult::kLoss:
      return GameResult::kWin;
    case GameResult::kDraw:
      break;
  }
  return GameResult::kDraw;
}

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_GAME_RESULT_H_
