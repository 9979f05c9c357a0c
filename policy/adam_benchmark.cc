// Measures an Adam step over n parameters, and as its floor the necessary memory traffic: reading
// four arrays and writing three.
#include <algorithm>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/optimizer.h"

namespace ding {
namespace {

constexpr int64_t kCartPoleParameters = 33923;  // the dueling network 4-128-128-64

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
  if (state.range(0) == kCartPoleParameters) state.SetLabel("aim=10us");
}

// With gradients of zero the moments decay through the denormal numbers.
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

// Compiled for the widest vectors of the processor, like the step.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void TouchMemory(int64_t size, const float* gradient, float* first, float* second,
                 float* parameter) {
#if !defined(__clang__)
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < size; ++i) {
    first[i] += gradient[i];
    second[i] += gradient[i];
    parameter[i] += gradient[i];
  }
}

void BM_AdamStepFloor(benchmark::State& state) {
  const std::vector<float> gradients = RandomFloats(state.range(0));
  std::vector<float> parameters = RandomFloats(state.range(0));
  std::vector<float> first = parameters;
  std::vector<float> second = parameters;
  for (auto _ : state) {
    TouchMemory(state.range(0), gradients.data(), first.data(), second.data(), parameters.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// The same floor, so that the two ratios show the cost of denormal moments.
void BM_AdamStepDecayedFloor(benchmark::State& state) { BM_AdamStepFloor(state); }

void BM_ClipGradientNorm(benchmark::State& state) {
  std::vector<float> gradients = RandomFloats(state.range(0));
  for (auto _ : state) {
    const auto norm = ClipGradientNorm(absl::MakeSpan(gradients), 1e6);
    DING_CHECK(norm.ok()) << norm.status();
  }
}

BENCHMARK(BM_AdamStep)->Arg(kCartPoleParameters)->Arg(1 << 20);
BENCHMARK(BM_AdamStepFloor)->Arg(kCartPoleParameters)->Arg(1 << 20);
BENCHMARK(BM_AdamStepDecayed)->Arg(kCartPoleParameters);
BENCHMARK(BM_AdamStepDecayedFloor)->Arg(kCartPoleParameters);
BENCHMARK(BM_ClipGradientNorm)->Arg(kCartPoleParameters);

}  // namespace
}  // namespace ding
