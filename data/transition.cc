#include "ding_worker/data/transition.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr absl::string_view kNext = "next_";

bool IsNextObsColumn(absl::string_view name) {
  return absl::ConsumePrefix(&name, kNext) && IsObsColumn(name);
}

// The observation first, then the other values.
absl::StatusOr<SpecPtr> SpecOf(const Transition& transition) {
  std::vector<FieldSpec> fields;
  for (const auto& [name, value] : transition.values) {
    if (IsNextObsColumn(name)) continue;
    FieldSpec field;
    field.name = name;
    field.dtype = value.dtype();
    field.shape = value.shape();
    fields.push_back(std::move(field));
  }
  std::stable_partition(fields.begin(), fields.end(),
                        [](const FieldSpec& field) { return IsObsColumn(field.name); });
  return MakeSpec(std::move(fields));
}

absl::Status CheckValue(const Transition& transition, const std::string& name,
                        const FieldSpec& field) {
  const Tensor* const value = transition.values.Find(name);
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("has no '", name, "', expected ", field.DebugString()));
  }
  if (value->dtype() == field.dtype && value->shape() == field.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("has ", value->DebugString(), " as '", name,
                                                 "', expected ", field.DebugString()));
}

// Checks the values of a transition, which `ends` its segment or goes on with the next one.
absl::Status CheckValues(const Transition& transition, const Spec& rows, bool ends) {
  for (const FieldSpec& field : rows.fields()) {
    DING_RETURN_IF_ERROR(CheckValue(transition, field.name, field));
    const std::string next = NextObsColumn(field.name);
    if (!IsObsColumn(field.name) || (!ends && transition.values.Find(next) == nullptr)) continue;
    const absl::Status status = CheckValue(transition, next, field);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          status.message(), ends ? ", because no transition of its episode follows" : ""));
    }
  }
  for (const auto& [name, value] : transition.values) {
    const absl::string_view field = IsNextObsColumn(name) ? absl::StripPrefix(name, kNext) : name;
    if (rows.Find(field).has_value()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("has '", name, "', which the rows before do not have"));
  }
  return absl::OkStatus();
}

// Whether `transition` leads to `next`: it does not say otherwise.
bool LeadsTo(const Transition& transition, const Transition& next) {
  return std::none_of(next.values.begin(), next.values.end(), [&](const TensorMap::Entry& value) {
    const Tensor* const after = transition.values.Find(NextObsColumn(value.first));
    return IsObsColumn(value.first) && after != nullptr && !BitwiseEqual(*after, value.second);
  });
}

void CopyValue(const Tensor& value, int64_t row, std::byte* column) {
  std::memcpy(column + row * value.size_bytes(), value.raw_data(),
              static_cast<size_t>(value.size_bytes()));
}

absl::Status CheckFieldNames(const Spec& rows, int obs_fields) {
  for (int i = 0; i < rows.size(); ++i) {
    const std::string& name = rows.field(i).name;
    if (IsObsColumn(name) == (i < obs_fields)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("field ", i, " '", name, "' ", i < obs_fields ? "stands" : "does not stand",
                     " among the final observations; those are 'obs' or 'obs/...' and no others"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RewardField(const Spec& rows) {
  DING_ASSIGN_OR_RETURN(const int index, rows.IndexOf(kColumnReward, "rows"));
  const FieldSpec& field = rows.field(index);
  if (field.dtype == DType::kFloat32 && field.shape.size() <= 1) return index;
  return absl::InvalidArgumentError(
      absl::StrCat("field 'reward' is ", field.DebugString(),
                   ", expected float32[], or float32[R] for R components"));
}

bool IsReplaced(const FieldSpec& stored, absl::Span<const FieldSpec> added) {
  return std::any_of(added.begin(), added.end(), [&stored](const FieldSpec& column) {
    return column.name == stored.name && column.dtype == stored.dtype &&
           column.shape == stored.shape;
  });
}

absl::StatusOr<SpecPtr> BatchSpec(const Spec& rows, int obs_fields,
                                  absl::Span<const FieldSpec> added) {
  std::vector<FieldSpec> fields(rows.fields().begin(), rows.fields().end());
  for (int i = 0; i < obs_fields; ++i) {
    FieldSpec next = rows.field(i);
    next.name = NextObsColumn(next.name);
    fields.push_back(std::move(next));
  }
  if (!IsItems(rows)) {
    fields.push_back(Scalar(kColumnDiscount, DType::kFloat32));
    fields.push_back(Scalar(kColumnNStep, DType::kInt32));
  }
  fields.push_back(Scalar(kColumnReplayUniqueId, DType::kInt64));
  for (const FieldSpec& column : added) {
    const std::optional<int> stored = rows.Find(column.name);
    if (!stored.has_value() || !IsReplaced(rows.field(*stored), added)) fields.push_back(column);
  }
  return MakeSpec(std::move(fields));
}

}  // namespace

absl::StatusOr<SegmentBatch> MakeSegments(absl::Span<const Transition> transitions, int64_t stream,
                                          int64_t first_step, SpecPtr rows) {
  SegmentBatch data;
  if (transitions.empty()) return data;
  if (rows == nullptr) {
    DING_ASSIGN_OR_RETURN(rows, SpecOf(transitions[0]));
  }
  std::vector<FieldSpec> obs_fields;
  for (const FieldSpec& field : rows->fields()) {
    if (IsObsColumn(field.name)) obs_fields.push_back(field);
  }
  if (obs_fields.empty()) {
    return absl::InvalidArgumentError("transition 0: has no 'obs', expected one, or 'obs/...'");
  }

  const auto size = static_cast<int64_t>(transitions.size());
  bool begins = true;
  for (int64_t i = 0, step = first_step; i < size; ++i, ++step) {
    const Transition& transition = transitions[i];
    if (begins) data.segments.push_back({stream, step, i, 0, SegmentEnd::kCut});
    ++data.segments.back().length;
    data.segments.back().end = transition.end;
    begins = transition.end != SegmentEnd::kCut || i == size - 1 ||
             !LeadsTo(transition, transitions[i + 1]);
    const absl::Status status = CheckValues(transition, *rows, begins);
    if (!status.ok()) return Annotate(status, absl::StrCat("transition ", i));
    // A buffer links consecutive steps of a running episode.
    if (begins && transition.end == SegmentEnd::kCut) ++step;
  }

  DING_ASSIGN_OR_RETURN(BatchBuilder built, BatchBuilder::Create(rows, size));
  for (int field = 0; field < rows->size(); ++field) {
    for (int64_t i = 0; i < size; ++i) {
      CopyValue(*transitions[i].values.Find(rows->field(field).name), i,
                built.view().raw_column(field));
    }
  }
  DING_ASSIGN_OR_RETURN(SpecPtr obs, MakeSpec(std::move(obs_fields)));
  const auto ends = static_cast<int64_t>(data.segments.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder final_obs, BatchBuilder::Create(obs, ends));
  for (int field = 0; field < obs->size(); ++field) {
    const std::string next = NextObsColumn(obs->field(field).name);
    for (int64_t i = 0; i < ends; ++i) {
      const Segment& segment = data.segments[i];
      CopyValue(*transitions[segment.begin + segment.length - 1].values.Find(next), i,
                final_obs.view().raw_column(field));
    }
  }
  data.rows = std::move(built).Seal(size);
  data.final_obs = std::move(final_obs).Seal(ends);
  return data;
}

absl::StatusOr<TransitionLayout> MakeTransitionLayout(const Spec& rows, int obs_fields,
                                                      absl::Span<const FieldSpec> added) {
  DING_RETURN_IF_ERROR(CheckFieldNames(rows, obs_fields));
  TransitionLayout layout;
  const bool items = IsItems(rows);
  if (items) {
    DING_RETURN_IF_ERROR(CheckItemFields(rows));
  } else {
    const absl::StatusOr<int> reward = RewardField(rows);
    if (!reward.ok()) return absl::InvalidArgumentError(reward.status().message());
    layout.reward = *reward;
  }
  DING_ASSIGN_OR_RETURN(layout.spec, BatchSpec(rows, obs_fields, added));
  for (int field = 0; field < rows.size(); ++field) {
    if (!IsReplaced(rows.field(field), added)) layout.stored.push_back(field);
  }
  layout.first_next_obs = rows.size();
  layout.discount = layout.first_next_obs + obs_fields;
  layout.n_step = layout.discount + 1;
  layout.replay_unique_id = layout.discount + (items ? 0 : 2);
  return layout;
}

}  // namespace ding
