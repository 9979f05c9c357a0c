// Measures env managers that step envs in threads and processes: CartPoles with random actions,
// reset as their episodes end.
//   Threads            64 CartPoles in 2 threads; Inline: the manager chooses the caller's thread
//   Threads*Baseline      the same envs in BaseEnvManager
//   BusyThreads/envs   envs whose step takes 20 us of processor time, in 2 threads
//   Processes          8 CartPoles in 8 processes; Grouped: in one process per core
//   Processes*Baseline    the same envs in BaseEnvManager
// items_per_second counts env steps.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/bare_cartpoles.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/subprocess_env_manager.h"

namespace ding {
namespace {

// A CartPole whose step takes 20 us longer.
class BusyEnv : public Env {
 public:
  explicit BusyEnv(std::unique_ptr<Env> env) : env_(std::move(env)) {}
  const EnvSpec& spec() const override { return env_->spec(); }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    return env_->Reset(start, obs);
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    const int64_t end = Clock::Real()->MonotonicNanos() + 20'000;
    while (Clock::Real()->MonotonicNanos() < end) {
    }
    return env_->Step(action, obs, result);
  }

 private:
  const std::unique_ptr<Env> env_;
};

std::vector<EnvFactory> CartPoles(int count) {
  return std::vector<EnvFactory>(static_cast<size_t>(count),
                                 [] { return CreateCartPole("CartPole-v1", 500); });
}

std::vector<EnvFactory> BusyCartPoles(int count) {
  const EnvFactory factory = []() -> absl::StatusOr<std::unique_ptr<Env>> {
    return std::make_unique<BusyEnv>(*CreateCartPole("CartPole-v1", 500));
  };
  return std::vector<EnvFactory>(static_cast<size_t>(count), factory);
}

template <int envs>
void Play(absl::StatusOr<std::unique_ptr<EnvManager>> made, benchmark::State* state) {
  DING_CHECK(made.ok()) << made.status();
  const std::unique_ptr<EnvManager> manager = *std::move(made);
  const absl::Status launched = manager->Launch();
  DING_CHECK(launched.ok()) << launched;
  CartPoleActions<envs> table;
  for (auto _ : *state) {
    const ReadyObs ready = manager->ready_obs();
    benchmark::DoNotOptimize(ready.obs.raw_column(0));
    std::byte* const column = reinterpret_cast<std::byte*>(const_cast<int64_t*>(table.Next()));
    const ColumnsView actions(manager->env_spec().action.get(), &column, 0, envs);
    const absl::StatusOr<const Timesteps*> steps = manager->Step(ready.env_ids, actions);
    DING_CHECK(steps.ok()) << steps.status();
    benchmark::DoNotOptimize((*steps)->reward.data());
  }
  state->SetItemsProcessed(state->iterations() * envs);
}

absl::StatusOr<std::unique_ptr<EnvManager>> InThisThread(std::vector<EnvFactory> factories) {
  return BaseEnvManager::Create({}, std::move(factories));
}

absl::StatusOr<std::unique_ptr<EnvManager>> InThreads(std::vector<EnvFactory> factories,
                                                      bool always) {
  AsyncThreadEnvManagerOptions options;
  options.num_threads = 2;
  if (always) options.inline_below = absl::ZeroDuration();
  return CreateAsyncThreadEnvManager(options, std::move(factories));
}

absl::StatusOr<std::unique_ptr<EnvManager>> InProcesses(std::vector<EnvFactory> factories,
                                                        int envs_per_process) {
  SubprocessEnvManagerOptions options;
  options.envs_per_process = envs_per_process;
  return CreateSubprocessEnvManager(options, std::move(factories));
}

void BM_Threads(benchmark::State& state) {
  Play<64>(InThreads(CartPoles(64), /*always=*/true), &state);
}
BENCHMARK(BM_Threads)->UseRealTime();
void BM_ThreadsBaseline(benchmark::State& state) { Play<64>(InThisThread(CartPoles(64)), &state); }
BENCHMARK(BM_ThreadsBaseline)->UseRealTime();

void BM_ThreadsInline(benchmark::State& state) {
  Play<64>(InThreads(CartPoles(64), /*always=*/false), &state);
}
BENCHMARK(BM_ThreadsInline)->UseRealTime();
void BM_ThreadsInlineBaseline(benchmark::State& state) {
  Play<64>(InThisThread(CartPoles(64)), &state);
}
BENCHMARK(BM_ThreadsInlineBaseline)->UseRealTime();

template <int envs>
void BM_BusyThreads(benchmark::State& state) {
  Play<envs>(InThreads(BusyCartPoles(envs), /*always=*/false), &state);
  if (envs == 64) state.SetLabel("aim=1.7");  // 1.7 times as fast
}
BENCHMARK(BM_BusyThreads<16>)->Name("BM_BusyThreads/16")->UseRealTime();
BENCHMARK(BM_BusyThreads<64>)->Name("BM_BusyThreads/64")->UseRealTime();
template <int envs>
void BM_BusyThreadsBaseline(benchmark::State& state) {
  Play<envs>(InThisThread(BusyCartPoles(envs)), &state);
}
BENCHMARK(BM_BusyThreadsBaseline<16>)->Name("BM_BusyThreadsBaseline/16")->UseRealTime();
BENCHMARK(BM_BusyThreadsBaseline<64>)->Name("BM_BusyThreadsBaseline/64")->UseRealTime();

void BM_Processes(benchmark::State& state) { Play<8>(InProcesses(CartPoles(8), 1), &state); }
BENCHMARK(BM_Processes)->UseRealTime();
void BM_ProcessesBaseline(benchmark::State& state) { Play<8>(InThisThread(CartPoles(8)), &state); }
BENCHMARK(BM_ProcessesBaseline)->UseRealTime();

void BM_ProcessesGrouped(benchmark::State& state) { Play<8>(InProcesses(CartPoles(8), 0), &state); }
BENCHMARK(BM_ProcessesGrouped)->UseRealTime();
void BM_ProcessesGroupedBaseline(benchmark::State& state) {
  Play<8>(InThisThread(CartPoles(8)), &state);
}
BENCHMARK(BM_ProcessesGroupedBaseline)->UseRealTime();

}  // namespace
}  // namespace ding
