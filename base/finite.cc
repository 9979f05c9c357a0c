#include "ding_worker/base/finite.h"

#include <algorithm>
#include <cmath>

#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"

namespace ding {
namespace internal_finite {
namespace {

uint32_t CarryBaseline(const float* values, size_t count) { return CarryOf(values, count); }

#if defined(__x86_64__)
DING_TARGET_AVX2 uint32_t CarryAvx2(const float* values, size_t count) {
  return CarryOf(values, count);
}

DING_TARGET_AVX512 uint32_t CarryAvx512(const float* values, size_t count) {
  return CarryOf(values, count);
}
#endif

}  // namespace

CarryFunction CarryFunctionFor(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return CarryAvx512;
  if (set == InstructionSet::kAvx2) return CarryAvx2;
#endif
  DING_CHECK(set == InstructionSet::kBaseline) << InstructionSetName(set);
  return CarryBaseline;
}

bool AllFiniteLong(absl::Span<const float> values) {
  static const CarryFunction carry = CarryFunctionFor(BestInstructionSet());
  return carry(values.data(), values.size()) == 0;
}

}  // namespace internal_finite

int64_t FindNonFinite(absl::Span<const float> values) {
  if (AllFinite(values)) return -1;
  const auto found =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return found - values.begin();
}

}  // namespace ding
