#include "ding_worker/replay_buffer/storage/row_store.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"

namespace ding {
namespace {

// A `bytes` that is a constant makes each copy a single move.
inline void CopyRows(absl::Span<const RowLocation> rows, int64_t offset, int64_t bytes,
                     std::byte* to) {
  for (const RowLocation& row : rows) {
    std::memcpy(to, row.at + offset, static_cast<size_t>(bytes));
    to += bytes;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Make(SpecPtr rows, int obs_fields,
                                                         const RowCapacity& capacity) {
  DING_CHECK(obs_fields >= 0 && obs_fields <= rows->size())
      << obs_fields << " observation fields of " << rows->size();
  DING_ASSIGN_OR_RETURN(const int64_t capacity_rows, RowsOfCapacity(*rows, obs_fields, capacity));
  return std::unique_ptr<RowStore>(
      new RowStore(std::move(rows), obs_fields, capacity_rows, capacity.files));
}

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Create(SpecPtr rows, int obs_fields,
                                                           const RowCapacity& capacity) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<RowStore> store,
                        Make(std::move(rows), obs_fields, capacity));
  if (capacity.files == nullptr) return store;
  DING_RETURN_IF_ERROR(capacity.files->CheckNew());
  DING_RETURN_IF_ERROR(capacity.files->CheckRoom(store->capacity_rows() * store->row_bytes()));
  return store;
}

absl::Status RowStore::CheckLayout(const SegmentBatch& data, absl::string_view where) const {
  // A collector uses one spec for all its pushes, so the comparison is rarely needed.
  if (data.rows.spec_ptr() != spec()) {
    DING_RETURN_IF_ERROR(CheckSameLayout(*spec(), data.rows.spec(), where));
  }
  // ValidateSegments() has found that these fields are the first of the rows', which were checked.
  if (data.final_obs.spec().size() == obs_fields()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": final_obs has ", data.final_obs.spec().size(), " fields, expected ", obs_fields()));
}

absl::Status RowStore::Append(const SegmentBatch& data) {
  const int64_t rows = data.size();
  // Only the newest rows of a push larger than the store are kept.
  const int64_t skipped = std::max<int64_t>(0, rows - capacity_rows());
  const int64_t first_id = end_id() + skipped;
  const int64_t first_kept = std::clamp(end_id() + rows - capacity_rows(), begin_id(), end_id());
  const bool has_stacks = frames_per_row() > 0;
  auto slots = static_cast<int64_t>(data.segments.size());
  rows_.memory().Reclaim();
  if (has_stacks) {
    frames_.Plan(data, skipped, first_kept);
    slots += frames_.slots_planned();
  }
  DING_RETURN_IF_ERROR(rows_.Reserve(first_id, rows - skipped, slots));
  // From here on nothing fails.
  if (has_stacks) frames_.CutBefore(first_kept);
  rows_.EvictBefore(first_kept);
  if (skipped > 0) {
    rows_.StartAt(first_id);
    frames_.StartAt(first_id);
  }
  const ColumnsView view = data.rows.view();
  const ColumnsView kept = view.Slice(skipped, rows - skipped);
  const ColumnsView final_obs = data.final_obs.view();
  rows_.Append(kept);
  if (has_stacks) frames_.Append(kept);
  for (size_t i = 0; i < data.segments.size(); ++i) {
    const Segment segment = WithoutFirstRows(data.segments[i], skipped);
    if (segment.length < 1) continue;
    const int64_t id = first_id + segment.begin - skipped;
    const auto final_row = static_cast<int64_t>(i);
    const LinkedRows::Linked linked = rows_.LinkSegment(segment, id, final_obs, final_row);
    if (has_stacks) frames_.LinkSegment(id, linked, final_obs, final_row);
  }
  if (has_stacks) frames_.KeepOlderFrames(view, first_id - skipped);
  rows_.memory().TrimSpareBlocks();
  return absl::OkStatus();
}

void RowStore::EvictBefore(int64_t id) {
  DING_CHECK(frames_per_row() == 0 && id <= end_id())
      << "rows before " << id << " of " << end_id() << ", with " << frames_per_row() << " frames";
  rows_.EvictBefore(id);
}

absl::Status RowStore::EvictLost() {
  if (frames_per_row() > 0) {
    frames_.Plan(SegmentBatch(), /*skipped=*/0, lost_.end);
    DING_RETURN_IF_ERROR(rows_.Reserve(end_id(), /*rows=*/0, frames_.slots_planned()));
    frames_.CutBefore(lost_.end);
  }
  rows_.EvictBefore(lost_.end);
  return absl::OkStatus();
}

void RowStore::Clear() {
  if (frames_per_row() > 0) frames_.CutAll();
  rows_.EvictBefore(end_id());
}

void RowStore::Gather(int field, absl::Span<const RowLocation> rows, std::byte* to) const {
  const int64_t offset = rows_.layout().offsets[field];
  const int64_t bytes = spec()->row_bytes(field);
  switch (bytes) {
    case 1:
      return CopyRows(rows, offset, 1, to);
    case 4:
      return CopyRows(rows, offset, 4, to);
    case 8:
      return CopyRows(rows, offset, 8, to);
    case 16:
      return CopyRows(rows, offset, 16, to);
    default:
      return CopyRows(rows, offset, bytes, to);
  }
}

StateSnapshot RowStore::Snapshot() { return SnapshotRows(&rows_, frames_); }

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Load(StateReader* reader,
                                                         const RowCapacity& capacity) {
  DING_ASSIGN_OR_RETURN(const SavedRowsHeader header, ReadSavedRowsHeader(reader));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<RowStore> store,
                        Make(header.spec, header.obs_fields, capacity));
  DING_ASSIGN_OR_RETURN(store->lost_, LoadRows(header, reader, &store->rows_, &store->frames_));
  return store;
}

}  // namespace ding
