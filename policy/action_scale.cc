#include "ding_worker/policy/action_scale.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/dtype.h"

namespace ding {

bool ActionScale::Fits(const FieldSpec& field) {
  const auto finite = [](double bound) { return std::isfinite(static_cast<float>(bound)); };
  return field.dtype == DType::kFloat32 && !field.low.empty() && !field.high.empty() &&
         std::all_of(field.low.begin(), field.low.end(), finite) &&
         std::all_of(field.high.begin(), field.high.end(), finite);
}

absl::StatusOr<ActionScale> ActionScale::Create(const Spec& action, absl::string_view algorithm) {
  if (action.size() == 1 && action.field(0).name == "action" && Fits(action.field(0))) {
    return ActionScale(action.field(0));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      algorithm,
      " chooses continuous actions: expected one field 'action', a float32 box with finite bounds, "
      "the action space is\n",
      action.DebugString()));
}

ActionScale::ActionScale(const FieldSpec& field) {
  DING_CHECK(Fits(field)) << field.DebugString();
  for (size_t i = 0; i < static_cast<size_t>(field.num_elements()); ++i) {
    const size_t bound = field.low.size() == 1 ? 0 : i;
    low_.push_back(static_cast<float>(field.low[bound]));
    high_.push_back(static_cast<float>(field.high[bound]));
  }
}

float ActionScale::FromUnit(float unit, size_t i) const {
  const double inside = std::clamp(static_cast<double>(unit), -1.0, 1.0);
  const double value = low_[i] + 0.5 * (inside + 1) * (static_cast<double>(high_[i]) - low_[i]);
  return std::clamp(static_cast<float>(value), low_[i], high_[i]);
}

double ActionScale::ToUnit(float action, size_t i) const {
  const double range = static_cast<double>(high_[i]) - low_[i];
  return range > 0 ? 2 * (static_cast<double>(action) - low_[i]) / range - 1 : 0;
}

void ActionScale::FromUnit(absl::Span<const float> unit, absl::Span<float> action) const {
  DING_CHECK(unit.size() == action.size() && unit.size() % width() == 0)
      << unit.size() << " and " << action.size() << " elements, " << width() << " per action";
  for (size_t row = 0; row < unit.size(); row += width()) {
    for (size_t i = 0; i < width(); ++i) action[row + i] = FromUnit(unit[row + i], i);
  }
}

void ActionScale::ToUnit(absl::Span<const float> action, absl::Span<float> unit) const {
  DING_CHECK(unit.size() == action.size() && unit.size() % width() == 0)
      << action.size() << " and " << unit.size() << " elements, " << width() << " per action";
  for (size_t row = 0; row < unit.size(); row += width()) {
    for (size_t i = 0; i < width(); ++i) {
      unit[row + i] = static_cast<float>(ToUnit(action[row + i], i));
    }
  }
}

}  // namespace ding
