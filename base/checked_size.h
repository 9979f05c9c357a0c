// Sums, products and ranges of sizes, indices and steps that a caller, a file or a peer gave,
// without overflow.
//
// Threads: thread-safe (pure functions).
//
// Example:
//   if (!IsRange(begin, rows, rows_)) return absl::InvalidArgumentError(...);
#ifndef DING_WORKER_BASE_CHECKED_SIZE_H_
#define DING_WORKER_BASE_CHECKED_SIZE_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "ding_worker/base/version.h"

namespace ding {

// Return nullopt where the result is beyond 64 bits.
inline std::optional<int64_t> CheckedSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}
inline std::optional<int64_t> CheckedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}
// Returns the nearest 64-bit number. For counts of a run, whose parts a peer or a user gave.
inline int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// Whether [begin, begin + count) lies in [0, size).
inline bool IsRange(int64_t begin, int64_t count, int64_t size) {
  return begin >= 0 && count >= 0 && begin <= size && count <= size - begin;
}

}  // namespace ding

#endif  // DING_WORKER_BASE_CHECKED_SIZE_H_
