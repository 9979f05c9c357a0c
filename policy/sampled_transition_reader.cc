#include "ding_worker/policy/sampled_transition_reader.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"

namespace ding {
namespace {

constexpr char kWhere[] = "training batch";

// The field `name` of `batch`, which must have the dtype and shape of `expected`.
absl::StatusOr<int> FindField(const Spec& batch, absl::string_view name,
                              const FieldSpec& expected) {
  const std::optional<int> index = batch.Find(name);
  if (!index.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": column '", name, "' is missing; it has\n", batch.DebugString()));
  }
  const FieldSpec& found = batch.field(*index);
  if (found.dtype != expected.dtype || found.shape != expected.shape) {
    return absl::InvalidArgumentError(absl::StrCat(kWhere, ": column '", name, "' is ",
                                                   found.DebugString(), ", expected ",
                                                   expected.DebugString()));
  }
  return *index;
}

absl::StatusOr<int> FindFloat(const Spec& batch, absl::string_view name) {
  return FindField(batch, name, Scalar(name, DType::kFloat32));
}

absl::Status CheckFinite(absl::string_view name, absl::Span<const float> values,
                         int64_t elements_per_row) {
  const int64_t at = FindNonFinite(values);
  if (at < 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(kWhere, ": column '", name, "', row ",
                                          at / elements_per_row, " holds ",
                                          values[static_cast<size_t>(at)]));
}

absl::Status CheckFinite(const ColumnsView& view, absl::string_view prefix) {
  for (int i = 0; i < view.spec().size(); ++i) {
    const FieldSpec& field = view.spec().field(i);
    if (field.dtype != DType::kFloat32) continue;
    const absl::Span<const float> values = view.column<float>(i);
    if (AllFinite(values)) continue;
    return CheckFinite(absl::StrCat(prefix, field.name), values, field.num_elements());
  }
  return absl::OkStatus();
}

absl::Status CheckCategories(const ColumnsView& view) {
  for (int i = 0; i < view.spec().size(); ++i) {
    const FieldSpec& field = view.spec().field(i);
    if (!field.is_discrete()) continue;
    const absl::Span<const int64_t> values = view.column<int64_t>(i);
    for (size_t j = 0; j < values.size(); ++j) {
      if (values[j] >= 0 && values[j] < field.num_categories) continue;
      return absl::InvalidArgumentError(absl::StrCat(kWhere, ": column '", field.name, "', row ",
                                                     static_cast<int64_t>(j) / field.num_elements(),
                                                     " holds ", values[j], ", expected 0..",
                                                     field.num_categories - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

ColumnsView SampledTransitionReader::Part::Bind(const ColumnsView& batch) {
  for (size_t i = 0; i < fields.size(); ++i) {
    // Views of both kinds share one pointer type; this one is handed out for reading only.
    columns[i] = const_cast<std::byte*>(batch.raw_column(fields[i]));
  }
  return ColumnsView(spec.get(), columns.data(), 0, batch.rows());
}

SampledTransitionReader::SampledTransitionReader(SpecPtr observation, SpecPtr action) {
  for (Part* part : {&obs_, &next_obs_, &action_}) {
    part->spec = part == &action_ ? action : observation;
    part->fields.resize(static_cast<size_t>(part->spec->size()));
    part->columns.resize(part->fields.size());
  }
}

absl::Status SampledTransitionReader::Resolve(const Spec& batch) {
  for (int i = 0; i < obs_.spec->size(); ++i) {
    const FieldSpec& field = obs_.spec->field(i);
    DING_ASSIGN_OR_RETURN(obs_.fields[i], FindField(batch, field.name, field));
    DING_ASSIGN_OR_RETURN(next_obs_.fields[i], FindField(batch, NextObsColumn(field.name), field));
  }
  for (int i = 0; i < action_.spec->size(); ++i) {
    const FieldSpec& field = action_.spec->field(i);
    DING_ASSIGN_OR_RETURN(action_.fields[i], FindField(batch, field.name, field));
  }
  DING_ASSIGN_OR_RETURN(reward_, FindFloat(batch, kColumnReward));
  DING_ASSIGN_OR_RETURN(discount_, FindFloat(batch, kColumnDiscount));
  weight_.reset();
  if (batch.Find(kColumnWeight).has_value()) {
    DING_ASSIGN_OR_RETURN(weight_, FindFloat(batch, kColumnWeight));
  }
  return absl::OkStatus();
}

absl::Status SampledTransitionReader::CheckValues(const TransitionView& view) const {
  DING_RETURN_IF_ERROR(CheckFinite(view.obs, ""));
  DING_RETURN_IF_ERROR(CheckFinite(view.next_obs, "next_"));
  DING_RETURN_IF_ERROR(CheckFinite(kColumnReward, view.reward, 1));
  DING_RETURN_IF_ERROR(CheckFinite(kColumnDiscount, view.discount, 1));
  DING_RETURN_IF_ERROR(CheckFinite(kColumnWeight, view.weight, 1));
  DING_RETURN_IF_ERROR(CheckFinite(view.action, ""));
  return CheckCategories(view.action);
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
  view.reward = columns.column<float>(reward_);
  view.discount = columns.column<float>(discount_);
  if (weight_.has_value()) view.weight = columns.column<float>(*weight_);
  DING_RETURN_IF_ERROR(CheckValues(view));
  return view;
}

}  // namespace ding
