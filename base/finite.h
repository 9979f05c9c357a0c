// Looks for NaN and infinity in columns and parameters, fast enough for every batch. The loop is
// compiled for several instruction sets and chosen at run time.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_BASE_FINITE_H_
#define DING_WORKER_BASE_FINITE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"

namespace ding {

namespace internal_finite {

// The sign bit is set if a value is not finite: an exponent of all ones, the mark of infinity and
// NaN, is the only one that carries into it when 1 is added. In integers, so that the compiler may
// reorder and vectorize it.
__attribute__((always_inline)) inline uint32_t CarryOf(const float* values, size_t count) {
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
// CarryOf() for a processor that has `set`, which must be supported here.
CarryFunction CarryFunctionFor(InstructionSet set);

bool AllFiniteLong(absl::Span<const float> values);

}  // namespace internal_finite

// Few values, such as an observation, cost no call.
inline bool AllFinite(absl::Span<const float> values) {
  constexpr size_t kFew = 8;
  if (values.size() > kFew) return internal_finite::AllFiniteLong(values);
  return internal_finite::CarryOf(values.data(), values.size()) == 0;
}

// The index of the first value that is not finite; -1 if all are.
int64_t FindNonFinite(absl::Span<const float> values);

}  // namespace ding

#endif  // DING_WORKER_BASE_FINITE_H_
