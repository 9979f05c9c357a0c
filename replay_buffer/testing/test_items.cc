#include "ding_worker/replay_buffer/testing/test_items.h"

#include <utility>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

const SpecPtr& ItemSpec() {
  static const auto* const spec = new SpecPtr(
      MakeSpec({Scalar("chunk", DType::kInt64), Scalar("row", DType::kInt64),
                Scalar("length", DType::kInt64), Scalar("collect_iter", DType::kInt64),
                Scalar("priority", DType::kFloat32), Scalar("collector", DType::kInt32)})
          .value());
  return *spec;
}

}  // namespace

SegmentBatch TestItems(const std::vector<Item>& items, int64_t collect_iter) {
  const auto size = static_cast<int64_t>(items.size());
  BatchBuilder rows = BatchBuilder::Create(ItemSpec(), size).value();
  for (size_t i = 0; i < items.size(); ++i) {
    rows.column<int64_t>(0)[i] = items[i].chunk;
    rows.column<int64_t>(1)[i] = items[i].row;
    rows.column<int64_t>(2)[i] = items[i].length;
    rows.column<int64_t>(3)[i] = collect_iter;
    rows.column<float>(4)[i] = 1;
    rows.column<int32_t>(5)[i] = static_cast<int32_t>(items[i].chunk % 10);
  }
  return MakeItems(std::move(rows).Seal(size)).value();
}

SegmentBatch TestItemsOfChunk(int64_t chunk, int64_t items, int64_t collect_iter) {
  std::vector<Item> made;
  for (int64_t i = 0; i < items; ++i) made.push_back({chunk, 4 * i, 4});
  return TestItems(made, collect_iter);
}

}  // namespace ding
