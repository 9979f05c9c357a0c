// Which instructions the processor has, for the few loops that are compiled for several of them;
// and a guard that treats denormal numbers as zero.
//
// Example:
//   ScopedFlushDenormals flush;
//   switch (BestInstructionSet()) { ... }
#ifndef DING_WORKER_BASE_CPU_H_
#define DING_WORKER_BASE_CPU_H_

#include <cstdint>
#include <vector>

namespace ding {

enum class InstructionSet {
  kBaseline,  // what the compiler may assume: SSE2 on x86-64
  kAvx2,      // AVX2 and FMA
  kAvx512,    // AVX-512 F, DQ and VL
};

// Before a function that is compiled for that set, on x86-64. Left to choose, gcc would use half of
// the width of AVX-512; clang knows no such wish.
#define DING_TARGET_AVX2 __attribute__((target("avx2,fma")))
#if defined(__clang__)
#define DING_TARGET_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))
#else
#define DING_TARGET_AVX512 \
  __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl,prefer-vector-width=512")))
#endif

// "baseline", "avx2", "avx512".
const char* InstructionSetName(InstructionSet set);
// Those that this processor and its operating system can run, worst first; never empty.
const std::vector<InstructionSet>& SupportedInstructionSets();
inline InstructionSet BestInstructionSet() { return SupportedInstructionSets().back(); }

// Denormal operands and results of this thread's floating-point arithmetic count as zero until the
// guard is gone. Arithmetic on denormals is up to a hundred times slower, and values that decay
// (the moments of an optimizer, activations) end there. Without effect on processors where we do
// not know how.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;
  ~ScopedFlushDenormals();

 private:
  uint64_t saved_;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_CPU_H_
