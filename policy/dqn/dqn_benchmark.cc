// Measures a DQN update and a collect forward of the CartPole network (4-128-128-64, dueling). The
// floors are in tools/floors: update_floors.cc and network_floors.cc.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/testing/cartpole_network.h"
#include "ding_worker/policy/testing/random_batch.h"

namespace ding {
namespace {

std::unique_ptr<DqnPolicy> MakePolicy(int threads = 1) {
  DqnOptions options;
  options.learn_threads = threads;
  options.learn.priority = true;
  auto policy =
      DqnPolicy::Create(*Mlp::Create(CartPoleNetwork(), CartPoleObservation(), CartPoleQ(), 0),
                        CartPoleAction(), options);
  DING_CHECK(policy.ok()) << policy.status();
  return *std::move(policy);
}

void Update(benchmark::State& state, int threads) {
  const auto policy = MakePolicy(threads);
  const Batch batch =
      MakeTransitionBatch(CartPoleObservation(), CartPoleAction(), state.range(0), 1);
  std::vector<LearnStep> steps;
  for (auto _ : state) {
    const absl::Status status = policy->learn_mode()->Forward(batch, {}, &steps);
    DING_CHECK(status.ok()) << status;
  }
}
void BM_Update(benchmark::State& state) { Update(state, 1); }
// By two threads, in wall-clock time.
void BM_UpdateOfTwo(benchmark::State& state) { Update(state, 2); }
BENCHMARK(BM_Update)->Arg(64)->Arg(256);
BENCHMARK(BM_UpdateOfTwo)->Arg(64)->Arg(256)->UseRealTime();

void BM_Collect(benchmark::State& state) {
  const auto policy = MakePolicy();
  const int64_t rows = state.range(0);
  const BatchBuilder obs = *BatchBuilder::Create(CartPoleObservation(), rows);
  std::fill(obs.column<float>(0).begin(), obs.column<float>(0).end(), 0.5f);
  const BatchBuilder out = *BatchBuilder::Create(CartPoleAction(), rows);
  const std::vector<int> env_ids(static_cast<size_t>(rows));
  const NamedValues settings = {{"eps", 0.1}};
  for (auto _ : state) {
    const absl::Status status =
        policy->collect_mode()->Forward(obs.view(), env_ids, settings, out.view());
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(BM_Collect)->Arg(1)->Arg(8)->Arg(64);

}  // namespace
}  // namespace ding
