// How well the policy in a checkpoint plays its board game, as lines of numbers. The last one is
// the share of its games that it wins (Connect Four) or does not lose (TicTacToe): the result for
// worker/learning_bars.txt.
//
//   judge_board_game --checkpoint=RUN/ckpt/ckpt_best --game=TicTacToe
//   judge_board_game --checkpoint=... --game=ConnectFour --depth=2 --openings=100 --opening_moves=2
//
// Exit code: 0; 1 after an error.
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/learning_bars/board_game_bars.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "gflags/gflags.h"

DEFINE_string(checkpoint, "", "folder of the checkpoint");
DEFINE_string(game, "TicTacToe", "TicTacToe or ConnectFour");
DEFINE_int32(depth, 2, "moves that the opponent in Connect Four looks ahead");
DEFINE_int32(openings, 100, "openings in Connect Four, each played with both colours");
DEFINE_int32(opening_moves, 2, "random moves of an opening");
DEFINE_uint64(seed, 0, "of openings and opponent");

namespace ding {
namespace {

absl::Status Judge() {
  if (FLAGS_game == "ConnectFour") {
    DING_ASSIGN_OR_RETURN(const SearchGames games,
                          PlayConnectFour(FLAGS_checkpoint, FLAGS_depth, FLAGS_openings,
                                          FLAGS_opening_moves, FLAGS_seed));
    std::printf("ConnectFour depth=%d games=%lld won=%lld drawn=%lld lost=%lld win_rate=%.3f\n",
                FLAGS_depth, static_cast<long long>(games.games()),
                static_cast<long long>(games.won), static_cast<long long>(games.drawn),
                static_cast<long long>(games.lost), games.win_rate());
    return absl::OkStatus();
  }
  int64_t all = 0;
  int64_t lost = 0;
  for (const int side : {0, 1}) {
    DING_ASSIGN_OR_RETURN(const AllReplies games, PlayTicTacToe(FLAGS_checkpoint, side));
    std::printf("TicTacToe side=%d won=%lld drawn=%lld lost=%lld first_loss=[%s]\n", side,
                static_cast<long long>(games.won), static_cast<long long>(games.drawn),
                static_cast<long long>(games.lost), games.first_loss.c_str());
    all += games.won + games.drawn + games.lost;
    lost += games.lost;
  }
  std::printf("TicTacToe share_not_lost=%.4f\n",
              static_cast<double>(all - lost) / static_cast<double>(all));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  InitProgram(&argc, &argv,
              "judge_board_game --checkpoint=FOLDER --game=TicTacToe|ConnectFour [--depth=N "
              "--openings=N --opening_moves=N --seed=N]\n");
  absl::Status status = EnterCallersFolder();
  if (status.ok()) status = MakeAbsolute({&FLAGS_checkpoint});
  if (status.ok()) status = Judge();
  return status.ok() ? 0 : ReportFailure(status);
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
