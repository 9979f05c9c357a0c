#include "ding_worker/policy/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ding {

// In integers, so that the compiler may reorder and vectorize it: an exponent of all ones, the mark
// of infinity and NaN, is the only one that carries into the sign bit when 1 is added to it.
bool AllFinite(absl::Span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000u;
  constexpr uint32_t kOne = 0x00800000u;
  uint32_t carry = 0;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    carry |= (bits & kExponent) + kOne;
  }
  return (carry & 0x80000000u) == 0;
}

int64_t FindNonFinite(absl::Span<const float> values) {
  if (AllFinite(values)) return -1;
  const auto found =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return found - values.begin();
}

}  // namespace ding
