// Measures passes of recurrent networks: an encoder layer and a cell of H features each, and linear
// heads, on observations of 4 elements. policy/torch/torch_rnn_benchmark.cc compares them with
// libtorch.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/rnn.h"

namespace ding {
namespace {

// (cell, B, T, H): cell 0 is an LSTM, 1 a GRU.
RnnOptions OptionsOf(const benchmark::State& state) {
  RnnOptions options;
  options.cell = state.range(0) == 0 ? RnnCell::kLstm : RnnCell::kGru;
  options.hidden_size = state.range(3);
  options.mlp.encoder_hidden_size = {state.range(3)};
  options.mlp.head_layer_num = 0;
  return options;
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
      : options(OptionsOf(state)),
        rows(state.range(1) * state.range(2)),
        rnn(*Rnn::Create(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})}), 0)),
        input(RandomRows(rnn->input_spec(), rows)),
        output(RandomRows(rnn->output_spec(), rows)),
        states(state.range(1) * rnn->state_size()) {
    sequences.rows = input.view();
    sequences.length = state.range(2);
    sequences.state = states;
  }

  const RnnOptions options;
  const int64_t rows;
  const std::unique_ptr<Rnn> rnn;
  const BatchBuilder input;
  const BatchBuilder output;
  std::vector<float> states;  // before each sequence, and then after it
  Sequences sequences;
};

void BM_Infer(benchmark::State& state) {
  Fixture f(state);
  for (auto _ : state) {
    const absl::Status status =
        f.rnn->InferSequences(f.sequences, f.output.view(), absl::MakeSpan(f.states));
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * f.rows);
}

void BM_ForwardBackward(benchmark::State& state) {
  Fixture f(state);
  for (auto _ : state) {
    absl::Status status = f.rnn->ForwardSequences(f.sequences, f.output.view(), {});
    if (status.ok()) status = f.rnn->Backward(f.output.view());
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * f.rows);
}

void InferCases(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t cell : {0, 1}) {
    for (const int64_t rows : {1, 8, 64}) benchmark->Args({cell, rows, 1, 64});
  }
}
void TrainCases(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t cell : {0, 1}) {
    benchmark->Args({cell, 64, 16, 64});
    benchmark->Args({cell, 32, 80, 256});
  }
}

BENCHMARK(BM_Infer)->Apply(InferCases);
BENCHMARK(BM_ForwardBackward)->Apply(TrainCases);

}  // namespace
}  // namespace ding
