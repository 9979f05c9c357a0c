// Compares Python envs of a manager with bare Python loops of the same envs in as many processes,
// which run at the same time. Actions are random; episodes are reset as they end.
//   CartPoles    8 CartPoles, written as Gymnasium's is, in 2 processes; with 2 cores, one of them
//                is shared with the manager
//   OneProcess   the same in 1 process
//   Pixels       2 envs of pictures [84, 84, 4] in 2 processes
//   ...Floor     the bare loops
// items_per_second counts env steps of all processes.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/env/gymnasium/testing_envs.h"
#include "ding_worker/env/subprocess_env_manager.h"

namespace ding {
namespace {

constexpr char kCartPole[] = "cartpole:NumpyCartPole";
constexpr char kPixels[] = "sample_envs:Pixels";

void RunManager(benchmark::State& state, const char* env, int envs, int processes) {
  SubprocessEnvManagerOptions options;
  options.envs_per_process = envs / processes;
  const std::unique_ptr<EnvManager> manager =
      CreateGymnasiumEnvs(options, TestEnvConfig(env), envs).value();
  const absl::Status launched = manager->Launch();
  DING_CHECK(launched.ok()) << launched;
  Rng rng(0, "benchmark/actions");
  std::vector<int64_t> table(size_t{4096} * static_cast<size_t>(envs));
  for (int64_t& action : table) action = static_cast<int64_t>(rng.UniformInt(2));
  size_t next = 0;
  for (auto _ : state) {
    const ReadyObs ready = manager->ready_obs();
    benchmark::DoNotOptimize(ready.obs.raw_column(0));
    std::byte* const column =
        reinterpret_cast<std::byte*>(table.data() + next++ % 4096 * static_cast<size_t>(envs));
    const ColumnsView actions(manager->env_spec().action.get(), &column, 0, envs);
    const absl::StatusOr<const Timesteps*> steps = manager->Step(ready.env_ids, actions);
    DING_CHECK(steps.ok()) << steps.status();
  }
  state.SetItemsProcessed(state.iterations() * envs);
}

// The time of one step of all envs, which all processes make at once.
void RunLoops(benchmark::State& state, const char* env, int envs, int processes, int steps) {
  const int each = envs / processes;
  for (auto _ : state) {
    const std::string command = absl::StrCat(
        "PYTHONPATH=env/gymnasium/testdata OPENBLAS_NUM_THREADS=1 /usr/bin/python3 "
        "env/gymnasium/testdata/bare_loop.py ",
        env, " ", each, " ", steps);
    std::vector<FILE*> loops;
    for (int i = 0; i < processes; ++i) loops.push_back(popen(command.c_str(), "r"));
    double sum = 0;
    for (FILE* const loop : loops) {
      double seconds = 0;
      DING_CHECK(std::fscanf(loop, "%lf", &seconds) == 1) << command;
      pclose(loop);
      sum += seconds;
    }
    state.SetIterationTime(sum / processes * each);
  }
  state.SetItemsProcessed(state.iterations() * envs);
}

void BM_CartPoles(benchmark::State& state) {
  RunManager(state, kCartPole, 8, 2);
  state.SetLabel("aim=0.55");
}
BENCHMARK(BM_CartPoles)->UseRealTime();

void BM_CartPolesFloor(benchmark::State& state) { RunLoops(state, kCartPole, 8, 2, 80000); }
BENCHMARK(BM_CartPolesFloor)->UseManualTime()->Iterations(3);

void BM_OneProcess(benchmark::State& state) {
  RunManager(state, kCartPole, 8, 1);
  state.SetLabel("aim=0.85");
}
BENCHMARK(BM_OneProcess)->UseRealTime();

void BM_OneProcessFloor(benchmark::State& state) { RunLoops(state, kCartPole, 8, 1, 80000); }
BENCHMARK(BM_OneProcessFloor)->UseManualTime()->Iterations(3);

void BM_Pixels(benchmark::State& state) {
  RunManager(state, kPixels, 2, 2);
  state.SetLabel("aim=0.9");
}
BENCHMARK(BM_Pixels)->UseRealTime();

void BM_PixelsFloor(benchmark::State& state) { RunLoops(state, kPixels, 2, 2, 20000); }
BENCHMARK(BM_PixelsFloor)->UseManualTime()->Iterations(3);

}  // namespace
}  // namespace ding
