#include "ding_worker/replay_buffer/storage/row_ring.h"

#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

SpecPtr NumberSpec() {
  return MakeSpec({Scalar("obs", DType::kInt64), Scalar("half", DType::kInt32)}).value();
}

// Rows with the numbers first, first + 1, ...
Batch Numbers(int64_t first, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(NumberSpec(), rows).value();
  for (int64_t i = 0; i < rows; ++i) {
    builder.column<int64_t>(0)[static_cast<size_t>(i)] = first + i;
    builder.column<int32_t>(1)[static_cast<size_t>(i)] = static_cast<int32_t>((first + i) / 2);
  }
  return std::move(builder).Seal(rows);
}

template <typename T>
T Value(const RowRing& ring, int64_t id, int field) {
  T value;
  std::memcpy(&value, ring.At(ring.Locate(id), field), sizeof(T));
  return value;
}

void Append(RowRing* ring, const Batch& rows) {
  const int64_t first_id = ring->end_id();
  ring->memory().Reclaim();
  ASSERT_THAT(ring->Reserve(first_id, rows.rows()), IsOk());
  ring->EvictBefore(first_id + rows.rows() - ring->capacity_rows());
  ring->Append(rows.rows());
  ring->CopyColumns(rows.view(), first_id);
}

TEST(RowRing, ForEachPieceSplitsAtBlockBoundaries) {
  const RowRing ring(NumberSpec(), 1, 32);  // Four rows per block.
  std::vector<std::vector<int64_t>> pieces;
  ring.ForEachPiece(2, 13, [&](int64_t first, int64_t rows) { pieces.push_back({first, rows}); });
  EXPECT_EQ(pieces, (std::vector<std::vector<int64_t>>{{2, 2}, {4, 4}, {8, 4}, {12, 1}}));
}

TEST(RowRing, StartAtDropsAllRowsAndSetsTheNextId) {
  RowRing ring(NumberSpec(), 1, 32);
  Append(&ring, Numbers(0, 30));
  ring.StartAt(1001);
  EXPECT_EQ(ring.size(), 0);
  Append(&ring, Numbers(7, 5));
  EXPECT_EQ(ring.begin_id(), 1001);
  EXPECT_EQ(ring.end_id(), 1006);
  EXPECT_EQ(Value<int64_t>(ring, 1001, 0), 7);
  EXPECT_EQ(Value<int64_t>(ring, 1005, 0), 11);
  EXPECT_DEATH(ring.StartAt(1005), "id 1005 was used");
}

TEST(RowRing, RandomPushesAgreeWithADeque) {
  Rng rng(5, "row_ring_test");
  for (const int64_t capacity : {1, 2, 7, 16, 100}) {
    RowRing ring(NumberSpec(), 1, capacity);
    std::deque<int64_t> model;
    int64_t next_number = 0;
    for (int step = 0; step < 300; ++step) {
      const auto rows = static_cast<int64_t>(1 + rng.UniformInt(static_cast<uint64_t>(capacity)));
      if (rng.UniformInt(10) == 0) {
        ring.EvictBefore(ring.end_id());
        model.clear();
      }
      Append(&ring, Numbers(next_number, rows));
      for (int64_t i = 0; i < rows; ++i) model.push_back(next_number++);
      while (static_cast<int64_t>(model.size()) > capacity) model.pop_front();
      ASSERT_EQ(ring.size(), static_cast<int64_t>(model.size()));
      for (size_t i = 0; i < model.size(); ++i) {
        const int64_t id = ring.begin_id() + static_cast<int64_t>(i);
        ASSERT_EQ(id, model[i]);
        ASSERT_EQ(Value<int64_t>(ring, id, 0), model[i]);
        ASSERT_EQ(Value<int32_t>(ring, id, 1), model[i] / 2);
      }
    }
    const RowLayout& layout = ring.layout();
    EXPECT_LE(ring.memory().allocated_bytes(),
              ((capacity >> layout.block_shift) + 2 + kMaxSpareBlocks) * layout.block_bytes);
  }
}

}  // namespace
}  // namespace ding
