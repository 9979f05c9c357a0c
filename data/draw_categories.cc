#include "ding_worker/data/draw_categories.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

// Returns the `index`-th category that `mask` allows; `index` must be below their number.
int64_t LegalCategory(absl::Span<const uint8_t> mask, uint64_t index) {
  size_t category = 0;
  while (mask[category] == 0 || index-- > 0) ++category;
  return static_cast<int64_t>(category);
}

}  // namespace

absl::Status DrawCategories(const FieldSpec& field, absl::Span<const uint8_t> mask, Rng* rng,
                            absl::Span<int64_t> row) {
  size_t offset = 0;  // where the element's categories begin in the mask
  for (size_t i = 0; i < row.size(); ++i) {
    const auto count = static_cast<uint64_t>(field.CategoryCount(static_cast<int64_t>(i)));
    if (mask.empty()) {
      row[i] = static_cast<int64_t>(rng->UniformInt(count));
      continue;
    }
    const absl::Span<const uint8_t> categories = mask.subspan(offset, count);
    const auto illegal = std::count(categories.begin(), categories.end(), uint8_t{0});
    const uint64_t legal = count - static_cast<uint64_t>(illegal);
    if (legal == 0) {
      return absl::InvalidArgumentError(absl::StrCat("the action mask forbids all ", count,
                                                     " categories of '", field.name, "' element ",
                                                     i, ", expected at least one legal"));
    }
    row[i] = LegalCategory(categories, rng->UniformInt(legal));
    offset += count;
  }
  return absl::OkStatus();
}

}  // namespace ding
