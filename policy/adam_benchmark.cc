// One Adam step over n parameters, beside the memory traffic that it cannot avoid: reading four
// arrays and writing three.
#include <algorithm>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/adam.h"

namespace ding {
namespace {

std::vector<float> RandomFloats(int64_t size) {
  Rng rng(1, "benchmark");
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(rng.Uniform(-1, 1));
  return values;
}

void BM_AdamStep(benchmark::State& state) {
  const std::vector<float> gradients = RandomFloats(state.range(0));
  std::vector<float> parameters = RandomFloats(state.range(0));
  auto adam = Adam::Create(AdamOptions(), state.range(0));
  DING_CHECK(adam.ok()) << adam.status();
  for (auto _ : state) {
    const absl::Status status = adam->Step(gradients, absl::MakeSpan(parameters));
    DING_CHECK(status.ok()) << status;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// Gradients of zero: the moments decay through the denormal numbers.
void BM_AdamStepDecayed(benchmark::State& state) {
  std::vector<float> gradients(state.range(0), 1e-30f);
  std::vector<float> parameters = RandomFloats(state.range(0));
  auto adam = Adam::Create(AdamOptions(), state.range(0));
  DING_CHECK(adam.ok()) << adam.status();
  for (auto _ : state) {
    const absl::Status status = adam->Step(gradients, absl::MakeSpan(parameters));
    DING_CHECK(status.ok()) << status;
    std::fill(gradients.begin(), gradients.end(), 0.0f);
  }
}

void BM_AdamStepFloorMemory(benchmark::State& state) {
  const std::vector<float> gradients = RandomFloats(state.range(0));
  std::vector<float> parameters = RandomFloats(state.range(0));
  std::vector<float> first = parameters;
  std::vector<float> second = parameters;
  for (auto _ : state) {
    for (int64_t i = 0; i < state.range(0); ++i) {
      first[i] += gradients[i];
      second[i] += gradients[i];
      parameters[i] += gradients[i];
    }
    benchmark::ClobberMemory();
  }
}

void BM_ClipGradientNorm(benchmark::State& state) {
  std::vector<float> gradients = RandomFloats(state.range(0));
  for (auto _ : state) {
    const auto norm = ClipGradientNorm(absl::MakeSpan(gradients), 1e6);
    DING_CHECK(norm.ok()) << norm.status();
  }
}

BENCHMARK(BM_AdamStep)->Arg(33923)->Arg(1 << 20);
BENCHMARK(BM_AdamStepFloorMemory)->Arg(33923)->Arg(1 << 20);
BENCHMARK(BM_AdamStepDecayed)->Arg(33923);
BENCHMARK(BM_ClipGradientNorm)->Arg(33923);

}  // namespace
}  // namespace ding
