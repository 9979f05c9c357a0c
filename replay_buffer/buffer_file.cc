#include "ding_worker/replay_buffer/buffer_file.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/storage/frame_store.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/storage/row_store_state.h"

namespace ding {
namespace {

// The rows of a store, episode by episode, and what follows the last row of each.
struct Order {
  std::vector<int64_t> ids;
  std::vector<Segment> segments;
  std::vector<RowSuccessor> last;  // of each segment
};

absl::StatusOr<Order> OrderByEpisode(const RowStore& store) {
  Order order;
  std::vector<bool> taken(static_cast<size_t>(store.size()));
  for (int64_t first = store.begin_id(); first < store.end_id(); ++first) {
    if (taken[static_cast<size_t>(first - store.begin_id())]) continue;
    Segment segment;
    segment.stream = static_cast<int64_t>(order.segments.size());
    segment.begin = static_cast<int64_t>(order.ids.size());
    RowSuccessor next;
    for (int64_t id = first; id >= 0; id = next.id) {
      const auto row = static_cast<size_t>(id - store.begin_id());
      if (taken[row]) {
        return absl::InvalidArgumentError(
            absl::StrCat("saved row ", row, " follows two rows, expected one"));
      }
      taken[row] = true;
      order.ids.push_back(id);
      next = store.Next(id);
    }
    segment.length = static_cast<int64_t>(order.ids.size()) - segment.begin;
    segment.end = next.end == SegmentEnd::kCut ? SegmentEnd::kTruncated : next.end;
    order.segments.push_back(segment);
    order.last.push_back(next);
  }
  return order;
}

absl::StatusOr<Batch> CopyRowsOf(const RowStore& store, const Order& order) {
  const auto rows = static_cast<int64_t>(order.ids.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(store.spec(), rows));
  const auto frames_per_row = static_cast<size_t>(store.frames_per_row());
  std::vector<RowLocation> at;
  std::vector<FrameLocation> frames(order.ids.size() * frames_per_row);
  for (size_t i = 0; i < order.ids.size(); ++i) {
    at.push_back(store.Locate(order.ids[i]));
    if (frames_per_row == 0) continue;
    store.LocateFrames(order.ids[i],
                       absl::MakeSpan(frames).subspan(i * frames_per_row, frames_per_row));
  }
  for (int field = 0; field < store.spec()->size(); ++field) {
    std::byte* const to = builder.view().raw_column(field);
    if (store.IsStack(field)) {
      store.GatherStacks(field, frames, to);
    } else {
      store.Gather(field, at, to);
    }
  }
  return std::move(builder).Seal(rows);
}

absl::StatusOr<Batch> CopyFinalObsOf(const RowStore& store, const Order& order) {
  const absl::Span<const FieldSpec> fields = store.spec()->fields();
  const absl::Span<const FieldSpec> observation =
      fields.subspan(0, static_cast<size_t>(store.obs_fields()));
  DING_ASSIGN_OR_RETURN(const SpecPtr spec, MakeSpec({observation.begin(), observation.end()}));
  const auto rows = static_cast<int64_t>(order.last.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(spec, rows));
  std::vector<FrameLocation> frames(static_cast<size_t>(store.frames_per_row()));
  for (size_t i = 0; i < order.last.size(); ++i) {
    const RowSuccessor& last = order.last[i];
    if (!frames.empty()) store.LocateFrames(last, absl::MakeSpan(frames));
    for (int field = 0; field < spec->size(); ++field) {
      const int64_t bytes = spec->row_bytes(field);
      std::byte* const to = builder.view().raw_column(field) + static_cast<int64_t>(i) * bytes;
      if (store.IsStack(field)) {
        store.GatherStacks(field, frames, to);
      } else {
        std::memcpy(to, store.At(last.obs, field), static_cast<size_t>(bytes));
      }
    }
  }
  return std::move(builder).Seal(rows);
}

absl::StatusOr<SegmentBatch> Read(StateReader* reader) {
  ScopedStateReader store_reader(reader, "store");
  DING_ASSIGN_OR_RETURN(const SavedRowsHeader header, ReadSavedRowsHeader(&store_reader));
  if (header.rows == 0) return absl::InvalidArgumentError("the replay buffer has no rows");
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<RowStore> store,
                        RowStore::Load(&store_reader, {header.rows}));
  DING_RETURN_IF_ERROR(store->lost().why);
  DING_ASSIGN_OR_RETURN(Order order, OrderByEpisode(*store));
  SegmentBatch episodes;
  DING_ASSIGN_OR_RETURN(episodes.rows, CopyRowsOf(*store, order));
  DING_ASSIGN_OR_RETURN(episodes.final_obs, CopyFinalObsOf(*store, order));
  episodes.segments = std::move(order.segments);
  return episodes;
}

}  // namespace

absl::Status SaveData(const IBuffer& buffer, const std::string& path) {
  return WriteSafetensors(path, buffer.Snapshot(), /*metadata=*/{}, /*self_checked=*/true).status();
}

absl::Status LoadData(IBuffer* buffer, const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> reader,
                        SafetensorsReader::OpenSelfChecked(path));
  absl::Status status = buffer->LoadState(reader.get());
  // The file exists; a tensor that it lacks shows that something else wrote it.
  if (absl::IsNotFound(status)) status = absl::InvalidArgumentError(status.message());
  return Annotate(status, absl::StrCat("cannot load '", path, "'"));
}

absl::StatusOr<SegmentBatch> ReadSavedEpisodes(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t has_rows, reader->ReadInt("has_rows"));
  if (has_rows == 0) return absl::InvalidArgumentError("the replay buffer has no rows");
  absl::StatusOr<SegmentBatch> episodes = Read(reader);
  // It is a buffer; what it lacks shows that it is damaged.
  if (absl::IsNotFound(episodes.status())) {
    return absl::InvalidArgumentError(episodes.status().message());
  }
  return episodes;
}

}  // namespace ding
