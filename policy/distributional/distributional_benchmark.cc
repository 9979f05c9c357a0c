// Measures updates of C51 (51 atoms) and QR-DQN (200 quantiles) on networks 4-128-128 with linear
// heads for the 2 actions of CartPole.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/distributional/distributional_heads.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/testing/cartpole_network.h"
#include "ding_worker/policy/testing/random_batch.h"

namespace ding {
namespace {

constexpr int64_t kRows = 64;

std::unique_ptr<QHead> C51() {
  return std::make_unique<CategoricalHead>(CategoricalSupport{-10, 10, 51});
}
std::unique_ptr<QHead> Qrdqn() { return std::make_unique<QuantileHead>(200, 1.0f); }

using MakeHead = std::unique_ptr<QHead> (*)();

MlpOptions NetworkOptions() {
  MlpOptions options;
  options.encoder_hidden_size = {128, 128};
  options.head_layer_num = 0;
  return options;
}

SpecPtr OutputsOf(const QHead& head) { return *MakeSpec({Box("q", head.OutputShape(2))}); }

void BM_Update(benchmark::State& state, MakeHead make_head) {
  DqnOptions options;
  options.learn.priority = true;
  std::unique_ptr<QHead> head = make_head();
  auto network = *Mlp::Create(NetworkOptions(), CartPoleObservation(), OutputsOf(*head), 0);
  const auto policy = *DqnPolicy::Create(std::move(network), CartPoleAction(), options,
                                         /*observation=*/nullptr, {"dqn", std::move(head)});
  const Batch batch = MakeTransitionBatch(CartPoleObservation(), CartPoleAction(), kRows, 1);
  std::vector<LearnStep> steps;
  for (auto _ : state) {
    const absl::Status status = policy->learn_mode()->Forward(batch, {}, &steps);
    DING_CHECK(status.ok()) << status;
  }
}

BENCHMARK_CAPTURE(BM_Update, C51, C51);
BENCHMARK_CAPTURE(BM_Update, Qrdqn, Qrdqn);

}  // namespace
}  // namespace ding
