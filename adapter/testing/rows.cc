#include "ding_worker/adapter/testing/rows.h"

#include <numeric>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"

namespace ding {

std::string EncodedRows(int64_t begin, int64_t rows) {
  BatchBuilder builder =
      BatchBuilder::Create(MakeSpec({Scalar("row", DType::kInt64)}).value(), rows).value();
  std::iota(builder.column<int64_t>(0).begin(), builder.column<int64_t>(0).end(), begin);
  return EncodedBatch(std::move(builder).Seal(rows)).ToString();
}

std::optional<std::vector<int64_t>> RowsIn(const std::string& items) {
  const absl::StatusOr<Batch> batch = DecodeBatch(items);
  if (!batch.ok() || batch->spec().size() != 1 || batch->spec().field(0).dtype != DType::kInt64 ||
      !batch->spec().field(0).shape.empty()) {
    return std::nullopt;
  }
  const absl::Span<const int64_t> rows = batch->column<int64_t>(0);
  return std::vector<int64_t>(rows.begin(), rows.end());
}

}  // namespace ding
