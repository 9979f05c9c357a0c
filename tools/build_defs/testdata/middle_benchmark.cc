#include "benchmark/benchmark.h"
#include "ding_worker/tools/build_defs/testdata/middle.h"

namespace ding::testdata {
namespace {

void BM_Middle(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Middle());
}
BENCHMARK(BM_Middle);

}  // namespace
}  // namespace ding::testdata
