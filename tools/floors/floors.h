// What floors share. A floor is the least that a task costs: all that it needs, written by hand on
// flat arrays, loops and BLAS, with nothing of the other packages. tools/bench runs it beside the
// row that it belongs to.
//
// A floor checks its results against a naive computation before it is measured, and ends the
// program if they differ.
//
// Threads: one thread may use them, and OpenBLAS has one.
#ifndef DING_WORKER_TOOLS_FLOORS_FLOORS_H_
#define DING_WORKER_TOOLS_FLOORS_FLOORS_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"

// Compiles a loop for the widest vectors, and chooses when the program runs.
#if defined(__x86_64__) && !defined(__clang__)
#define FLOOR_LOOP __attribute__((target_clones("avx512f", "avx2", "default"), noinline))
#else
#define FLOOR_LOOP
#endif

namespace floors {

// xorshift128+.
class Random {
 public:
  uint64_t Next() {
    uint64_t a = state_[0];
    const uint64_t b = state_[1];
    state_[0] = b;
    a ^= a << 23;
    state_[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
    return state_[1] + b;
  }
  uint32_t Below(uint32_t bound) {
    return static_cast<uint32_t>((Next() >> 32) * uint64_t{bound} >> 32);
  }
  float Uniform() { return static_cast<float>(Next() >> 40) * (1.0f / 16777216); }

 private:
  uint64_t state_[2] = {0x9E3779B97F4A7C15u, 0xD1B54A32D192ED03u};
};

// Ends the program with `message` unless `right`.
void Require(bool right, const char* message);

// Draws distinct numbers below `bound`.
class DistinctDraw {
 public:
  explicit DistinctDraw(uint32_t bound) : bound_(bound), taken_(bound / 64 + 1) {}
  void Draw(std::vector<uint32_t>* numbers);

 private:
  const uint32_t bound_;
  Random random_;
  std::vector<uint64_t> taken_;  // a bit for each number, all zeros between draws
};

// Adds the floor of a row: `row` is PROGRAM:NAME as the table of tools/bench has them. `aim` is the
// least rate of the row as a share of the floor's (0: none). `make()` returns what does the work
// once, which is `items` items.
template <typename Make>
benchmark::internal::Benchmark* AddFloor(const std::string& row, double aim, int64_t items,
                                         const Make& make) {
  return benchmark::RegisterBenchmark(row.c_str(), [aim, items, make](benchmark::State& state) {
    auto work = make();
    for (auto _ : state) {
      work();
      benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * items);
    char label[32];
    if (std::snprintf(label, sizeof(label), "aim=%g", aim) > 0 && aim > 0) state.SetLabel(label);
  });
}

void AddReplayFloors();
void AddNetworkFloors();
void AddUpdateFloors();
void AddEnvFloors();
void AddWireFloors();

}  // namespace floors

#endif  // DING_WORKER_TOOLS_FLOORS_FLOORS_H_
