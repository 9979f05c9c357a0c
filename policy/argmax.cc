#include "ding_worker/policy/argmax.h"

#include <algorithm>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {

int64_t Argmax(absl::Span<const float> values, absl::Span<const uint8_t> mask) {
  DING_CHECK(!values.empty()) << "no value to choose from";
  if (mask.empty()) return std::max_element(values.begin(), values.end()) - values.begin();
  DING_CHECK(mask.size() == values.size()) << mask.size() << " and " << values.size();
  int64_t best = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (mask[i] == 0) continue;
    if (best < 0 || values[i] > values[static_cast<size_t>(best)]) best = static_cast<int64_t>(i);
  }
  return best;
}

}  // namespace ding
