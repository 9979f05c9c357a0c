#include "ding_worker/replay_buffer/storage/linked_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/storage/row_ring.h"
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
    RowRing& ring = rows_.ring();
    const int64_t first_id = ring.end_id();
    ring.memory().Reclaim();
    ASSERT_THAT(rows_.Reserve(first_id, data.size(), static_cast<int64_t>(data.segments.size())),
                IsOk());
    rows_.EvictBefore(first_id + data.size() - ring.capacity_rows());
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
    std::memcpy(place.data(), rows_.ring().At(location, 0), 16);
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
  EXPECT_THAT(At(rows_.ring().Locate(4)), ElementsAre(1, 2, 1, 0));
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
  EXPECT_EQ(rows_.ring().begin_id(), 1);
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
    if (stream == 200) early = rows_.ring().memory().allocated_bytes();
  }
  EXPECT_EQ(rows_.ring().memory().allocated_bytes(), early);
  EXPECT_EQ(rows_.open_streams(), 100);
  EXPECT_EQ(rows_.TailOf(3), nullptr);
  ASSERT_NE(rows_.TailOf(19999), nullptr);
  EXPECT_EQ(rows_.TailOf(19999)->row, 19999);
  rows_.EvictBefore(rows_.ring().end_id());
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
    const int64_t first_id = rows_.ring().end_id();
    Push(data);
    for (const Segment& segment : data.segments) {
      for (int64_t i = 0; i < segment.length; ++i) {
        model.push_back({first_id + segment.begin + i, segment.stream, segment.first_step + i,
                         i + 1 < segment.length ? SegmentEnd::kCut : segment.end});
      }
    }
    while (model.size() > 100) model.pop_front();
    ASSERT_EQ(model.front().id, rows_.ring().begin_id());
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

}  // namespace
}  // namespace ding
