#include "ding_worker/replay_buffer/storage/linked_rows.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Status LinkedRows::Reserve(int64_t first_id, int64_t rows, int64_t slots) {
  DING_RETURN_IF_ERROR(ring_.Reserve(first_id, rows));
  DING_RETURN_IF_ERROR(ring_.memory().ReserveSlots(slots));
  stream_of_slot_.resize(static_cast<size_t>(ring_.memory().slots()));
  return absl::OkStatus();
}

void LinkedRows::EvictBefore(int64_t id) {
  if (id <= ring_.begin_id()) return;
  ring_.ForEachPiece(ring_.begin_id(), id, [this](int64_t first, int64_t rows) {
    int64_t& slots = slots_at_[ring_.PlaceOf(first)];
    for (int64_t row = first; slots > 0 && row < first + rows; ++row) {
      const int32_t link = ring_.LinkOf(row);
      if (!RowLink::LeadsToSlot(link)) continue;
      ForgetTail(link, row);
      ring_.memory().RetireSlot(RowLink::Slot(link));
      --slots;
    }
  });
  ring_.EvictBefore(id);
}

// Called when the row with this link is evicted. If it is the newest row of an open stream, the
// stream is forgotten.
void LinkedRows::ForgetTail(int32_t link, int64_t row) {
  if (RowLink::End(link) != SegmentEnd::kCut) return;
  const auto tail = tails_.find(stream_of_slot_[RowLink::Slot(link)]);
  if (tail != tails_.end() && tail->second.row == row) tails_.erase(tail);
}

void LinkedRows::Append(const ColumnsView& from) {
  const int64_t first_id = ring_.end_id();
  ring_.Append(from.rows());
  ring_.CopyColumns(from, first_id);
  ring_.ForEachPiece(first_id, ring_.end_id(), [this](int64_t piece_id, int64_t rows) {
    std::fill_n(ring_.MutableLinksAt(piece_id), rows, 0);
  });
}

LinkedRows::Linked LinkedRows::LinkSegment(const Segment& segment, int64_t first_id,
                                           const ColumnsView& final_obs, int64_t final_row) {
  Linked linked;
  linked.predecessor = -1;
  const int64_t last = first_id + segment.length - 1;
  const auto [tail, inserted] = tails_.try_emplace(segment.stream);
  if (!inserted && tail->second.next_step == segment.first_step) {
    linked.predecessor = tail->second.row;
    int32_t& link = *ring_.MutableLinksAt(linked.predecessor);
    ring_.memory().RetireSlot(RowLink::Slot(link));
    link = static_cast<int32_t>(first_id - linked.predecessor - 1);
    --slots_at_[ring_.PlaceOf(linked.predecessor)];
  }
  const int32_t slot = ring_.memory().TakeSlot();
  linked.final_obs = ring_.memory().LocateSlot(slot);
  KeepFinalObs(final_obs, final_row, linked.final_obs);
  stream_of_slot_[slot] = segment.stream;
  ++slots_at_[ring_.PlaceOf(last)];
  *ring_.MutableLinksAt(last) = RowLink::ToSlot(slot, segment.end);
  if (segment.end == SegmentEnd::kCut) {
    tail->second = {last, segment.first_step + segment.length};
  } else {
    tails_.erase(tail);
  }
  return linked;
}

void LinkedRows::KeepFinalObs(const ColumnsView& final_obs, int64_t final_row,
                              const RowLocation& slot) {
  const Spec& spec = *ring_.spec();
  for (int field = 0; field < ring_.obs_fields(); ++field) {
    if (ring_.IsStack(field)) continue;
    const int64_t bytes = spec.row_bytes(field);
    std::memcpy(ring_.MutableAt(slot, field), final_obs.raw_column(field) + final_row * bytes,
                static_cast<size_t>(bytes));
  }
}

std::optional<OpenStream> LinkedRows::OpenStreamOf(int64_t id) const {
  const int32_t link = ring_.LinkOf(id);
  const int64_t stream = stream_of_slot_[RowLink::Slot(link)];
  const Tail* const tail = TailOf(stream);
  if (tail == nullptr || tail->row != id) return std::nullopt;
  return OpenStream{stream, tail->next_step};
}

absl::StatusOr<int32_t> LinkedRows::AdoptLinks() {
  int32_t slots = 0;
  for (int64_t id = ring_.begin_id(); id < ring_.end_id(); ++id) {
    const int32_t link = ring_.LinkOf(id);
    if (!RowLink::LeadsToSlot(link) && link < ring_.end_id() - id - 1) continue;
    if (!RowLink::LeadsToSlot(link) || RowLink::Slot(link) != slots ||
        RowLink::End(link) > SegmentEnd::kTruncated) {
      return absl::InvalidArgumentError(absl::StrCat("saved link ", link, " of row ",
                                                     id - ring_.begin_id(), " of ", ring_.size(),
                                                     " leads nowhere"));
    }
    ++slots;
    ++slots_at_[ring_.PlaceOf(id)];
  }
  return slots;
}

absl::Status LinkedRows::TakeFirstSlots(int32_t count) {
  DING_RETURN_IF_ERROR(ring_.memory().TakeFirstSlots(count));
  stream_of_slot_.resize(static_cast<size_t>(ring_.memory().slots()));
  return absl::OkStatus();
}

bool LinkedRows::AdoptOpenStream(int64_t id, const OpenStream& stream) {
  const int32_t link = ring_.LinkOf(id);
  if (!RowLink::LeadsToSlot(link) || RowLink::End(link) != SegmentEnd::kCut ||
      !tails_.try_emplace(stream.stream, Tail{id, stream.next_step}).second) {
    return false;
  }
  stream_of_slot_[RowLink::Slot(link)] = stream.stream;
  return true;
}

}  // namespace ding
