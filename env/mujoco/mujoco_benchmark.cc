// Measures what an env and its manager add to the physics of MuJoCo: 8 envs with random actions.
//   HalfCheetah, Hopper             BaseEnvManager
//   HalfCheetahFloor, HopperFloor   mj_step on 8 states of the same model, with qpos and qvel
//                                   copied to one array
// items_per_second counts env steps.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/mujoco/models.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "ding_worker/env/mujoco/mujoco_tasks.h"
#include "mujoco/mujoco.h"

namespace ding {
namespace {

constexpr size_t kEnvs = 8;
constexpr size_t kMoves = 64;

// Random actions, the same for both benchmarks of a task.
class Actions {
 public:
  explicit Actions(int size) : row_(kEnvs * static_cast<size_t>(size)), moves_(kMoves * row_) {
    Rng rng(0, "bench/actions");
    for (float& number : moves_) number = static_cast<float>(rng.Uniform(-1, 1));
  }
  float* Next() { return moves_.data() + row_ * (next_++ % kMoves); }

 private:
  const size_t row_;
  std::vector<float> moves_;
  size_t next_ = 0;
};

void RunManager(benchmark::State& state, const EnvFactory& factory) {
  const std::unique_ptr<BaseEnvManager> manager =
      *BaseEnvManager::Create({}, std::vector<EnvFactory>(kEnvs, factory));
  const absl::Status launched = manager->Launch();
  DING_CHECK(launched.ok()) << launched;
  Actions actions(static_cast<int>(manager->env_spec().action->field(0).num_elements()));
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

// Starts a state again when `over` says that an episode of the env would end.
void RunFloor(benchmark::State& state, const std::string& text, int frame_skip,
              bool (*over)(const mjData&)) {
  const std::shared_ptr<const MujocoModel> model = *MujocoModel::FromText("bench", text);
  const mjModel& m = model->get();
  std::array<mjData*, kEnvs> data;
  Rng rng(0, "bench/start");
  const auto start = [&m, &rng](mjData* d) {
    mj_resetData(&m, d);
    for (int i = 0; i < m.nq; ++i) d->qpos[i] += rng.Uniform(-0.005, 0.005);
    mj_forward(&m, d);
  };
  for (mjData*& d : data) start(d = mj_makeData(&m));
  Actions actions(m.nu);
  std::vector<float> obs(kEnvs * static_cast<size_t>(m.nq + m.nv));
  for (auto _ : state) {
    const float* action = actions.Next();
    float* to = obs.data();
    for (mjData* const d : data) {
      std::copy(action, action + m.nu, d->ctrl);
      action += m.nu;
      for (int i = 0; i < frame_skip; ++i) mj_step(&m, d);
      to = std::copy(d->qpos, d->qpos + m.nq, to);
      to = std::copy(d->qvel, d->qvel + m.nv, to);
      if (over(*d)) start(d);
    }
    benchmark::DoNotOptimize(obs.data());
  }
  for (mjData* const d : data) mj_deleteData(d);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kEnvs));
}

void BM_HalfCheetah(benchmark::State& state) { RunManager(state, CreateHalfCheetah); }
BENCHMARK(BM_HalfCheetah);
void BM_HalfCheetahFloor(benchmark::State& state) {
  RunFloor(state, HalfCheetahModel(), 5, [](const mjData& d) { return d.time > 49.99; });
}
BENCHMARK(BM_HalfCheetahFloor);

void BM_Hopper(benchmark::State& state) { RunManager(state, CreateHopper); }
BENCHMARK(BM_Hopper);
void BM_HopperFloor(benchmark::State& state) {
  RunFloor(state, HopperModel(), 4,
           [](const mjData& d) { return d.qpos[1] < 0.7 || d.qpos[2] > 0.2 || d.qpos[2] < -0.2; });
}
BENCHMARK(BM_HopperFloor);

}  // namespace
}  // namespace ding
