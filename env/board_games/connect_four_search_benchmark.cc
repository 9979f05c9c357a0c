// Measures a move of the search in positions of games against random play.
#include <cstddef>
#include <vector>

#include "benchmark/benchmark.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/env/board_games/board_player.h"
#include "ding_worker/env/board_games/connect_four.h"

namespace ding {
namespace {

// Positions in which the search is to move; it plays these games with depth 2.
std::vector<ConnectFour> Positions() {
  const ConnectFourSearch search(2);
  const RandomBoardPlayer<ConnectFour> random;
  Rng rng(0, "benchmark/games");
  std::vector<ConnectFour> positions;
  for (int game = 0; game < 50; ++game) {
    ConnectFour position;
    while (!position.over()) {
      const bool own = position.to_move() == game % 2;
      if (own) positions.push_back(position);
      position.Play(own ? search.Choose(position, &rng) : random.Choose(position, &rng));
    }
  }
  return positions;
}

void BM_Move(benchmark::State& state) {
  const ConnectFourSearch search(static_cast<int>(state.range(0)));
  const std::vector<ConnectFour> positions = Positions();
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(search.BestMoves(positions[next++ % positions.size()]));
  }
  state.SetItemsProcessed(state.iterations());
  if (state.range(0) == 4) state.SetLabel("aim=50us");
}
BENCHMARK(BM_Move)->Arg(2)->Arg(4)->Arg(6);

}  // namespace
}  // namespace ding
