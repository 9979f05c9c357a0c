#include "ding_worker/policy/batch_columns.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr char kWhere[] = "training batch";  // begins messages about transitions

// Returns the index of field `name` of `batch`, which must have the dtype and shape of `expected`.
absl::StatusOr<int> FindColumn(const Spec& batch, absl::string_view name, const FieldSpec& expected,
                               absl::string_view where) {
  const std::optional<int> index = batch.Find(name);
  if (!index.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": column '", name, "' is missing; it has\n", batch.DebugString()));
  }
  const FieldSpec& found = batch.field(*index);
  if (found.dtype != expected.dtype || found.shape != expected.shape) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": column '", name, "' is ",
                                                   found.DebugString(), ", expected ",
                                                   expected.DebugString()));
  }
  return *index;
}

// Returns the index of the first value that is not a category of `field`; -1 if all are.
int64_t FindNoCategory(const FieldSpec& field, absl::Span<const int64_t> values) {
  const int64_t elements = field.num_elements();
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t value = values[static_cast<size_t>(i)];
    if (value < 0 || value >= field.CategoryCount(i % elements)) return i;
  }
  return -1;
}

SpecPtr Floats(std::vector<FieldSpec> fields) { return *MakeSpec(std::move(fields)); }

}  // namespace

ColumnBinding::ColumnBinding(SpecPtr spec, absl::string_view prefix, absl::string_view where)
    : spec_(std::move(spec)),
      prefix_(prefix),
      where_(where),
      fields_(static_cast<size_t>(spec_->size())),
      columns_(static_cast<size_t>(spec_->size())) {}

absl::Status ColumnBinding::Resolve(const Spec& batch) {
  for (int i = 0; i < spec_->size(); ++i) {
    const FieldSpec& field = spec_->field(i);
    DING_ASSIGN_OR_RETURN(fields_[static_cast<size_t>(i)],
                          FindColumn(batch, absl::StrCat(prefix_, field.name), field, where_));
  }
  return absl::OkStatus();
}

ColumnsView ColumnBinding::Bind(const ColumnsView& batch) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    // Both kinds of views share one pointer type; this view is read only.
    columns_[i] = const_cast<std::byte*>(batch.raw_column(fields_[i]));
  }
  return ColumnsView(spec_.get(), columns_.data(), 0, batch.rows());
}

absl::Status ColumnBinding::CheckValues(const ColumnsView& view) const {
  for (int i = 0; i < spec_->size(); ++i) {
    const FieldSpec& field = spec_->field(i);
    const auto where = [&](int64_t at) {
      return absl::StrCat(where_, ": column '", prefix_, field.name, "', row ",
                          at / field.num_elements(), " holds ");
    };
    if (field.dtype == DType::kFloat32) {
      const absl::Span<const float> values = view.column<float>(i);
      if (AllFinite(values)) continue;
      const int64_t bad = FindNonFinite(values);
      return absl::InternalError(absl::StrCat(where(bad), values[static_cast<size_t>(bad)]));
    }
    if (!field.is_discrete()) continue;
    const absl::Span<const int64_t> values = view.column<int64_t>(i);
    const int64_t bad = FindNoCategory(field, values);
    if (bad < 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where(bad), values[static_cast<size_t>(bad)], ", expected 0..",
                     field.CategoryCount(bad % field.num_elements()) - 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<ColumnsView> ColumnBinding::Read(const Batch& batch) {
  if (batch.empty()) return absl::InvalidArgumentError(absl::StrCat(where_, ": it has no rows"));
  if (resolved_ != batch.spec_ptr()) {
    resolved_.reset();
    DING_RETURN_IF_ERROR(Resolve(batch.spec()));
    resolved_ = batch.spec_ptr();
  }
  const ColumnsView view = Bind(batch.view());
  DING_RETURN_IF_ERROR(CheckValues(view));
  return view;
}

SampledTransitionReader::SampledTransitionReader(SpecPtr observation, SpecPtr action)
    : obs_(observation, "", kWhere),
      next_obs_(std::move(observation), "next_", kWhere),
      action_(std::move(action), "", kWhere),
      scalars_(Floats({Scalar(kColumnReward, DType::kFloat32),
                       Scalar(kColumnDiscount, DType::kFloat32)}),
               "", kWhere),
      weight_(Floats({Scalar(kColumnWeight, DType::kFloat32)}), "", kWhere) {}

absl::Status SampledTransitionReader::Resolve(const Spec& batch) {
  DING_RETURN_IF_ERROR(obs_.Resolve(batch));
  DING_RETURN_IF_ERROR(next_obs_.Resolve(batch));
  DING_RETURN_IF_ERROR(action_.Resolve(batch));
  DING_RETURN_IF_ERROR(scalars_.Resolve(batch));
  has_weight_ = batch.Find(kColumnWeight).has_value();
  return has_weight_ ? weight_.Resolve(batch) : absl::OkStatus();
}

absl::StatusOr<TransitionView> SampledTransitionReader::Read(const Batch& batch) {
  if (batch.empty()) return absl::InvalidArgumentError(absl::StrCat(kWhere, ": it has no rows"));
  if (resolved_ != batch.spec_ptr()) {
    resolved_.reset();
    DING_RETURN_IF_ERROR(Resolve(batch.spec()));
    resolved_ = batch.spec_ptr();
  }
  const ColumnsView columns = batch.view();
  TransitionView view;
  view.obs = obs_.Bind(columns);
  view.next_obs = next_obs_.Bind(columns);
  view.action = action_.Bind(columns);
  DING_RETURN_IF_ERROR(obs_.CheckValues(view.obs));
  DING_RETURN_IF_ERROR(next_obs_.CheckValues(view.next_obs));
  DING_RETURN_IF_ERROR(action_.CheckValues(view.action));
  const ColumnsView scalars = scalars_.Bind(columns);
  DING_RETURN_IF_ERROR(scalars_.CheckValues(scalars));
  view.reward = scalars.column<float>(0);
  view.discount = scalars.column<float>(1);
  if (!has_weight_) return view;
  const ColumnsView weight = weight_.Bind(columns);
  DING_RETURN_IF_ERROR(weight_.CheckValues(weight));
  view.weight = weight.column<float>(0);
  return view;
}

}  // namespace ding
