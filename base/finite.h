// Looks for NaN and infinity in columns and parameters, fast enough to check every batch. The loop
// is compiled for several instruction sets; the best one is chosen at run time.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_BASE_FINITE_H_
#define DING_WORKER_BASE_FINITE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/base/cpu.h"

namespace ding {

namespace internal_finite {

// Returns a number other than 0 if a value is not finite. Infinity and NaN are the values whose
// exponent is all ones, and only such an exponent carries into the sign bit when 1 is added to it.
// This is integer arithmetic, so that the compiler may reorder and vectorize it.
DING_INLINE uint32_t CarryOf(const float* values, size_t count) {
  constexpr uint32_t kExponent = 0x7f800000u;
  constexpr uint32_t kOne = 0x00800000u;
  uint32_t carry = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    carry |= (bits & kExponent) + kOne;
  }
  return carry & 0x80000000u;
}

using CarryFunction = uint32_t (*)(const float* values, size_t count);
// CarryOf() compiled for `set`, which this processor must support.
CarryFunction CarryFunctionFor(InstructionSet set);

bool AllFiniteLong(absl::Span<const float> values);

}  // namespace internal_finite

// Whether no value is NaN or infinite. Short inputs, such as an observation, are checked inline.
inline bool AllFinite(absl::Span<const float> values) {
  constexpr size_t kFew = 8;
  if (values.size() > kFew) return internal_finite::AllFiniteLong(values);
  return internal_finite::CarryOf(values.data(), values.size()) == 0;
}

// The index of the first value that is not finite, or -1 if all values are finite.
int64_t FindNonFinite(absl::Span<const float> values);

}  // namespace ding

#endif  // DING_WORKER_BASE_FINITE_H_
