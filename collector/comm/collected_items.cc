#include "ding_worker/collector/comm/collected_items.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"

namespace ding {
namespace {

// Fields of the rows that their items have, too.
std::vector<int> KnownFields(const Spec& rows) {
  std::vector<int> known;
  for (const char* const column : {kColumnCollectIter, kColumnPriority}) {
    const std::optional<int> field = rows.Find(column);
    if (field.has_value()) known.push_back(*field);
  }
  return known;
}

struct Place {
  int64_t row;
  int64_t length;
};

absl::StatusOr<std::vector<Place>> EpisodesOf(const SegmentBatch& data) {
  std::vector<Place> places;
  places.reserve(data.segments.size());
  for (const Segment& segment : data.segments) {
    if (segment.end == SegmentEnd::kCut) {
      return absl::InvalidArgumentError(absl::StrCat(
          "segment ", places.size(), " of ", data.segments.size(), ", of ", segment.length,
          " rows, ends within its episode (kCut), expected a whole episode: what is handed over is "
          "learned from as whole episodes; policy.collect.n_episode collects these"));
    }
    places.push_back({segment.begin, segment.length});
  }
  return places;
}

absl::StatusOr<std::vector<Place>> PlacesOf(const SegmentBatch& data,
                                            const ItemSequences& sequences) {
  if (sequences.whole_episodes) return EpisodesOf(data);
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(data.size() / sequences.period()));
  for (const Segment& segment : data.segments) {
    int64_t first = 0;
    for (; first + sequences.length <= segment.length; first += sequences.period()) {
      places.push_back({segment.begin + first, sequences.length});
    }
    if (!sequences.padding) continue;
    const int64_t rest = segment.length - first;
    // The rows of the rest that the last sequence has, too.
    const int64_t known = first == 0 ? 0 : sequences.overlap;
    if (rest > std::max(known, sequences.burn_in)) places.push_back({segment.begin + first, rest});
  }
  return places;
}

}  // namespace

absl::StatusOr<SpecPtr> ItemsOf(const Spec& rows) {
  std::vector<FieldSpec> fields = {Scalar(kColumnChunk, DType::kInt64),
                                   Scalar(kColumnRow, DType::kInt64),
                                   Scalar(kColumnLength, DType::kInt64)};
  for (const int field : KnownFields(rows)) fields.push_back(rows.field(field));
  return MakeSpec(std::move(fields));
}

absl::StatusOr<std::string> EncodeItems(const SegmentBatch& data, int64_t chunk,
                                        const ItemSequences& sequences) {
  DING_ASSIGN_OR_RETURN(const std::vector<Place> places, PlacesOf(data, sequences));
  if (places.empty()) return std::string();
  const auto count = static_cast<int64_t>(places.size());
  const std::vector<int> known = KnownFields(data.rows.spec());
  DING_ASSIGN_OR_RETURN(SpecPtr spec, ItemsOf(data.rows.spec()));
  DING_ASSIGN_OR_RETURN(BatchBuilder items, BatchBuilder::Create(std::move(spec), count));
  const absl::Span<int64_t> chunks = items.column<int64_t>(0);
  const absl::Span<int64_t> rows = items.column<int64_t>(1);
  const absl::Span<int64_t> lengths = items.column<int64_t>(2);
  for (size_t i = 0; i < places.size(); ++i) {
    chunks[i] = chunk;
    rows[i] = places[i].row;
    lengths[i] = places[i].length;
  }
  for (size_t field = 0; field < known.size(); ++field) {
    const auto bytes = static_cast<size_t>(data.rows.spec().row_bytes(known[field]));
    std::byte* const to = items.view().raw_column(3 + static_cast<int>(field));
    const std::byte* const from = data.rows.view().raw_column(known[field]);
    if (sequences.single_rows()) {  // The items are all rows, in their order.
      std::memcpy(to, from, places.size() * bytes);
      continue;
    }
    for (size_t i = 0; i < places.size(); ++i) {
      std::memcpy(to + i * bytes, from + static_cast<size_t>(places[i].row) * bytes, bytes);
    }
  }
  return EncodedBatch(std::move(items).Seal(count)).ToString();
}

}  // namespace ding
