// Measures the overhead of an env manager: 8 CartPoles with random actions, reset as their episodes
// end.
//   Manager        BaseEnvManager: it checks ids, actions and numbers, and keeps returns, lengths,
//                  seeds and columns
// items_per_second counts env steps. The floor is in tools/floors/env_floors.cc.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/bare_cartpoles.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"

namespace ding {
namespace {

constexpr int kEnvs = 8;

void BM_Manager(benchmark::State& state) {
  std::vector<EnvFactory> factories(kEnvs, [] { return CreateCartPole("CartPole-v1", 500); });
  const std::unique_ptr<BaseEnvManager> manager = *BaseEnvManager::Create({}, std::move(factories));
  const absl::Status launched = manager->Launch();
  DING_CHECK(launched.ok()) << launched;
  CartPoleActions<kEnvs> table;
  for (auto _ : state) {
    const ReadyObs ready = manager->ready_obs();
    benchmark::DoNotOptimize(ready.obs.raw_column(0));
    std::byte* const column = reinterpret_cast<std::byte*>(const_cast<int64_t*>(table.Next()));
    const ColumnsView actions(manager->env_spec().action.get(), &column, 0, kEnvs);
    const absl::StatusOr<const Timesteps*> steps = manager->Step(ready.env_ids, actions);
    DING_CHECK(steps.ok()) << steps.status();
    benchmark::DoNotOptimize((*steps)->reward.data());
  }
  state.SetItemsProcessed(state.iterations() * kEnvs);
}
BENCHMARK(BM_Manager);

}  // namespace
}  // namespace ding
