// Tells which instruction sets the processor has, for the few loops that are compiled for several
// of them (base/compiled_loops.h); ScopedFlushDenormals, a guard that treats denormal numbers as
// zero; and Pause() for loops that wait.
//
// Threads: thread-safe; a ScopedFlushDenormals works on the thread that makes and destroys it.
//
// Example:
//   ScopedFlushDenormals flush;
//   AddLoopsFor(BestInstructionSet()).add(from, size, to);
#ifndef DING_WORKER_BASE_CPU_H_
#define DING_WORKER_BASE_CPU_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ding_worker/base/version.h"

namespace ding {

enum class InstructionSet {
  kBaseline,  // what the compiler may assume on every processor: SSE2 on x86-64
  kAvx2,      // AVX2 and FMA
  kAvx512,    // AVX-512 F, DQ and VL
};

// The name of a set: "baseline", "avx2" or "avx512".
const char* InstructionSetName(InstructionSet set);
// The best set that this processor and its operating system can run.
InstructionSet BestInstructionSet();
// All sets that they can run, the worst first; never empty.
absl::Span<const InstructionSet> SupportedInstructionSets();

// While the guard lives, denormal operands and results of this thread's floating-point arithmetic
// count as zero. Arithmetic on denormals is up to a hundred times slower, and values that decay
// (the moments of an optimizer, activations) become denormal in the end. It has an effect on x86-64
// and AArch64 only.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;
  ~ScopedFlushDenormals();

 private:
  uint64_t saved_;
};

// A pause for loops that look again and again at what another thread or process will change: tells
// the processor that this thread waits, so that it leaves more of the core and of the memory to
// others.
inline void Pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

}  // namespace ding

#endif  // DING_WORKER_BASE_CPU_H_
