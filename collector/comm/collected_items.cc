#include "ding_worker/collector/comm/collected_items.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

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

}  // namespace

absl::StatusOr<SpecPtr> ItemsOf(const Spec& rows) {
  std::vector<FieldSpec> fields = {Scalar(kColumnChunk, DType::kInt64),
                                   Scalar(kColumnRow, DType::kInt64),
                                   Scalar(kColumnLength, DType::kInt64)};
  for (const int field : KnownFields(rows)) fields.push_back(rows.field(field));
  return MakeSpec(std::move(fields));
}

absl::StatusOr<std::string> EncodeItems(const SegmentBatch& data, int64_t chunk) {
  const std::vector<int> known = KnownFields(data.rows.spec());
  DING_ASSIGN_OR_RETURN(SpecPtr spec, ItemsOf(data.rows.spec()));
  DING_ASSIGN_OR_RETURN(BatchBuilder items, BatchBuilder::Create(std::move(spec), data.size()));
  const absl::Span<int64_t> chunks = items.column<int64_t>(0);
  const absl::Span<int64_t> rows = items.column<int64_t>(1);
  const absl::Span<int64_t> lengths = items.column<int64_t>(2);
  std::fill(chunks.begin(), chunks.end(), chunk);
  std::iota(rows.begin(), rows.end(), 0);
  std::fill(lengths.begin(), lengths.end(), 1);
  for (size_t i = 0; i < known.size(); ++i) {
    std::memcpy(items.view().raw_column(3 + static_cast<int>(i)),
                data.rows.view().raw_column(known[i]),
                static_cast<size_t>(data.size() * data.rows.spec().row_bytes(known[i])));
  }
  return EncodedBatch(std::move(items).Seal(data.size())).ToString();
}

}  // namespace ding
