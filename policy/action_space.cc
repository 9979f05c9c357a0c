#include "ding_worker/policy/action_space.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

// Returns the number of elements of a mask of one row; nullopt if no mask can have such counts.
std::optional<int64_t> WidthOf(absl::Span<const int64_t> counts) {
  std::optional<int64_t> width = 0;
  for (const int64_t count : counts) {
    width = count < 1 ? std::nullopt : CheckedSum(*width, count);
    if (!width.has_value()) return std::nullopt;
  }
  return counts.empty() ? std::nullopt : width;
}

// Returns kInvalidArgument unless `mask` has whole rows, `rows` of them if that is not negative.
absl::Status CheckWidth(absl::Span<const uint8_t> mask, absl::Span<const int64_t> counts,
                        int64_t rows) {
  const std::optional<int64_t> width = WidthOf(counts);
  const auto size = static_cast<int64_t>(mask.size());
  if (width.has_value() && size % *width == 0 && (rows < 0 || size / *width == rows)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("action mask: ", size, " elements for ", counts.size(), " elements of an action",
                   rows < 0 ? "" : absl::StrCat(" in ", rows, " rows"),
                   ", expected one for each category of each row"));
}

}  // namespace

absl::StatusOr<std::optional<int>> FindActionMask(const Spec& observation, const Spec& action) {
  const std::optional<int> found = observation.Find(kActionMaskField);
  if (!found.has_value()) return found;
  const FieldSpec& field = observation.field(*found);
  if (action.size() == 0 || !action.field(0).is_discrete()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the observation has the action mask '", field.name, "', but the action is not discrete: ",
        action.size() == 0 ? std::string("there is none") : action.field(0).DebugString()));
  }
  const std::vector<int64_t> counts = CategoryCounts(action.field(0));
  const int64_t width = WidthOf(counts).value_or(-1);
  if (SizeOf(field.dtype) != 1 || field.num_elements() != width) {
    return absl::InvalidArgumentError(absl::StrCat("the action mask '", field.name, "' is ",
                                                   field.DebugString(), ", expected bool[", width,
                                                   "]: one element for each category"));
  }
  return found;
}

SpecPtr WithoutActionMask(const SpecPtr& observation) {
  std::vector<FieldSpec> fields;
  for (const FieldSpec& field : observation->fields()) {
    if (field.name != kActionMaskField) fields.push_back(field);
  }
  if (static_cast<int>(fields.size()) == observation->size()) return observation;
  return *MakeSpec(std::move(fields));
}

std::vector<int64_t> CategoryCounts(const FieldSpec& action) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < action.num_elements(); ++i) counts.push_back(action.CategoryCount(i));
  return counts;
}

absl::Span<const uint8_t> ActionMaskOf(const ColumnsView& obs, std::optional<int> mask_field) {
  if (!mask_field.has_value()) return {};
  return obs.column<uint8_t>(*mask_field);
}

int64_t CountLegal(absl::Span<const uint8_t> mask) {
  return std::count_if(mask.begin(), mask.end(), [](uint8_t legal) { return legal != 0; });
}

absl::Status CheckLegal(absl::Span<const uint8_t> mask, absl::Span<const int64_t> counts) {
  if (!mask.empty()) DING_RETURN_IF_ERROR(CheckWidth(mask, counts, /*rows=*/-1));
  size_t at = 0;
  for (int64_t row = 0; at < mask.size(); ++row) {
    for (size_t element = 0; element < counts.size(); ++element) {
      const auto count = static_cast<size_t>(counts[element]);
      if (CountLegal(mask.subspan(at, count)) == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("action mask: row ", row, " has no legal action",
                         counts.size() > 1 ? absl::StrCat(" for element ", element) : ""));
      }
      at += count;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTaken(absl::Span<const uint8_t> mask, absl::Span<const int64_t> counts,
                        absl::Span<const int64_t> action) {
  if (mask.empty()) return absl::OkStatus();
  const auto elements = static_cast<int64_t>(std::max<size_t>(counts.size(), 1));
  const auto taken = static_cast<int64_t>(action.size());
  DING_RETURN_IF_ERROR(CheckWidth(mask, counts, taken % elements == 0 ? taken / elements : 0));
  size_t begin = 0;
  for (size_t i = 0; i < action.size(); ++i) {
    const size_t element = i % counts.size();
    if (action[i] < 0 || action[i] >= counts[element]) {
      return absl::InvalidArgumentError(
          absl::StrCat("action ", action[i], " of element ", element, " of row ", i / counts.size(),
                       " is not legal, expected 0 to ", counts[element] - 1));
    }
    if (mask[begin + static_cast<size_t>(action[i])] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("action mask: action ", action[i],
                       counts.size() > 1 ? absl::StrCat(" of element ", element) : "", " of row ",
                       i / counts.size(), " is illegal"));
    }
    begin += static_cast<size_t>(counts[element]);
  }
  return absl::OkStatus();
}

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
