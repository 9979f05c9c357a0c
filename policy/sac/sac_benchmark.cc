// Measures updates of SAC, DroQ and TD3 for the networks and batches of Pendulum (64-64, 100 rows) and
// of locomotion tasks (256-256, 256 rows, 17 observations, 6 actions); the same by two threads; and
// SAC's collect forward. The floors are in tools/floors/update_floors.cc.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/sac/sac.h"
#include "ding_worker/policy/td3/td3.h"
#include "ding_worker/policy/testing/random_batch.h"

namespace ding {
namespace {

// The spaces and hidden layers of a task.
struct ContinuousTask {
  SpecPtr observation;
  SpecPtr action;
  MlpOptions hidden;  // two layers of `width`
};
ContinuousTask MakeContinuousTask(int64_t observation, int64_t action, int64_t width) {
  ContinuousTask task;
  task.observation = *MakeSpec({Box("obs", {observation})});
  task.action = *MakeSpec({Box("action", {action}, {-1}, {1})});
  task.hidden.encoder_hidden_size = {width, width};
  task.hidden.head_layer_num = 0;
  return task;
}

// The networks and the batch of width 64, or of width 256.
ContinuousTask TaskOf(int64_t width) {
  return width == 64 ? MakeContinuousTask(3, 1, 64) : MakeContinuousTask(17, 6, width);
}
int64_t RowsOf(int64_t width) { return width == 64 ? 100 : 256; }

enum class Algorithm { kSac, kDroq, kTd3 };

std::unique_ptr<ContinuousPolicy> MakePolicy(const ContinuousTask& task, Algorithm algorithm,
                                             int threads = 1) {
  const bool td3 = algorithm == Algorithm::kTd3;
  const ActorHead head = td3 ? ActorHead::kMean : ActorHead::kNormal;
  MlpOptions hidden = task.hidden;
  hidden.layer_norm = algorithm == Algorithm::kDroq;
  hidden.dropout = hidden.layer_norm ? 0.01 : 0;
  auto actor =
      *Mlp::Create(task.hidden, task.observation, *ActorOutputs(task.action->field(0), head), 0);
  auto critics = *CriticEnsemble::Create(hidden, task.observation, task.action->field(0), 2, 1);
  Td3Options td3_options;
  SacOptions sac_options;
  td3_options.base.learn_threads = sac_options.base.learn_threads = threads;
  td3_options.base.actor_update_freq = td3_options.base.target_delay = 2;
  auto policy = td3 ? CreateTd3(std::move(actor), std::move(critics), task.action, td3_options)
                    : CreateSac(std::move(actor), std::move(critics), task.action, sac_options);
  DING_CHECK(policy.ok()) << policy.status();
  return *std::move(policy);
}

void Update(benchmark::State& state, Algorithm algorithm, int threads = 1) {
  const ContinuousTask task = TaskOf(state.range(0));
  const auto policy = MakePolicy(task, algorithm, threads);
  const Batch batch = MakeTransitionBatch(task.observation, task.action, RowsOf(state.range(0)), 1);
  std::vector<LearnStep> steps;
  for (auto _ : state) {
    const absl::Status status = policy->learn_mode()->Forward(batch, {}, &steps);
    DING_CHECK(status.ok()) << status;
  }
}
void BM_SacUpdate(benchmark::State& state) { Update(state, Algorithm::kSac); }
void BM_Td3Update(benchmark::State& state) { Update(state, Algorithm::kTd3); }
void BM_DroqUpdate(benchmark::State& state) { Update(state, Algorithm::kDroq); }
// By two threads, in wall-clock time.
void BM_SacUpdateOfTwo(benchmark::State& state) { Update(state, Algorithm::kSac, 2); }
void BM_Td3UpdateOfTwo(benchmark::State& state) { Update(state, Algorithm::kTd3, 2); }
BENCHMARK(BM_SacUpdateOfTwo)->Arg(64)->Arg(256)->UseRealTime();
BENCHMARK(BM_Td3UpdateOfTwo)->Arg(64)->Arg(256)->UseRealTime();
BENCHMARK(BM_SacUpdate)->Arg(64)->Arg(256);
BENCHMARK(BM_DroqUpdate)->Arg(64)->Arg(256);
BENCHMARK(BM_Td3Update)->Arg(64)->Arg(256);

void BM_SacCollect(benchmark::State& state) {
  const ContinuousTask task = TaskOf(64);
  const auto policy = MakePolicy(task, Algorithm::kSac);
  const int64_t rows = state.range(0);
  const Batch obs = MakeObservationBatch(task.observation, rows, 1);
  const BatchBuilder out = *BatchBuilder::Create(task.action, rows);
  for (auto _ : state) {
    const absl::Status status = policy->collect_mode()->Forward(obs.view(), {}, {}, out.view());
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(BM_SacCollect)->Arg(1)->Arg(8);

}  // namespace
}  // namespace ding
