#include "ding_worker/collector/evaluator/metric_evaluator.h"

#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr char kAccuracy[] = "accuracy";
constexpr char kActionMse[] = "action_mse";

absl::Status CheckAlike(const FieldSpec& chosen, const FieldSpec& wanted) {
  if (chosen.dtype == wanted.dtype && chosen.shape == wanted.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the label '", wanted.name, "' is ",
                                                 wanted.DebugString(), ", expected ",
                                                 chosen.DebugString(), " as the action"));
}

}  // namespace

NamedValues IMetric::ReduceMean(absl::Span<const NamedValues> values,
                                absl::Span<const int64_t> rows) const {
  NamedValues sums;
  NamedValues weights;
  for (size_t i = 0; i < values.size(); ++i) {
    const double weight = static_cast<double>(rows[i]);
    for (const auto& [name, value] : values[i]) {
      sums.Set(name, sums.GetOr(name, 0) + weight * value);
      weights.Set(name, weights.GetOr(name, 0) + weight);
    }
  }
  NamedValues means;
  for (const auto& [name, sum] : sums) means.Set(name, sum / weights.GetOr(name, 0));
  return means;
}

absl::StatusOr<NamedValues> ActionAccuracy::Eval(const ColumnsView& output,
                                                 const ColumnsView& label) const {
  const FieldSpec& chosen = output.spec().field(0);
  DING_RETURN_IF_ERROR(CheckAlike(chosen, label.spec().field(0)));
  const int64_t bytes = chosen.row_bytes();
  int64_t right = 0;
  for (int64_t row = 0; row < output.rows(); ++row) {
    const void* const a = output.raw_column(0) + row * bytes;
    const void* const b = label.raw_column(0) + row * bytes;
    if (std::memcmp(a, b, static_cast<size_t>(bytes)) == 0) ++right;
  }
  return NamedValues{{kAccuracy, static_cast<double>(right) / static_cast<double>(output.rows())}};
}

bool ActionAccuracy::GreaterOrEqual(const NamedValues& a, const NamedValues& b) const {
  return a.GetOr(kAccuracy, 0) >= b.GetOr(kAccuracy, 0);
}

absl::StatusOr<NamedValues> ActionSquaredError::Eval(const ColumnsView& output,
                                                     const ColumnsView& label) const {
  const FieldSpec& chosen = output.spec().field(0);
  DING_RETURN_IF_ERROR(CheckAlike(chosen, label.spec().field(0)));
  if (chosen.dtype != DType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("the action is ", chosen.DebugString(), ", expected float32"));
  }
  const absl::Span<const float> a = output.column<float>(0);
  const absl::Span<const float> b = label.column<float>(0);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return NamedValues{{kActionMse, sum / static_cast<double>(a.size())}};
}

bool ActionSquaredError::GreaterOrEqual(const NamedValues& a, const NamedValues& b) const {
  constexpr double kWorst = std::numeric_limits<double>::infinity();
  return a.GetOr(kActionMse, kWorst) <= b.GetOr(kActionMse, kWorst);
}

}  // namespace ding
