#include "ding_worker/policy/observation_normalizer.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"

namespace ding {

absl::StatusOr<ObservationNormalizer> ObservationNormalizer::Create(const SpecPtr& observation,
                                                                    double clip) {
  if (!(clip > 0 && std::isfinite(clip))) {
    return absl::InvalidArgumentError(
        absl::StrCat("obs_clip is ", clip, ", must be finite and above 0"));
  }
  for (const FieldSpec& field : observation->fields()) {
    if (field.dtype == DType::kFloat32) continue;
    return absl::InvalidArgumentError(absl::StrCat("normalize_obs is set, but '", field.name,
                                                   "' is ", field.DebugString(),
                                                   ", expected float32"));
  }
  return ObservationNormalizer(observation, clip);
}

ObservationNormalizer::ObservationNormalizer(SpecPtr observation, double clip)
    : observation_(std::move(observation)), clip_(clip) {
  for (const FieldSpec& field : observation_->fields()) {
    fields_.emplace_back(field.num_elements(), clip_);
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    StateDict state;
    const absl::Status saved = fields_[i].SaveState(&state);
    DING_CHECK(saved.ok()) << saved.ToString();  // Memory is the only thing it needs.
    for (const std::string& name : state.Names()) {
      names_.insert(absl::StrCat(ScopeInModel(i), "/", name));
    }
  }
}

absl::Status ObservationNormalizer::Set(const RowParts& rows) {
  for (RunningNormalizer& field : fields_) field = RunningNormalizer(field.width(), clip_);
  for (size_t part = 0; part < rows.rows.size(); ++part) {
    if (rows.rows[part] == 0) continue;
    DING_ASSIGN_OR_RETURN(const Batch loaded, rows.load(static_cast<int64_t>(part)));
    Update(loaded.view());
  }
  return absl::OkStatus();
}

void ObservationNormalizer::Update(const ColumnsView& rows) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    fields_[i].Update(rows.column<float>(static_cast<int>(i)));
  }
}

absl::Status ObservationNormalizer::Update(const ColumnsView& rows, GroupSum sum) {
  std::vector<RunningNormalizer> fields = fields_;
  for (size_t i = 0; i < fields.size(); ++i) {
    DING_RETURN_IF_ERROR(fields[i].Update(rows.column<float>(static_cast<int>(i)), sum));
  }
  fields_.swap(fields);
  return absl::OkStatus();
}

absl::StatusOr<ColumnsView> ObservationNormalizer::Normalize(const ColumnsView& obs,
                                                             ScratchColumns* memory) const {
  DING_RETURN_IF_ERROR(CheckFirstFields(*observation_, obs.spec(), "observations"));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView normalized, memory->Rows(obs.rows()));
  for (size_t i = 0; i < fields_.size(); ++i) {
    const int field = static_cast<int>(i);
    fields_[i].Normalize(obs.column<float>(field), normalized.column<float>(field));
  }
  return ColumnsView(normalized);
}

void ObservationNormalizer::NormalizeInPlace(const MutableColumnsView& rows) const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const std::optional<int> field =
        rows.spec().Find(observation_->field(static_cast<int>(i)).name);
    DING_CHECK(field.has_value()) << "no " << observation_->field(static_cast<int>(i)).name;
    const absl::Span<float> values = rows.column<float>(*field);
    fields_[i].Normalize(values, values);
  }
}

std::string ObservationNormalizer::ScopeInModel(size_t field) const {
  return absl::StrCat("statistics/", observation_->field(static_cast<int>(field)).name);
}

std::string ObservationNormalizer::Scope(size_t field) const {
  return absl::StrCat(kModelScope, "/", ScopeInModel(field));
}

absl::Status ObservationNormalizer::SaveState(StateWriter* writer) const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    ScopedStateWriter scoped(writer, Scope(i));
    DING_RETURN_IF_ERROR(fields_[i].SaveState(&scoped));
  }
  return absl::OkStatus();
}

absl::Status ObservationNormalizer::LoadState(StateReader* reader) {
  std::vector<RunningNormalizer> fields = fields_;
  for (size_t i = 0; i < fields.size(); ++i) {
    ScopedStateReader scoped(reader, Scope(i));
    DING_RETURN_IF_ERROR(fields[i].LoadState(&scoped));
  }
  fields_.swap(fields);
  return absl::OkStatus();
}

}  // namespace ding
