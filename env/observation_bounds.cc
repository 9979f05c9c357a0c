#include "ding_worker/env/observation_bounds.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"

namespace ding {
namespace {

// Narrows a bound as the values are, so that -1.2 equals -1.2f.
double InPrecisionOf(DType dtype, double bound) {
  return dtype == DType::kFloat32 ? static_cast<double>(static_cast<float>(bound)) : bound;
}

}  // namespace

ObservationBounds::ObservationBounds(const Spec& spec) {
  for (int i = 0; i < spec.size(); ++i) {
    const FieldSpec& field = spec.field(i);
    const auto count = static_cast<size_t>(field.num_elements());
    Field bounds;
    bounds.index = i;
    if (field.is_discrete()) {
      bounds.low.assign(count, 0);
      for (size_t k = 0; k < count; ++k) {
        bounds.high.push_back(
            static_cast<double>(field.CategoryCount(static_cast<int64_t>(k)) - 1));
      }
    } else if (!field.low.empty()) {
      for (size_t k = 0; k < count; ++k) {
        const size_t bound = field.low.size() == 1 ? 0 : k;
        bounds.low.push_back(InPrecisionOf(field.dtype, field.low[bound]));
        bounds.high.push_back(InPrecisionOf(field.dtype, field.high[bound]));
      }
    } else if (field.dtype == DType::kBool) {
      bounds.low.assign(count, 0);
      bounds.high.assign(count, 1);
    } else {
      continue;
    }
    fields_.push_back(std::move(bounds));
  }
}

template <typename T>
absl::Status ObservationBounds::CheckField(const Field& field, const RowView& row) {
  const absl::Span<const T> values = row.field<T>(field.index);
  const double* const low = field.low.data();
  const double* const high = field.high.data();
  bool within = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    within &= (value >= low[i]) & (value <= high[i]);
  }
  if (within) return absl::OkStatus();
  size_t i = 0;
  while (static_cast<double>(values[i]) >= low[i] && static_cast<double>(values[i]) <= high[i]) ++i;
  const FieldSpec& spec = row.spec().field(field.index);
  return absl::InternalError(absl::StrCat("observation '", spec.name, "', element ", i, ", is ",
                                          +values[i], ", expected a value in [", low[i], ", ",
                                          high[i], "] as its space says"));
}

absl::Status ObservationBounds::Check(const RowView& row) const {
  for (const Field& field : fields_) {
    absl::Status status;
    switch (row.spec().dtype(field.index)) {
      case DType::kBool:
      case DType::kUint8:
        status = CheckField<uint8_t>(field, row);
        break;
      case DType::kInt32:
        status = CheckField<int32_t>(field, row);
        break;
      case DType::kInt64:
        status = CheckField<int64_t>(field, row);
        break;
      case DType::kFloat32:
        status = CheckField<float>(field, row);
        break;
      case DType::kFloat64:
        status = CheckField<double>(field, row);
        break;
    }
    DING_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace ding
