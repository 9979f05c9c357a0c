// Measures what an env manager adds to the physics of Box2D: 8 envs with random actions, reset as
// their episodes end.
//   Lander, Walker             BaseEnvManager
//   LanderBaseline, WalkerBaseline   the same games in one loop, which write their observations to one
//                              array
// items_per_second counts env steps.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/box2d/bipedal_walker.h"
#include "ding_worker/env/box2d/lunar_lander.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"

namespace ding {
namespace {

constexpr size_t kEnvs = 8;
constexpr size_t kMoves = 64;

// Random continuous actions, the same for all benchmarks of a task.
template <typename Game>
class Actions {
 public:
  Actions() {
    Rng rng(0, "bench/actions");
    for (auto& move : moves_) {
      for (float& number : move) number = static_cast<float>(rng.Uniform(-1, 1));
    }
  }
  float* Next() { return moves_[next_++ % kMoves].data(); }

 private:
  std::array<std::array<float, kEnvs * Game::kActionSize>, kMoves> moves_;
  size_t next_ = 0;
};

template <typename Game>
void RunManager(benchmark::State& state, const EnvFactory& factory) {
  const std::unique_ptr<BaseEnvManager> manager =
      *BaseEnvManager::Create({}, std::vector<EnvFactory>(kEnvs, factory));
  const absl::Status launched = manager->Launch();
  DING_CHECK(launched.ok()) << launched;
  Actions<Game> actions;
  for (auto _ : state) {
    const ReadyObs ready = manager->ready_obs();
    benchmark::DoNotOptimize(ready.obs.raw_column(0));
    std::byte* const column = reinterpret_cast<std::byte*>(actions.Next());
    const ColumnsView rows(manager->env_spec().action.get(), &column, 0, kEnvs);
    const absl::StatusOr<const Timesteps*> steps = manager->Step(ready.env_ids, rows);
    DING_CHECK(steps.ok()) << steps.status();
    benchmark::DoNotOptimize((*steps)->reward.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kEnvs));
  state.SetLabel("aim=0.91");
}

template <typename Game>
void RunBaseline(benchmark::State& state) {
  uint64_t seed = 0;
  std::vector<std::unique_ptr<Game>> games;
  const typename Game::Options options;
  for (size_t i = 0; i < kEnvs; ++i) games.push_back(std::make_unique<Game>(options, seed++));
  Actions<Game> actions;
  std::vector<float> obs(kEnvs * Game::kObsSize);
  for (auto _ : state) {
    const absl::Span<const float> moves(actions.Next(), kEnvs * Game::kActionSize);
    for (size_t i = 0; i < kEnvs; ++i) {
      const ClassicOutcome outcome =
          games[i]->Step(moves.subspan(i * Game::kActionSize, Game::kActionSize));
      games[i]->Observe(absl::MakeSpan(obs).subspan(i * Game::kObsSize, Game::kObsSize));
      if (outcome.terminated) games[i] = std::make_unique<Game>(options, seed++);
    }
    benchmark::DoNotOptimize(obs.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kEnvs));
}

void BM_Lander(benchmark::State& state) {
  RunManager<ContinuousLunarLander>(
      state, [] { return CreateLunarLanderContinuous(LunarLanderOptions()); });
}
BENCHMARK(BM_Lander);
void BM_LanderBaseline(benchmark::State& state) { RunBaseline<ContinuousLunarLander>(state); }
BENCHMARK(BM_LanderBaseline);

void BM_Walker(benchmark::State& state) {
  RunManager<BipedalWalkerGame>(state, [] { return CreateBipedalWalker(/*hardcore=*/false); });
}
BENCHMARK(BM_Walker);
void BM_WalkerBaseline(benchmark::State& state) { RunBaseline<BipedalWalkerGame>(state); }
BENCHMARK(BM_WalkerBaseline);

}  // namespace
}  // namespace ding
