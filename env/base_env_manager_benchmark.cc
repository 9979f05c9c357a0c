// What a manager costs: 8 CartPoles with random actions, episodes begun anew as they end.
//   BareDynamics   the equations on 8 states, observations written to one array; nothing else
//   Manager        the same through BaseEnvManager: checks of ids, actions and numbers, returns,
//                  lengths, seeds, columns
//   Interleaved    both in turns, in pieces of 64 steps, so that a busy machine slows both;
//                  `manager_over_bare` is the ratio of their times
// items_per_second counts env steps. The bar is a ratio of 2.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"

namespace ding {
namespace {

constexpr int kEnvs = 8;
constexpr int kActionRows = 4096;  // of kEnvs actions, drawn once
constexpr int kPiece = 64;

std::vector<int64_t> DrawActions() {
  Rng rng(0, "benchmark/actions");
  std::vector<int64_t> actions(kActionRows * kEnvs);
  for (int64_t& action : actions) action = static_cast<int64_t>(rng.UniformInt(2));
  return actions;
}

const int64_t* ActionsOf(int64_t step) {
  static const auto* const actions = new std::vector<int64_t>(DrawActions());
  return actions->data() + step % kActionRows * kEnvs;
}

class BareDynamics {
 public:
  BareDynamics() {
    for (CartPoleState& state : states_) Start(&state);
  }

  void Step() {
    const int64_t* const actions = ActionsOf(step_++);
    for (int i = 0; i < kEnvs; ++i) {
      CartPoleState& state = states_[i];
      const bool over = CartPoleStep(actions[i], &state).terminated || ++lengths_[i] == 500;
      if (over) {
        Start(&state);
        lengths_[i] = 0;
      }
      obs_[i][0] = static_cast<float>(state.x);
      obs_[i][1] = static_cast<float>(state.x_dot);
      obs_[i][2] = static_cast<float>(state.theta);
      obs_[i][3] = static_cast<float>(state.theta_dot);
    }
    benchmark::DoNotOptimize(obs_);
  }

 private:
  void Start(CartPoleState* state) {
    for (double* const number : {&state->x, &state->x_dot, &state->theta, &state->theta_dot}) {
      *number = rng_.Uniform(-0.05, 0.05);
    }
  }

  Rng rng_{0, "benchmark/starts"};
  CartPoleState states_[kEnvs];
  int lengths_[kEnvs] = {};
  float obs_[kEnvs][4];
  int64_t step_ = 0;
};

class Managed {
 public:
  Managed() {
    std::vector<EnvFactory> factories(kEnvs, [] { return CreateCartPole("CartPole-v1", 500); });
    manager_ = *BaseEnvManager::Create({}, std::move(factories));
    Check(manager_->Launch());
  }

  void Step() {
    const ReadyObs ready = manager_->ready_obs();
    benchmark::DoNotOptimize(ready.obs.raw_column(0));
    std::byte* const column =
        reinterpret_cast<std::byte*>(const_cast<int64_t*>(ActionsOf(step_++)));
    const ColumnsView actions(manager_->env_spec().action.get(), &column, 0, kEnvs);
    const absl::StatusOr<const Timesteps*> steps = manager_->Step(ready.env_ids, actions);
    Check(steps.status());
    benchmark::DoNotOptimize((*steps)->reward.data());
  }

 private:
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }

  std::unique_ptr<BaseEnvManager> manager_;
  int64_t step_ = 0;
};

template <typename Stepper>
void BM_Step(benchmark::State& state) {
  Stepper stepper;
  for (auto _ : state) stepper.Step();
  state.SetItemsProcessed(state.iterations() * kEnvs);
}
BENCHMARK_TEMPLATE(BM_Step, BareDynamics);
BENCHMARK_TEMPLATE(BM_Step, Managed);

void BM_Interleaved(benchmark::State& state) {
  BareDynamics bare;
  Managed managed;
  double bare_seconds = 0;
  double managed_seconds = 0;
  const auto run = [](auto* stepper) {
    const Timer timer(Clock::Real());
    for (int i = 0; i < kPiece; ++i) stepper->Step();
    return timer.Seconds();
  };
  for (auto _ : state) {
    bare_seconds += run(&bare);
    managed_seconds += run(&managed);
  }
  state.SetItemsProcessed(2 * state.iterations() * kPiece * kEnvs);
  state.counters["manager_over_bare"] = managed_seconds / bare_seconds;
}
BENCHMARK(BM_Interleaved);

}  // namespace
}  // namespace ding
