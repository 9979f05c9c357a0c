#include "ding_worker/replay_buffer/storage/linked_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

// {stream, step, episode, steps into the episode}
using Place = std::vector<float>;

class LinkedRowsTest : public testing::Test {
 protected:
  explicit LinkedRowsTest(int64_t capacity_rows = 100)
      : rows_(TestStreams::RowSpec(), 2, capacity_rows) {}

  // Pushes at most as many rows as the capacity.
  void Push(const SegmentBatch& data) {
    const int64_t first_id = rows_.end_id();
    rows_.memory().Reclaim();
    ASSERT_THAT(rows_.Reserve(first_id, data.size(), static_cast<int64_t>(data.segments.size())),
                IsOk());
    rows_.EvictBefore(first_id + data.size() - rows_.capacity_rows());
    rows_.Append(data.rows.view());
    for (size_t i = 0; i < data.segments.size(); ++i) {
      const Segment& segment = data.segments[i];
      rows_.LinkSegment(segment, first_id + segment.begin, data.final_obs.view(),
                        static_cast<int64_t>(i));
    }
  }
  void Push(const std::vector<SegmentPlan>& plans) { Push(streams_.Make(plans)); }

  Place At(const RowLocation& location) const {
    Place place(4);
    std::memcpy(place.data(), rows_.At(location, 0), 16);
    return place;
  }

  TestStreams streams_;
  LinkedRows rows_;
};

TEST_F(LinkedRowsTest, OneRowSegmentsOfInterleavedStreamsAreLinked) {
  Push({{0, 1}, {1, 1}});
  EXPECT_EQ(rows_.Next(0).id, -1);
  EXPECT_EQ(rows_.Next(0).end, SegmentEnd::kCut);
  EXPECT_THAT(At(rows_.Next(0).obs), ElementsAre(0, 1, 0, 1));
  Push({{1, 1, SegmentEnd::kTruncated}, {0, 1}});
  EXPECT_EQ(rows_.Next(0).id, 3);
  EXPECT_THAT(At(rows_.Next(0).obs), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(rows_.Next(1).id, 2);
  EXPECT_EQ(rows_.Next(2).id, -1);
  EXPECT_EQ(rows_.Next(2).end, SegmentEnd::kTruncated);
  // The next episode is not linked to the previous one, which keeps its final observation.
  Push({{1, 1}});
  EXPECT_EQ(rows_.Next(2).id, -1);
  EXPECT_THAT(At(rows_.Next(2).obs), ElementsAre(1, 2, 0, 2));
  EXPECT_THAT(At(rows_.Locate(4)), ElementsAre(1, 2, 1, 0));
}

TEST_F(LinkedRowsTest, RowsAreNotLinkedAcrossLostSteps) {
  Push({{0, 2}});
  streams_.Skip(0, 1);
  Push({{0, 2}});
  EXPECT_EQ(rows_.Next(1).id, -1);
  EXPECT_THAT(At(rows_.Next(1).obs), ElementsAre(0, 2, 0, 2));
  EXPECT_EQ(rows_.Next(2).id, 3);
}

class FourLinkedRowsTest : public LinkedRowsTest {
 protected:
  FourLinkedRowsTest() : LinkedRowsTest(4) {}
};

TEST_F(FourLinkedRowsTest, EvictedRowIsNotLinkedWhenItsStreamGoesOn) {
  Push({{0, 1}});
  Push({{1, 4}});
  EXPECT_EQ(rows_.begin_id(), 1);
  Push({{0, 1}});
  EXPECT_EQ(rows_.Next(4).id, -1);
  EXPECT_EQ(rows_.Next(5).id, -1);
  EXPECT_THAT(At(rows_.Next(5).obs), ElementsAre(0, 2, 0, 2));
}

// Each stream sends one row and never another, and must not cost memory after its row is evicted.
TEST_F(LinkedRowsTest, StreamsWithoutValidRowsAreForgotten) {
  int64_t early = 0;
  for (int64_t stream = 0; stream < 20000; ++stream) {
    Push({{stream, 1}});
    if (stream == 200) early = rows_.memory().allocated_bytes();
  }
  EXPECT_EQ(rows_.memory().allocated_bytes(), early);
  EXPECT_EQ(rows_.open_streams(), 100);
  EXPECT_EQ(rows_.TailOf(3), nullptr);
  ASSERT_NE(rows_.TailOf(19999), nullptr);
  EXPECT_EQ(rows_.TailOf(19999)->row, 19999);
  rows_.EvictBefore(rows_.end_id());
  EXPECT_EQ(rows_.open_streams(), 0);
}

// The model searches for the successor of a row by the definition in the header.
TEST_F(LinkedRowsTest, LinksAgreeWithALinearSearch) {
  struct Row {
    int64_t id;
    int64_t stream;
    int64_t step;
    SegmentEnd end;
  };
  std::deque<Row> model;
  Rng rng(11, "linked_rows_test");
  for (int push = 0; push < 500; ++push) {
    const SegmentBatch data = RandomPush(&streams_, &rng, 12);
    const int64_t first_id = rows_.end_id();
    Push(data);
    for (const Segment& segment : data.segments) {
      for (int64_t i = 0; i < segment.length; ++i) {
        model.push_back({first_id + segment.begin + i, segment.stream, segment.first_step + i,
                         i + 1 < segment.length ? SegmentEnd::kCut : segment.end});
      }
    }
    while (model.size() > 100) model.pop_front();
    ASSERT_EQ(model.front().id, rows_.begin_id());
    for (auto row = model.begin(); row != model.end(); ++row) {
      const auto next = std::find_if(
          row + 1, model.end(), [row](const Row& other) { return other.stream == row->stream; });
      const bool goes_on =
          row->end == SegmentEnd::kCut && next != model.end() && next->step == row->step + 1;
      const RowSuccessor found = rows_.Next(row->id);
      ASSERT_EQ(found.id, goes_on ? next->id : -1);
      ASSERT_EQ(found.end, row->end);
      const Place after = At(found.obs);
      ASSERT_EQ(after[0], static_cast<float>(row->stream));
      ASSERT_EQ(after[1], static_cast<float>(row->step + 1));
    }
  }
}

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
T Value(const LinkedRows& rows, int64_t id, int field) {
  T value;
  std::memcpy(&value, rows.At(rows.Locate(id), field), sizeof(T));
  return value;
}

void Append(LinkedRows* rows, const Batch& batch) {
  const int64_t first_id = rows->end_id();
  rows->memory().Reclaim();
  ASSERT_THAT(rows->Reserve(first_id, batch.rows(), /*slots=*/0), IsOk());
  rows->EvictBefore(first_id + batch.rows() - rows->capacity_rows());
  rows->Append(batch.view());
}

TEST(LinkedRows, ForEachPieceSplitsAtBlockBoundaries) {
  const LinkedRows rows(NumberSpec(), 1, 32);  // Four rows per block.
  std::vector<std::vector<int64_t>> pieces;
  rows.ForEachPiece(2, 13, [&](int64_t first, int64_t rows) { pieces.push_back({first, rows}); });
  EXPECT_EQ(pieces, (std::vector<std::vector<int64_t>>{{2, 2}, {4, 4}, {8, 4}, {12, 1}}));
}

TEST(LinkedRows, StartAtDropsAllRowsAndSetsTheNextId) {
  LinkedRows rows(NumberSpec(), 1, 32);
  Append(&rows, Numbers(0, 30));
  rows.StartAt(1001);
  EXPECT_EQ(rows.size(), 0);
  Append(&rows, Numbers(7, 5));
  EXPECT_EQ(rows.begin_id(), 1001);
  EXPECT_EQ(rows.end_id(), 1006);
  EXPECT_EQ(Value<int64_t>(rows, 1001, 0), 7);
  EXPECT_EQ(Value<int64_t>(rows, 1005, 0), 11);
  EXPECT_DEATH(rows.StartAt(1005), "id 1005 was used");
}

TEST(LinkedRows, RandomPushesAgreeWithADeque) {
  Rng rng(5, "row_ring_test");
  for (const int64_t capacity : {1, 2, 7, 16, 100}) {
    LinkedRows rows(NumberSpec(), 1, capacity);
    std::deque<int64_t> model;
    int64_t next_number = 0;
    for (int step = 0; step < 300; ++step) {
      const auto pushed = static_cast<int64_t>(1 + rng.UniformInt(static_cast<uint64_t>(capacity)));
      if (rng.UniformInt(10) == 0) {
        rows.EvictBefore(rows.end_id());
        model.clear();
      }
      Append(&rows, Numbers(next_number, pushed));
      for (int64_t i = 0; i < pushed; ++i) model.push_back(next_number++);
      while (static_cast<int64_t>(model.size()) > capacity) model.pop_front();
      ASSERT_EQ(rows.size(), static_cast<int64_t>(model.size()));
      for (size_t i = 0; i < model.size(); ++i) {
        const int64_t id = rows.begin_id() + static_cast<int64_t>(i);
        ASSERT_EQ(id, model[i]);
        ASSERT_EQ(Value<int64_t>(rows, id, 0), model[i]);
        ASSERT_EQ(Value<int32_t>(rows, id, 1), model[i] / 2);
      }
    }
    const RowLayout& layout = rows.layout();
    EXPECT_LE(rows.memory().allocated_bytes(),
              ((capacity >> layout.block_shift) + 2 + kMaxSpareBlocks) * layout.block_bytes);
  }
}

}  // namespace
}  // namespace ding
