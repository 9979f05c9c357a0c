#include "ding_worker/base/cpu.h"

#include <cstddef>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ding {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kFlushBits = 0x8040;  // MXCSR: flush to zero (15), denormals are zero (6).
uint64_t ReadMode() { return _mm_getcsr(); }
void WriteMode(uint64_t mode) { _mm_setcsr(static_cast<unsigned int>(mode)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlushBits = uint64_t{1} << 24;  // FPCR: FZ.
uint64_t ReadMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void WriteMode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
constexpr uint64_t kFlushBits = 0;
uint64_t ReadMode() { return 0; }
void WriteMode(uint64_t) {}
#endif

}  // namespace

const char* InstructionSetName(InstructionSet set) {
  switch (set) {
    case InstructionSet::kBaseline:
      return "baseline";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "unknown";
}

InstructionSet BestInstructionSet() {
  static const InstructionSet best = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      const bool has_avx512 = __builtin_cpu_supports("avx512f") &&
                              __builtin_cpu_supports("avx512dq") &&
                              __builtin_cpu_supports("avx512vl");
      return has_avx512 ? InstructionSet::kAvx512 : InstructionSet::kAvx2;
    }
#endif
    return InstructionSet::kBaseline;
  }();
  return best;
}

absl::Span<const InstructionSet> SupportedInstructionSets() {
  // Each set includes those before it.
  static constexpr InstructionSet kSets[] = {InstructionSet::kBaseline, InstructionSet::kAvx2,
                                             InstructionSet::kAvx512};
  return absl::MakeConstSpan(kSets, static_cast<size_t>(BestInstructionSet()) + 1);
}

ScopedFlushDenormals::ScopedFlushDenormals() : saved_(ReadMode()) {
  WriteMode(saved_ | kFlushBits);
}

ScopedFlushDenormals::~ScopedFlushDenormals() {
  // Exception flags that were raised in between stay; only the two modes are restored.
  WriteMode((ReadMode() & ~kFlushBits) | (saved_ & kFlushBits));
}

}  // namespace ding
