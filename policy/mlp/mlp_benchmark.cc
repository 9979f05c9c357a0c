// Passes of the CartPole DQN network (4-128-128-64, dueling 64-2 and 64-1) and of a 256 x 256 one,
// each beside the matrix products of the same shapes alone, on OpenBLAS with one thread.
#include <cblas.h>

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

// The products of a pass: in and out of each layer, and whether its input's gradient is needed.
class BareProducts {
 public:
  explicit BareProducts(const Fixture& f)
      : rows_(static_cast<int>(f.rows)), memory_(f.mlp->parameters().size() + 4096 * 1024, 0.5f) {
    openblas_set_num_threads(1);
    DING_CHECK(MakeMlpStructure(f.setup.options, f.mlp->input_spec(), f.mlp->output_spec()).ok());
    layers_ = MakeMlpStructure(f.setup.options, f.mlp->input_spec(), f.mlp->output_spec())->layers;
  }

  void Forward() {
    for (const MlpLayer& layer : layers_) {
      const int in = static_cast<int>(layer.in), out = static_cast<int>(layer.out);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows_, out, in, 1, x(), in,
                  memory_.data() + layer.weight_offset, in, 0, y(), out);
    }
  }
  void Backward() {
    for (const MlpLayer& layer : layers_) {
      const int in = static_cast<int>(layer.in), out = static_cast<int>(layer.out);
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, rows_, 1, y(), out, x(), in, 0,
                  gradient(), in);
      if (layer.source < 0) continue;
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows_, in, out, 1, y(), out,
                  memory_.data() + layer.weight_offset, in, 0, gradient(), in);
    }
  }

 private:
  // Three areas behind the weights, each larger than any batch of activations or weight gradient.
  float* area(int index) { return memory_.data() + memory_.size() - (3 - index) * 1024 * 1024; }
  float* x() { return area(0); }
  float* y() { return area(1); }
  float* gradient() { return area(2); }

  const int rows_;
  std::vector<float> memory_;
  std::vector<MlpLayer> layers_;
};

void BM_InferFloorOpenBlas(benchmark::State& state) {
  Fixture f(state);
  BareProducts products(f);
  for (auto _ : state) products.Forward();
  state.SetItemsProcessed(state.iterations() * f.rows);
}

void BM_ForwardBackwardFloorOpenBlas(benchmark::State& state) {
  Fixture f(state);
  BareProducts products(f);
  for (auto _ : state) {
    products.Forward();
    products.Backward();
  }
  state.SetItemsProcessed(state.iterations() * f.rows);
}

// (0, rows): the CartPole network; (width, rows): two layers of that width.
void InferCases(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({0, 1})->Args({0, 8})->Args({0, 64})->Args({256, 8});
}
void TrainCases(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({0, 64})->Args({256, 256})->Args({512, 256});
}

BENCHMARK(BM_Infer)->Apply(InferCases);
BENCHMARK(BM_InferFloorOpenBlas)->Apply(InferCases);
BENCHMARK(BM_ForwardBackward)->Apply(TrainCases);
BENCHMARK(BM_ForwardBackwardFloorOpenBlas)->Apply(TrainCases);

}  // namespace
}  // namespace ding
