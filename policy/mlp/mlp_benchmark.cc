// Measures passes of the CartPole DQN network (4-128-128-64, dueling 64-2 and 64-1) and of a 256 x
// 256 network. The floors are in tools/floors/network_floors.cc.
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"

namespace ding {
namespace {

struct Case {
  MlpOptions options;
  int64_t observation = 0;
  int64_t actions = 0;
};

Case CaseOf(const benchmark::State& state) {
  Case result;
  if (state.range(0) == 0) {
    result.options.encoder_hidden_size = {128, 128, 64};
    result.options.dueling = true;
    result.observation = 4;
    result.actions = 2;
  } else {
    result.options.encoder_hidden_size = {state.range(0), state.range(0)};
    result.options.head_layer_num = 0;
    result.observation = 17;
    result.actions = 6;
  }
  return result;
}

BatchBuilder RandomRows(SpecPtr spec, int64_t rows) {
  auto builder = BatchBuilder::Create(std::move(spec), rows);
  DING_CHECK(builder.ok()) << builder.status();
  Rng rng(1, "benchmark");
  for (float& value : builder->column<float>(0)) value = static_cast<float>(rng.Uniform(-1, 1));
  return *std::move(builder);
}

struct Fixture {
  explicit Fixture(const benchmark::State& state)
      : setup(CaseOf(state)),
        rows(state.range(1)),
        mlp(*Mlp::Create(setup.options, *MakeSpec({Box("obs", {setup.observation})}),
                         *MakeSpec({Box("q", {setup.actions})}), 0)),
        input(RandomRows(mlp->input_spec(), rows)),
        output(RandomRows(mlp->output_spec(), rows)) {}

  const Case setup;
  const int64_t rows;
  const std::unique_ptr<Mlp> mlp;
  const BatchBuilder input;
  const BatchBuilder output;
};

void BM_Infer(benchmark::State& state) {
  Fixture f(state);
  for (auto _ : state) {
    const absl::Status status = f.mlp->Infer(f.input.view(), f.output.view());
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * f.rows);
}

void BM_ForwardBackward(benchmark::State& state) {
  Fixture f(state);
  for (auto _ : state) {
    absl::Status status = f.mlp->Forward(f.input.view(), f.output.view());
    if (status.ok()) status = f.mlp->Backward(f.output.view());
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * f.rows);
}

// (0, rows): the CartPole network; (width, rows): two layers of that width.
void InferCases(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({0, 1})->Args({0, 4})->Args({0, 8})->Args({0, 64})->Args({256, 1})->Args(
      {256, 8});
}
void TrainCases(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({0, 64})->Args({256, 256})->Args({512, 256});
}

BENCHMARK(BM_Infer)->Apply(InferCases);
BENCHMARK(BM_ForwardBackward)->Apply(TrainCases);

}  // namespace
}  // namespace ding
