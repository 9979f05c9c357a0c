// Compiles a loop for several instruction sets (base/cpu.h) and picks one at run time.
//
// The loop is written once. Each instruction set has a wrapper, into which the loop is inlined.
//
//   DING_INLINE void AddLoop(const float* from, int64_t size, float* to) { ... }
//
//   struct Compiled {
//     template <InstructionSet kSet>
//     static constexpr AddLoops kLoops = {Compile<kSet, AddLoop>()};
//   };
//   const AddLoops& AddLoopsFor(InstructionSet set) { return LoopsFor<Compiled>(set); }
//
// Rules
// - A loop, and each function of ours that it calls, is DING_INLINE: only code that is inlined into
//   a wrapper uses the instructions of its set. Calls that stay calls, such as std::log, run code
//   of the baseline.
// - The loops and `Compiled` are in an unnamed namespace.
// - Vectors are passed by reference. By value they would need an instruction set where the function
//   is only declared.
// - The wrappers have different names. Under one name the compiler would take them for versions of
//   one function, among which it chooses itself, and tests could not run each of them.
// - Results of floats differ between sets in the last bits: AVX2 and AVX-512 fuse a multiplication
//   and an addition, and a sum has one partial sum for each lane. Within a set they are always the
//   same. Results of integers are the same bits in all sets.
// - The BUILD file says copts -O3 and precompiled = False (docs/decisions/0017).
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_COMPILED_LOOPS_H_
#define DING_WORKER_BASE_COMPILED_LOOPS_H_

#include "ding_worker/base/cpu.h"

#define DING_INLINE __attribute__((always_inline)) inline

// Without a preferred width, GCC would use half of the width of AVX-512; clang has no such option.
#if !defined(__x86_64__)
#define DING_TARGET_AVX2_
#define DING_TARGET_AVX512_
#elif defined(__clang__)
#define DING_TARGET_AVX2_ __attribute__((target("avx2,fma")))
#define DING_TARGET_AVX512_ __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))
#else
#define DING_TARGET_AVX2_ __attribute__((target("avx2,fma")))
#define DING_TARGET_AVX512_ \
  __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl,prefer-vector-width=512")))
#endif

namespace ding {
namespace internal_cpu {

template <auto kLoop>
struct Wrappers;

template <typename Result, typename... Args, Result (*kLoop)(Args...)>
struct Wrappers<kLoop> {
  static Result Baseline(Args... args) { return kLoop(args...); }
  DING_TARGET_AVX2_ static Result Avx2(Args... args) { return kLoop(args...); }
  DING_TARGET_AVX512_ static Result Avx512(Args... args) { return kLoop(args...); }
};

}  // namespace internal_cpu

// A pointer to kLoop compiled for kSet.
template <InstructionSet kSet, auto kLoop>
constexpr auto Compile() {
  if constexpr (kSet == InstructionSet::kAvx512) {
    return &internal_cpu::Wrappers<kLoop>::Avx512;
  } else if constexpr (kSet == InstructionSet::kAvx2) {
    return &internal_cpu::Wrappers<kLoop>::Avx2;
  } else {
    return &internal_cpu::Wrappers<kLoop>::Baseline;
  }
}

// Compiled::kLoops<set>. This processor must support `set`.
template <typename Compiled>
const auto& LoopsFor(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return Compiled::template kLoops<InstructionSet::kAvx512>;
    case InstructionSet::kAvx2:
      return Compiled::template kLoops<InstructionSet::kAvx2>;
    case InstructionSet::kBaseline:
      break;
  }
  return Compiled::template kLoops<InstructionSet::kBaseline>;
}

}  // namespace ding

#endif  // DING_WORKER_BASE_COMPILED_LOOPS_H_
