#include "ding_worker/replay_buffer/storage/linked_rows.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr int64_t kPieceBytes = 16 << 10;

// The size of the table of blocks, a power of 2.
size_t PlacesFor(int64_t capacity_rows, int block_shift) {
  // The first and the last block may each hold as little as one valid row.
  const int64_t most_blocks = (capacity_rows >> block_shift) + 2;
  size_t places = 2;
  while (static_cast<int64_t>(places) <= most_blocks) places *= 2;
  return places;
}

}  // namespace

LinkedRows::LinkedRows(SpecPtr rows, int obs_fields, int64_t capacity_rows,
                       std::shared_ptr<RowFiles> files)
    : spec_(std::move(rows)),
      obs_fields_(obs_fields),
      capacity_rows_(capacity_rows),
      layout_(LayOutRows(*spec_, obs_fields, capacity_rows, files != nullptr)),
      blocks_(PlacesFor(capacity_rows, layout_.block_shift)),
      memory_(layout_, std::move(files)),
      finder_(layout_, &memory_, blocks_.data(), static_cast<int64_t>(blocks_.size()) - 1),
      slots_at_(blocks_.size()) {}

absl::Status LinkedRows::Reserve(int64_t first_id, int64_t rows, int64_t slots) {
  const int64_t first_kept = std::max(begin_, first_id + rows - capacity_rows_);
  const int64_t released =
      std::clamp(finder_.BlockOf(first_kept), first_block_, end_block_) - first_block_;
  const int64_t added =
      finder_.BlockOf(first_id + rows - 1) + 1 - std::max(end_block_, finder_.BlockOf(first_kept));
  DING_RETURN_IF_ERROR(memory_.ReserveBlocks(added, released));
  DING_RETURN_IF_ERROR(memory_.ReserveSlots(slots));
  stream_of_slot_.resize(static_cast<size_t>(memory_.slots()));
  return absl::OkStatus();
}

void LinkedRows::EvictBefore(int64_t id) {
  if (id <= begin_) return;
  ForEachPiece(begin_, id, [this](int64_t first, int64_t rows) {
    int64_t& slots = slots_at_[finder_.PlaceOf(first)];
    for (int64_t row = first; slots > 0 && row < first + rows; ++row) {
      const int32_t link = LinkOf(row);
      if (!RowLink::LeadsToSlot(link)) continue;
      ForgetTail(link, row);
      memory_.RetireSlot(RowLink::Slot(link));
      --slots;
    }
  });
  begin_ = id;
  ReleaseBlocksBefore(finder_.BlockOf(id));
}

void LinkedRows::StartAt(int64_t id) {
  DING_CHECK(id >= end_) << "id " << id << " was used: the next is " << end_;
  EvictBefore(end_);
  begin_ = end_ = id;
  ReleaseBlocksBefore(finder_.BlockOf(id));
}

void LinkedRows::ReleaseBlocksBefore(int64_t block) {
  for (; first_block_ < std::min(block, end_block_); ++first_block_) {
    memory_.RetireBlock(std::move(blocks_[first_block_ & finder_.place_mask_]));
  }
  first_block_ = std::max(first_block_, block);
  end_block_ = std::max(end_block_, block);
}

// Called when the row with this link is evicted. If it is the newest row of an open stream, the
// stream is forgotten.
void LinkedRows::ForgetTail(int32_t link, int64_t row) {
  if (RowLink::End(link) != SegmentEnd::kCut) return;
  const auto tail = tails_.find(stream_of_slot_[RowLink::Slot(link)]);
  if (tail != tails_.end() && tail->second.row == row) tails_.erase(tail);
}

void LinkedRows::Append(const ColumnsView& from) {
  const int64_t first_id = end_;
  AppendUnfilled(from.rows());
  const auto copy = [&](int64_t piece_id, int64_t rows) {
    const RowLocation to = Locate(piece_id);
    for (int field = 0; field < spec_->size(); ++field) {
      if (IsStack(field)) continue;
      const int64_t bytes = spec_->row_bytes(field);
      CopyStrided(from.raw_column(field) + (piece_id - first_id) * bytes, bytes,
                  MutableAt(to, field), layout_.row_bytes, bytes, rows);
    }
    std::fill_n(MutableLinksAt(piece_id), rows, 0);
  };
  // So few rows stay in the first cache while one field after the other is copied.
  const int64_t most = kPieceBytes / std::max<int64_t>(layout_.row_bytes, 1);
  ForEachPiece(first_id, end_, copy, std::max<int64_t>(most, 1));
}

void LinkedRows::AppendUnfilled(int64_t rows) {
  end_ += rows;
  for (; end_block_ <= finder_.BlockOf(end_ - 1); ++end_block_) {
    blocks_[end_block_ & finder_.place_mask_] = memory_.TakeBlock();
  }
}

LinkedRows::Linked LinkedRows::LinkSegment(const Segment& segment, int64_t first_id,
                                           const ColumnsView& final_obs, int64_t final_row) {
  Linked linked;
  linked.predecessor = -1;
  const int64_t last = first_id + segment.length - 1;
  const auto [tail, inserted] = tails_.try_emplace(segment.stream);
  if (!inserted && tail->second.next_step == segment.first_step) {
    linked.predecessor = tail->second.row;
    int32_t& link = *MutableLinksAt(linked.predecessor);
    memory_.RetireSlot(RowLink::Slot(link));
    link = static_cast<int32_t>(first_id - linked.predecessor - 1);
    --slots_at_[finder_.PlaceOf(linked.predecessor)];
  }
  const int32_t slot = memory_.TakeSlot();
  linked.final_obs = memory_.LocateSlot(slot);
  KeepFinalObs(final_obs, final_row, linked.final_obs);
  stream_of_slot_[slot] = segment.stream;
  ++slots_at_[finder_.PlaceOf(last)];
  *MutableLinksAt(last) = RowLink::ToSlot(slot, segment.end);
  if (segment.end == SegmentEnd::kCut) {
    tail->second = {last, segment.first_step + segment.length};
  } else {
    tails_.erase(tail);
  }
  return linked;
}

void LinkedRows::KeepFinalObs(const ColumnsView& final_obs, int64_t final_row,
                              const RowLocation& slot) {
  const Spec& spec = *spec_;
  for (int field = 0; field < obs_fields_; ++field) {
    if (IsStack(field)) continue;
    const int64_t bytes = spec.row_bytes(field);
    std::memcpy(MutableAt(slot, field), final_obs.raw_column(field) + final_row * bytes,
                static_cast<size_t>(bytes));
  }
}

std::optional<OpenStream> LinkedRows::OpenStreamOf(int64_t id) const {
  const int32_t link = LinkOf(id);
  const int64_t stream = stream_of_slot_[RowLink::Slot(link)];
  const Tail* const tail = TailOf(stream);
  if (tail == nullptr || tail->row != id) return std::nullopt;
  return OpenStream{stream, tail->next_step};
}

absl::StatusOr<int32_t> LinkedRows::AdoptLinks() {
  int32_t slots = 0;
  for (int64_t id = begin_; id < end_; ++id) {
    const int32_t link = LinkOf(id);
    if (!RowLink::LeadsToSlot(link) && link < end_ - id - 1) continue;
    if (!RowLink::LeadsToSlot(link) || RowLink::Slot(link) != slots ||
        RowLink::End(link) > SegmentEnd::kTruncated) {
      return absl::InvalidArgumentError(absl::StrCat("saved link ", link, " of row ", id - begin_,
                                                     " of ", size(), " leads nowhere"));
    }
    ++slots;
    ++slots_at_[finder_.PlaceOf(id)];
  }
  return slots;
}

absl::Status LinkedRows::TakeFirstSlots(int32_t count) {
  DING_RETURN_IF_ERROR(memory_.TakeFirstSlots(count));
  stream_of_slot_.resize(static_cast<size_t>(memory_.slots()));
  return absl::OkStatus();
}

bool LinkedRows::AdoptOpenStream(int64_t id, const OpenStream& stream) {
  const int32_t link = LinkOf(id);
  if (!RowLink::LeadsToSlot(link) || RowLink::End(link) != SegmentEnd::kCut ||
      !tails_.try_emplace(stream.stream, Tail{id, stream.next_step}).second) {
    return false;
  }
  stream_of_slot_[RowLink::Slot(link)] = stream.stream;
  return true;
}

}  // namespace ding
