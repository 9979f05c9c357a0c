#include "ding_worker/data/transition_layout.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"

namespace ding {
namespace {

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
