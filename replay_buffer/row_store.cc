#include "ding_worker/replay_buffer/row_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/replay_buffer/read_vector.h"

namespace ding {
namespace {

constexpr int64_t kColumnAlignment = 64;
constexpr int64_t kTargetChunkBytes = int64_t{1} << 20;
// A buffer of this many chunks wastes at most an eighth of itself at its ends.
constexpr int64_t kMinChunks = 8;
constexpr size_t kMaxSpareChunks = 2;
constexpr int64_t kLinkBytes = sizeof(int32_t);
// Far from overflow, far beyond any run.
constexpr int64_t kMaxId = (int64_t{1} << 60) - 1;
constexpr int32_t kLastEnd = static_cast<int32_t>(SegmentEnd::kTruncated);

int64_t AlignUp(int64_t size) {
  return (size + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
}

// The largest shift with 1 << shift <= value; value >= 1.
int FloorLog2(int64_t value) {
  int shift = 0;
  while (value >> (shift + 1) != 0) ++shift;
  return shift;
}

int ChunkShift(int64_t row_bytes, int64_t capacity_rows) {
  const int64_t rows = std::min(kTargetChunkBytes / row_bytes, capacity_rows / kMinChunks);
  return FloorLog2(std::max<int64_t>(rows, 1));
}

int64_t PhysicalMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

absl::Status CheckCapacity(int64_t capacity_rows, int64_t row_bytes) {
  if (capacity_rows < 1 || capacity_rows > RowStore::kMaxCapacityRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity of ", capacity_rows, " rows, expected 1 to ", RowStore::kMaxCapacityRows));
  }
  const double bytes = static_cast<double>(capacity_rows) * static_cast<double>(row_bytes);
  const auto memory = static_cast<double>(PhysicalMemoryBytes());
  if (bytes <= memory) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "capacity of %d rows x %d bytes = %.1f GB is more than this machine's memory of %.1f GB",
      capacity_rows, row_bytes, bytes * 1e-9, memory * 1e-9));
}

template <int kBytes>
void CopyFixed(absl::Span<const RowLocation> rows, int64_t offset, std::byte* to) {
  for (const RowLocation& row : rows) {
    std::memcpy(to, row.chunk + offset + row.row * kBytes, kBytes);
    to += kBytes;
  }
}

void CopyAny(absl::Span<const RowLocation> rows, int64_t offset, int64_t bytes, std::byte* to) {
  for (const RowLocation& row : rows) {
    std::memcpy(to, row.chunk + offset + row.row * bytes, static_cast<size_t>(bytes));
    to += bytes;
  }
}

absl::string_view BytesAt(const std::byte* data, int64_t bytes) {
  return {reinterpret_cast<const char*>(data), static_cast<size_t>(bytes)};
}

absl::Status OutOfMemory(int64_t blocks, int64_t bytes, absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("out of memory: ", blocks, " more ", what, " of ", bytes, " bytes"));
}

absl::Span<char> WritableAt(const std::byte* data, int64_t bytes) {
  return {reinterpret_cast<char*>(const_cast<std::byte*>(data)), static_cast<size_t>(bytes)};
}

// [rows, ...shape of the field]
Shape ColumnShape(int64_t rows, const FieldSpec& field) {
  Shape shape = {rows};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  return shape;
}

bool IsNoRow(int32_t link) { return link < 0; }

absl::Status Damaged(absl::string_view what, int64_t found, int64_t low, int64_t high) {
  return absl::InvalidArgumentError(
      absl::StrCat("saved ", what, " is ", found, ", expected ", low, " to ", high));
}

absl::Status CheckColumn(const StateReader& reader, absl::string_view prefix,
                         const FieldSpec& field, int64_t rows) {
  const std::string name = absl::StrCat(prefix, field.name);
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader.Info(name));
  const Shape expected = ColumnShape(rows, field);
  if (info.dtype == field.dtype && info.shape == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("saved '", name, "' is ", DTypeName(info.dtype),
                                                 ShapeString(info.shape), ", expected ",
                                                 DTypeName(field.dtype), ShapeString(expected)));
}

absl::StatusOr<SpecPtr> LoadSpec(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::string bytes, reader->ReadString("spec"));
  const absl::StatusOr<Batch> no_rows = DecodeBatch(bytes);
  if (!no_rows.ok()) return Annotate(no_rows.status(), "saved spec");
  return no_rows->spec_ptr();
}

}  // namespace

RowStore::RowStore(SpecPtr rows, int obs_fields, int64_t capacity_rows)
    : spec_(std::move(rows)), obs_fields_(obs_fields), capacity_rows_(capacity_rows) {
  chunk_shift_ = ChunkShift(spec_->row_bytes() + kLinkBytes, capacity_rows);
  const int64_t chunk_rows = int64_t{1} << chunk_shift_;
  row_mask_ = chunk_rows - 1;
  for (int field = 0; field < spec_->size(); ++field) {
    if (field == obs_fields_) side_block_bytes_ = chunk_bytes_;
    offsets_.push_back(chunk_bytes_);
    chunk_bytes_ += AlignUp(chunk_rows * spec_->row_bytes(field));
  }
  if (obs_fields_ == spec_->size()) side_block_bytes_ = chunk_bytes_;
  links_offset_ = chunk_bytes_;
  chunk_bytes_ += AlignUp(chunk_rows * kLinkBytes);
  // The first and the last chunk may each hold as little as one valid row.
  const int64_t most_chunks = capacity_rows / chunk_rows + 2;
  const int64_t table_size = int64_t{2} << FloorLog2(most_chunks);
  chunk_mask_ = table_size - 1;
  chunks_.resize(static_cast<size_t>(table_size));
  slots_in_chunk_.resize(static_cast<size_t>(table_size));
  epochs_.emplace_back();
}

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Create(SpecPtr rows, int obs_fields,
                                                           int64_t capacity_rows) {
  DING_CHECK(obs_fields >= 0 && obs_fields <= rows->size())
      << obs_fields << " observation fields of " << rows->size();
  DING_RETURN_IF_ERROR(CheckCapacity(capacity_rows, rows->row_bytes() + kLinkBytes));
  return std::unique_ptr<RowStore>(new RowStore(std::move(rows), obs_fields, capacity_rows));
}

template <typename F>
void RowStore::ForEachPiece(int64_t begin, int64_t end, F f) const {
  while (begin < end) {
    const int64_t piece_end = std::min(end, (ChunkOf(begin) + 1) << chunk_shift_);
    f(begin, piece_end - begin);
    begin = piece_end;
  }
}

absl::Status RowStore::CheckLayout(const SegmentBatch& data, absl::string_view where) const {
  // Collectors use one spec for all their pushes.
  if (data.rows.spec_ptr() != spec_) {
    DING_RETURN_IF_ERROR(CheckSameLayout(*spec_, data.rows.spec(), where));
  }
  // Its fields are the first of the rows' (ValidateSegments), which are right.
  if (data.final_obs.spec().size() == obs_fields_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": final_obs has ", data.final_obs.spec().size(), " fields, expected ", obs_fields_));
}

absl::Status RowStore::Append(const SegmentBatch& data) {
  const int64_t rows = data.size();
  // Of a push larger than the store, the last capacity_rows_ rows go in.
  const int64_t skipped = std::max<int64_t>(0, rows - capacity_rows_);
  const int64_t first_id = end_ + skipped;
  Reclaim();
  DING_RETURN_IF_ERROR(
      Reserve(first_id, rows - skipped, static_cast<int64_t>(data.segments.size())));
  // From here on nothing fails.
  EvictBefore(std::min(end_, end_ + rows - capacity_rows_));
  if (skipped > 0) {
    begin_ = end_ = first_id;
    ReleaseChunksBefore(ChunkOf(first_id));
  }
  end_ = first_id + rows - skipped;
  AddChunks(end_);
  CopyColumns(data.rows.view().Slice(skipped, rows - skipped), first_id);
  const ColumnsView final_obs = data.final_obs.view();
  for (size_t i = 0; i < data.segments.size(); ++i) {
    Segment segment = data.segments[i];
    const int64_t missing = std::max<int64_t>(0, skipped - segment.begin);
    if (missing >= segment.length) continue;
    segment.begin += missing;
    segment.first_step += missing;
    segment.length -= missing;
    LinkSegment(segment, first_id + segment.begin - skipped, final_obs, static_cast<int64_t>(i));
  }
  TrimSpareChunks();
  return absl::OkStatus();
}

// Allocates whatever appending `rows` rows at `first_id` will need beyond what evicting frees.
absl::Status RowStore::Reserve(int64_t first_id, int64_t rows, int64_t slots) {
  const int64_t first_kept = std::max(begin_, first_id + rows - capacity_rows_);
  const int64_t released = std::clamp(ChunkOf(first_kept), first_chunk_, end_chunk_) - first_chunk_;
  const int64_t added =
      ChunkOf(first_id + rows - 1) + 1 - std::max(end_chunk_, ChunkOf(first_kept));
  const int64_t usable =
      static_cast<int64_t>(spare_chunks_.size()) + (NobodyReads() ? released : 0);
  for (int64_t i = usable; i < added; ++i) {
    Memory chunk = AllocateAligned(chunk_bytes_);
    if (chunk == nullptr) return OutOfMemory(added - i, chunk_bytes_, "chunks");
    spare_chunks_.push_back(std::move(chunk));
  }
  return ReserveSlots(slots);
}

absl::Status RowStore::ReserveSlots(int64_t slots) {
  while (static_cast<int64_t>(free_slots_.size()) < slots) {
    const auto first = static_cast<int64_t>(slot_stream_.size());
    // Links have room for as many slots as there can be rows; more exist only while readers hold
    // back the retired ones.
    if (first + row_mask_ >= kMaxCapacityRows)
      return OutOfMemory(1, side_block_bytes_, "side blocks");
    Memory block = AllocateAligned(side_block_bytes_);
    if (block == nullptr) return OutOfMemory(1, side_block_bytes_, "side blocks");
    side_blocks_.push_back(std::move(block));
    slot_stream_.resize(static_cast<size_t>(first + row_mask_ + 1));
    for (int64_t slot = first + row_mask_; slot >= first; --slot) {
      free_slots_.push_back(static_cast<int32_t>(slot));
    }
  }
  return absl::OkStatus();
}

void RowStore::EvictBefore(int64_t id) {
  if (id <= begin_) return;
  ForEachPiece(begin_, id, [this](int64_t first, int64_t rows) {
    int64_t& slots = slots_in_chunk_[ChunkOf(first) & chunk_mask_];
    for (int64_t row = first; slots > 0 && row < first + rows; ++row) {
      const int32_t code = ~LinkOf(row);
      if (code < 0) continue;
      ForgetTail(code, row);
      RetireSlot(code >> kEndBits);
      --slots;
    }
  });
  begin_ = id;
  ReleaseChunksBefore(ChunkOf(id));
}

// The row with this link is evicted: if its stream waits for more, it waits no longer.
void RowStore::ForgetTail(int32_t code, int64_t row) {
  if (static_cast<SegmentEnd>(code & kEndMask) != SegmentEnd::kCut) return;
  const auto tail = open_tails_.find(slot_stream_[code >> kEndBits]);
  if (tail != open_tails_.end() && tail->second.row == row) open_tails_.erase(tail);
}

void RowStore::ReleaseChunksBefore(int64_t chunk) {
  for (; first_chunk_ < std::min(chunk, end_chunk_); ++first_chunk_) {
    RetireChunk(std::move(chunks_[first_chunk_ & chunk_mask_]));
  }
  first_chunk_ = std::max(first_chunk_, chunk);
  end_chunk_ = std::max(end_chunk_, chunk);
}

// Chunks for the rows up to `end`, from the spare ones.
void RowStore::AddChunks(int64_t end) {
  for (; end_chunk_ <= ChunkOf(end - 1); ++end_chunk_) {
    DING_CHECK(!spare_chunks_.empty()) << "no chunk was reserved for rows up to " << end;
    chunks_[end_chunk_ & chunk_mask_] = std::move(spare_chunks_.back());
    spare_chunks_.pop_back();
  }
}

void RowStore::CopyColumns(const ColumnsView& from, int64_t first_id) {
  ForEachPiece(first_id, first_id + from.rows(), [&](int64_t piece_id, int64_t rows) {
    const RowLocation to = Locate(piece_id);
    for (int field = 0; field < spec_->size(); ++field) {
      const int64_t bytes = spec_->row_bytes(field);
      std::memcpy(const_cast<std::byte*>(At(to, field)),
                  from.raw_column(field) + (piece_id - first_id) * bytes,
                  static_cast<size_t>(rows * bytes));
    }
    std::memset(&LinkOf(piece_id), 0, static_cast<size_t>(rows * kLinkBytes));
  });
}

// Links the row before the segment to it, and its last row to its final observation.
void RowStore::LinkSegment(const Segment& segment, int64_t first_id, const ColumnsView& final_obs,
                           int64_t final_row) {
  const int64_t last = first_id + segment.length - 1;
  const auto [tail, inserted] = open_tails_.try_emplace(segment.stream);
  if (!inserted && tail->second.next_step == segment.first_step) {
    int32_t& link = LinkOf(tail->second.row);
    RetireSlot(~link >> kEndBits);
    link = static_cast<int32_t>(first_id - tail->second.row - 1);
    --slots_in_chunk_[ChunkOf(tail->second.row) & chunk_mask_];
  }
  const int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  const RowLocation at = LocateSlot(slot);
  for (int field = 0; field < obs_fields_; ++field) {
    const int64_t bytes = spec_->row_bytes(field);
    std::memcpy(const_cast<std::byte*>(At(at, field)),
                final_obs.raw_column(field) + final_row * bytes, static_cast<size_t>(bytes));
  }
  slot_stream_[slot] = segment.stream;
  ++slots_in_chunk_[ChunkOf(last) & chunk_mask_];
  LinkOf(last) = ~(slot << kEndBits | static_cast<int32_t>(segment.end));
  if (segment.end == SegmentEnd::kCut) {
    tail->second = {last, segment.first_step + segment.length};
  } else {
    open_tails_.erase(tail);
  }
}

void RowStore::Gather(int field, absl::Span<const RowLocation> rows, std::byte* to) const {
  const int64_t offset = offsets_[field];
  switch (spec_->row_bytes(field)) {
    case 1:
      return CopyFixed<1>(rows, offset, to);
    case 4:
      return CopyFixed<4>(rows, offset, to);
    case 8:
      return CopyFixed<8>(rows, offset, to);
    case 16:
      return CopyFixed<16>(rows, offset, to);
    default:
      return CopyAny(rows, offset, spec_->row_bytes(field), to);
  }
}

RowPin RowStore::Pin() {
  // What is retired from now on must wait for this reader, what was retired before must not.
  Epoch& newest = epochs_.back();
  if (!newest.chunks.empty() || !newest.slots.empty()) epochs_.emplace_back();
  return RowPin(&epochs_.back().readers);
}

bool RowStore::NobodyReads() const {
  return epochs_.size() == 1 && epochs_.back().readers.load(std::memory_order_acquire) == 0;
}

// Makes usable again what no reader can see any more.
void RowStore::Reclaim() {
  while (epochs_.front().readers.load(std::memory_order_acquire) == 0) {
    Epoch& epoch = epochs_.front();
    for (Memory& chunk : epoch.chunks) spare_chunks_.push_back(std::move(chunk));
    free_slots_.insert(free_slots_.end(), epoch.slots.begin(), epoch.slots.end());
    epoch.chunks.clear();
    epoch.slots.clear();
    if (epochs_.size() == 1) break;
    epochs_.pop_front();
  }
  TrimSpareChunks();
}

void RowStore::RetireChunk(Memory chunk) {
  (NobodyReads() ? spare_chunks_ : epochs_.back().chunks).push_back(std::move(chunk));
}

void RowStore::RetireSlot(int32_t slot) {
  (NobodyReads() ? free_slots_ : epochs_.back().slots).push_back(slot);
}

void RowStore::TrimSpareChunks() {
  if (spare_chunks_.size() > kMaxSpareChunks) spare_chunks_.resize(kMaxSpareChunks);
}

// The store at one moment: columns stay where they are, pinned, and so do links to other rows. Other
// links change when their row's successor comes, and are copied.
struct RowStore::SavedRows {
  struct Column {
    std::string name;
    DType dtype;
    Shape shape;
    std::vector<absl::string_view> parts;
  };

  RowPin pin;
  SpecPtr spec;
  int64_t obs_fields = 0;
  int64_t begin_id = 0;
  int64_t rows = 0;
  std::vector<absl::string_view> links;
  std::vector<int32_t> copied_links;
  // Of the streams that go on: newest row, by its distance from begin_id, and more.
  std::vector<int64_t> tails;
  std::vector<int64_t> streams;
  std::vector<int64_t> next_steps;
  std::vector<Column> columns;

  absl::Status Write(StateWriter* writer) const {
    DING_ASSIGN_OR_RETURN(BatchBuilder no_rows, BatchBuilder::Create(spec, 0));
    DING_RETURN_IF_ERROR(
        writer->WriteString("spec", EncodedBatch(std::move(no_rows).Seal(0)).ToString()));
    DING_RETURN_IF_ERROR(writer->WriteInt("obs_fields", obs_fields));
    DING_RETURN_IF_ERROR(writer->WriteInt("begin_id", begin_id));
    DING_RETURN_IF_ERROR(writer->Write("links", DType::kInt32, {rows}, links));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_tails", tails));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_streams", streams));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("open_next_steps", next_steps));
    for (const Column& column : columns) {
      DING_RETURN_IF_ERROR(writer->Write(column.name, column.dtype, column.shape, column.parts));
    }
    return absl::OkStatus();
  }
};

StateSnapshot RowStore::Snapshot() {
  const auto saved = std::make_shared<SavedRows>();
  saved->pin = Pin();
  saved->spec = spec_;
  saved->obs_fields = obs_fields_;
  saved->begin_id = begin_;
  saved->rows = size();
  std::vector<RowLocation> final_obs;
  SaveLinks(saved.get(), &final_obs);
  SaveColumns(saved.get());
  SaveFinalObs(final_obs, saved.get());
  return [saved](StateWriter* writer) { return saved->Write(writer); };
}

// Slots are numbered anew in the order of their rows, so that what was evicted leaves no trace.
int32_t RowStore::SaveLink(int64_t id, SavedRows* saved,
                           std::vector<RowLocation>* final_obs) const {
  const int32_t link = LinkOf(id);
  if (link >= 0) return link;
  const int32_t slot = ~link >> kEndBits;
  const auto number = static_cast<int32_t>(final_obs->size());
  final_obs->push_back(LocateSlot(slot));
  const auto tail = open_tails_.find(slot_stream_[slot]);
  if (tail != open_tails_.end() && tail->second.row == id) {
    saved->tails.push_back(id - begin_);
    saved->streams.push_back(tail->first);
    saved->next_steps.push_back(tail->second.next_step);
  }
  return ~(number << kEndBits | (~link & kEndMask));
}

void RowStore::SaveLinks(SavedRows* saved, std::vector<RowLocation>* final_obs) const {
  // A part costs as much as four links.
  const auto is_sparse = [this](int64_t first, int64_t rows) {
    return slots_in_chunk_[ChunkOf(first) & chunk_mask_] * 8 <= rows;
  };
  int64_t copied = 0;
  ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
    copied += is_sparse(first, rows) ? slots_in_chunk_[ChunkOf(first) & chunk_mask_] : rows;
  });
  saved->copied_links.reserve(static_cast<size_t>(copied));  // Parts refer to it.
  const auto copy = [&](int64_t first, int64_t rows) {
    const int32_t* const to = saved->copied_links.data() + saved->copied_links.size();
    for (int64_t id = first; id < first + rows; ++id) {
      saved->copied_links.push_back(SaveLink(id, saved, final_obs));
    }
    saved->links.push_back(BytesAt(reinterpret_cast<const std::byte*>(to), rows * kLinkBytes));
  };
  ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
    if (!is_sparse(first, rows)) return copy(first, rows);
    const int32_t* const links = &LinkOf(first);
    int64_t left = slots_in_chunk_[ChunkOf(first) & chunk_mask_];
    for (int64_t at = 0; at < rows; ++at) {
      const int64_t end =
          left == 0 ? rows : std::find_if(links + at, links + rows, IsNoRow) - links;
      if (end > at) {
        saved->links.push_back(
            BytesAt(reinterpret_cast<const std::byte*>(links + at), (end - at) * kLinkBytes));
      }
      at = end;
      if (at == rows) break;
      copy(first + at, 1);
      --left;
    }
  });
}

void RowStore::SaveColumns(SavedRows* saved) const {
  for (int field = 0; field < spec_->size(); ++field) {
    std::vector<absl::string_view> parts;
    ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
      parts.push_back(BytesAt(At(Locate(first), field), rows * spec_->row_bytes(field)));
    });
    const FieldSpec& column = spec_->field(field);
    saved->columns.push_back({absl::StrCat("rows/", column.name), column.dtype,
                              ColumnShape(size(), column), std::move(parts)});
  }
}

void RowStore::SaveFinalObs(absl::Span<const RowLocation> final_obs, SavedRows* saved) const {
  for (int field = 0; field < obs_fields_; ++field) {
    std::vector<absl::string_view> parts;
    parts.reserve(final_obs.size());
    for (const RowLocation& at : final_obs) {
      parts.push_back(BytesAt(At(at, field), spec_->row_bytes(field)));
    }
    const FieldSpec& column = spec_->field(field);
    saved->columns.push_back({absl::StrCat("final_obs/", column.name), column.dtype,
                              ColumnShape(static_cast<int64_t>(final_obs.size()), column),
                              std::move(parts)});
  }
}

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Load(StateReader* reader,
                                                         int64_t capacity_rows) {
  DING_ASSIGN_OR_RETURN(SpecPtr spec, LoadSpec(reader));
  DING_ASSIGN_OR_RETURN(const int64_t obs_fields, reader->ReadInt("obs_fields"));
  if (obs_fields < 0 || obs_fields > spec->size()) {
    return Damaged("obs_fields", obs_fields, 0, spec->size());
  }
  DING_ASSIGN_OR_RETURN(const TensorInfo links, reader->Info("links"));
  const int64_t rows = NumElements(links.shape);
  if (rows > capacity_rows) return Damaged("number of rows", rows, 0, capacity_rows);
  DING_ASSIGN_OR_RETURN(const int64_t begin, reader->ReadInt("begin_id"));
  if (begin < 0 || begin > kMaxId) return Damaged("begin_id", begin, 0, kMaxId);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<RowStore> store,
                        Create(std::move(spec), static_cast<int>(obs_fields), capacity_rows));
  store->first_chunk_ = store->end_chunk_ = store->ChunkOf(begin);
  store->begin_ = store->end_ = begin;
  DING_RETURN_IF_ERROR(store->LoadRows(reader, rows));
  return store;
}

absl::Status RowStore::LoadRows(StateReader* reader, int64_t rows) {
  // Before memory is taken for rows as long as the spec says.
  DING_RETURN_IF_ERROR(CheckColumn(*reader, "", Scalar("links", DType::kInt32), rows));
  for (int field = 0; field < spec_->size(); ++field) {
    DING_RETURN_IF_ERROR(CheckColumn(*reader, "rows/", spec_->field(field), rows));
  }
  if (rows > 0) DING_RETURN_IF_ERROR(Reserve(begin_, rows, /*slots=*/0));
  end_ = begin_ + rows;
  if (rows > 0) AddChunks(end_);
  DING_ASSIGN_OR_RETURN(const int32_t slots, LoadLinks(reader));
  for (int field = 0; field < obs_fields_; ++field) {
    DING_RETURN_IF_ERROR(CheckColumn(*reader, "final_obs/", spec_->field(field), slots));
  }
  DING_RETURN_IF_ERROR(ReserveSlots(slots));
  free_slots_.erase(std::remove_if(free_slots_.begin(), free_slots_.end(),
                                   [slots](int32_t slot) { return slot < slots; }),
                    free_slots_.end());
  DING_RETURN_IF_ERROR(LoadColumns(reader));
  DING_RETURN_IF_ERROR(LoadFinalObs(reader, slots));
  return LoadOpenTails(reader);
}

// Returns the number of slots that they lead to.
absl::StatusOr<int32_t> RowStore::LoadLinks(StateReader* reader) {
  std::vector<absl::Span<char>> parts;
  ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
    parts.push_back(
        WritableAt(reinterpret_cast<const std::byte*>(&LinkOf(first)), rows * kLinkBytes));
  });
  DING_RETURN_IF_ERROR(reader->Read("links", parts));
  int32_t slots = 0;
  for (int64_t id = begin_; id < end_; ++id) {
    const int32_t link = LinkOf(id);
    const int32_t code = ~link;
    if (link >= 0 ? link < end_ - id - 1
                  : code >> kEndBits == slots && (code & kEndMask) <= kLastEnd) {
      if (link >= 0) continue;
      ++slots;
      ++slots_in_chunk_[ChunkOf(id) & chunk_mask_];
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("saved link ", link, " of row ", id - begin_,
                                                   " of ", size(), " leads nowhere"));
  }
  return slots;
}

absl::Status RowStore::LoadColumns(StateReader* reader) {
  for (int field = 0; field < spec_->size(); ++field) {
    std::vector<absl::Span<char>> parts;
    ForEachPiece(begin_, end_, [&](int64_t first, int64_t rows) {
      parts.push_back(WritableAt(At(Locate(first), field), rows * spec_->row_bytes(field)));
    });
    DING_RETURN_IF_ERROR(reader->Read(absl::StrCat("rows/", spec_->field(field).name), parts));
  }
  return absl::OkStatus();
}

absl::Status RowStore::LoadFinalObs(StateReader* reader, int32_t slots) {
  for (int field = 0; field < obs_fields_; ++field) {
    std::vector<absl::Span<char>> parts;
    parts.reserve(static_cast<size_t>(slots));
    for (int32_t slot = 0; slot < slots; ++slot) {
      parts.push_back(WritableAt(At(LocateSlot(slot), field), spec_->row_bytes(field)));
    }
    DING_RETURN_IF_ERROR(reader->Read(absl::StrCat("final_obs/", spec_->field(field).name), parts));
  }
  return absl::OkStatus();
}

absl::Status RowStore::LoadOpenTails(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const auto tails, ReadVector<int64_t>(reader, "open_tails"));
  std::vector<int64_t> streams(tails.size());
  std::vector<int64_t> next_steps(tails.size());
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("open_streams", absl::MakeSpan(streams)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("open_next_steps", absl::MakeSpan(next_steps)));
  for (size_t i = 0; i < tails.size(); ++i) {
    if (tails[i] < 0 || tails[i] >= size()) return Damaged("open tail", tails[i], 0, size() - 1);
    const int64_t id = begin_ + tails[i];
    const int32_t code = ~LinkOf(id);
    if (code < 0 || static_cast<SegmentEnd>(code & kEndMask) != SegmentEnd::kCut ||
        !open_tails_.try_emplace(streams[i], OpenTail{id, next_steps[i]}).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved row ", tails[i], " cannot be the newest of stream ", streams[i]));
    }
    slot_stream_[code >> kEndBits] = streams[i];
  }
  return absl::OkStatus();
}

int64_t RowStore::allocated_bytes() const {
  int64_t chunks = end_chunk_ - first_chunk_ + static_cast<int64_t>(spare_chunks_.size());
  for (const Epoch& epoch : epochs_) chunks += static_cast<int64_t>(epoch.chunks.size());
  return chunks * chunk_bytes_ + static_cast<int64_t>(side_blocks_.size()) * side_block_bytes_;
}

}  // namespace ding
