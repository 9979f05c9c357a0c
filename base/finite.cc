#include "ding_worker/base/finite.h"

#include <algorithm>
#include <cmath>

#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/base/cpu.h"

namespace ding {
namespace internal_finite {
namespace {

struct Compiled {
  template <InstructionSet kSet>
  static constexpr CarryFunction kLoops = Compile<kSet, CarryOf>();
};

}  // namespace

CarryFunction CarryFunctionFor(InstructionSet set) { return LoopsFor<Compiled>(set); }

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
