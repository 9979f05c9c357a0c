#include "ding_worker/policy/action_mask.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"

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

}  // namespace ding
