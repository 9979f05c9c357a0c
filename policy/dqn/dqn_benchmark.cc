// A DQN update and a collect forward of the CartPole network (4-128-128-64, dueling), each beside
// its floor: what a hand-written program would do at least. The floor of the update is the matrix
// products of its three forward passes and one backward pass on OpenBLAS with one thread, the loss,
// and the Adam step; it leaves out biases, activations, checks and the target update.
#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_batch.h"

namespace ding {
namespace {

SpecPtr Observation() { return *MakeSpec({Box("obs", {4})}); }
SpecPtr Action() { return *MakeSpec({Discrete("action", 2)}); }
SpecPtr Q() { return *MakeSpec({Box("q", {2})}); }

MlpOptions CartPoleNetwork() {
  MlpOptions options;
  options.encoder_hidden_size = {128, 128, 64};
  options.dueling = true;
  return options;
}

std::unique_ptr<DqnPolicy> MakePolicy() {
  DqnOptions options;
  options.learn.priority = true;
  auto policy =
      DqnPolicy::Create(*Mlp::Create(CartPoleNetwork(), Observation(), Q(), 0), Action(), options);
  DING_CHECK(policy.ok()) << policy.status();
  return *std::move(policy);
}

// The matrix products of the network's passes on `rows` rows.
class Products {
 public:
  explicit Products(int rows)
      : structure_(*MakeMlpStructure(CartPoleNetwork(), Observation(), Q())),
        rows_(rows),
        parameters_(static_cast<size_t>(structure_.num_parameters), 0.01f),
        gradients_(parameters_.size()),
        input_(static_cast<size_t>(rows) * 128, 0.5f),
        output_(input_.size(), 0.5f) {
    openblas_set_num_threads(1);
  }

  void Forward() {
    for (const MlpLayer& layer : structure_.layers) {
      const int in = static_cast<int>(layer.in);
      const int out = static_cast<int>(layer.out);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows_, out, in, 1, input_.data(), in,
                  parameters_.data() + layer.weight_offset, in, 0, output_.data(), out);
    }
  }

  void Backward() {
    for (const MlpLayer& layer : structure_.layers) {
      const int in = static_cast<int>(layer.in);
      const int out = static_cast<int>(layer.out);
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, rows_, 1, output_.data(), out,
                  input_.data(), in, 0, gradients_.data() + layer.weight_offset, in);
      if (layer.source < 0) continue;
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows_, in, out, 1, output_.data(), out,
                  parameters_.data() + layer.weight_offset, in, 0, input_.data(), in);
    }
    // Values stay in the range of a network's, whatever the products of constants grow to.
    std::fill(input_.begin(), input_.end(), 0.5f);
    std::fill(gradients_.begin(), gradients_.end(), 0.01f);
  }

  absl::Span<float> parameters() { return absl::MakeSpan(parameters_); }
  absl::Span<const float> gradients() const { return gradients_; }

 private:
  const MlpStructure structure_;
  const int rows_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  std::vector<float> input_;
  std::vector<float> output_;
};

void BM_Update(benchmark::State& state) {
  const auto policy = MakePolicy();
  const Batch batch = MakeTransitionBatch(Observation(), Action(), state.range(0), 1);
  std::vector<LearnStep> steps;
  for (auto _ : state) {
    const absl::Status status = policy->learn_mode()->Forward(batch, {}, &steps);
    DING_CHECK(status.ok()) << status;
  }
}
BENCHMARK(BM_Update)->Arg(64)->Arg(256);

void BM_UpdateFloor(benchmark::State& state) {
  const int64_t rows = state.range(0);
  Products products(static_cast<int>(rows));
  Adam adam = *Adam::Create({}, static_cast<int64_t>(products.parameters().size()));
  const Batch batch = MakeTransitionBatch(Observation(), Action(), rows, 1);
  const std::vector<float> q(static_cast<size_t>(2 * rows), 0.5f);
  const std::vector<float> next_value(static_cast<size_t>(rows), 0.5f);
  std::vector<float> td_error(next_value.size());
  std::vector<float> d_q(q.size());
  for (auto _ : state) {
    for (int pass = 0; pass < 3; ++pass) products.Forward();
    benchmark::DoNotOptimize(
        ComputeTdLoss({q, batch.column<int64_t>("action"), batch.column<float>("reward"),
                       batch.column<float>("discount"), next_value},
                      {}, absl::MakeSpan(td_error), absl::MakeSpan(d_q)));
    products.Backward();
    const absl::Status status = adam.Step(products.gradients(), products.parameters());
    DING_CHECK(status.ok()) << status;
  }
}
BENCHMARK(BM_UpdateFloor)->Arg(64)->Arg(256);

void BM_Collect(benchmark::State& state) {
  const auto policy = MakePolicy();
  const int64_t rows = state.range(0);
  const BatchBuilder obs = *BatchBuilder::Create(Observation(), rows);
  std::fill(obs.column<float>(0).begin(), obs.column<float>(0).end(), 0.5f);
  const BatchBuilder out = *BatchBuilder::Create(Action(), rows);
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

void BM_CollectFloor(benchmark::State& state) {
  Products products(static_cast<int>(state.range(0)));
  for (auto _ : state) products.Forward();
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_CollectFloor)->Arg(1)->Arg(8)->Arg(64);

}  // namespace
}  // namespace ding
