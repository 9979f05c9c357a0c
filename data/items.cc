#include "ding_worker/data/items.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

bool HasObservation(const Spec& rows) {
  return std::any_of(rows.fields().begin(), rows.fields().end(),
                     [](const FieldSpec& field) { return IsObsColumn(field.name); });
}

absl::StatusOr<Batch> MakeNoObservation() {
  DING_ASSIGN_OR_RETURN(BatchBuilder row, BatchBuilder::Create(std::make_shared<const Spec>(), 1));
  return std::move(row).Seal(1);
}

}  // namespace

std::string ItemSequences::AllowedRows() const {
  if (whole_episodes) return "at least 1 row";
  return absl::StrCat(padding ? "at most " : "", length, length == 1 ? " row" : " rows");
}

bool IsItems(const Spec& rows) {
  return rows.Find(kColumnChunk).has_value() && !HasObservation(rows);
}

absl::Status CheckItemFields(const Spec& rows) {
  for (const char* const name : {kColumnChunk, kColumnRow, kColumnLength}) {
    const absl::StatusOr<int> index = rows.IndexOf(name, "items");
    if (!index.ok()) return absl::InvalidArgumentError(index.status().message());
    const FieldSpec& field = rows.field(*index);
    if (field.dtype == DType::kInt64 && field.shape.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("items: field '", name, "' is ", field.DebugString(), ", expected int64[]"));
  }
  if (HasObservation(rows) || rows.Find(kColumnReward).has_value()) {
    return absl::InvalidArgumentError(
        "items have observations or a 'reward', expected neither: the store has these");
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentBatch> MakeItems(Batch rows) {
  DING_RETURN_IF_ERROR(CheckItemFields(rows.spec()));
  const absl::Span<const int64_t> first = rows.column<int64_t>(kColumnRow);
  const absl::Span<const int64_t> length = rows.column<int64_t>(kColumnLength);
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] >= 0 && length[i] >= 1 && CheckedSum(first[i], length[i]).has_value()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("item ", i, " of ", first.size(), " is ", length[i], " rows from row ",
                     first[i], " on, expected at least 1 row from row 0 or later"));
  }
  SegmentBatch items;
  items.rows = std::move(rows);
  if (items.rows.empty()) return items;
  // Items end as terminated, so that no buffer waits for further rows of their stream. Batches are
  // immutable, so all items share the observation behind them, which has no fields.
  static const auto* const no_observation = new absl::StatusOr<Batch>(MakeNoObservation());
  DING_ASSIGN_OR_RETURN(items.final_obs, *no_observation);
  items.segments = {
      {/*stream=*/0, /*first_step=*/0, /*begin=*/0, items.rows.rows(), SegmentEnd::kTerminated}};
  return items;
}

}  // namespace ding
