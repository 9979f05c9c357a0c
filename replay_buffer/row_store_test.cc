#include "ding_worker/replay_buffer/row_store.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<RowStore> Make(int64_t capacity_rows) {
  return RowStore::Create(TestStreams::RowSpec(), 2, capacity_rows).value();
}

// {stream, step, episode, steps into it} at a place of the store.
std::vector<float> Place(const RowStore& store, const RowLocation& at) {
  std::vector<float> place(4);
  std::memcpy(place.data(), store.At(at, 0), 16);
  return place;
}

int64_t ColumnBytes() { return TestStreams::RowSpec()->row_bytes(); }

TEST(RowStore, CapacityOutsideTheRangeIsRefused) {
  EXPECT_THAT(RowStore::Create(TestStreams::RowSpec(), 2, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("capacity of 0 rows")));
  EXPECT_THAT(RowStore::Create(TestStreams::RowSpec(), 2, RowStore::kMaxCapacityRows + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 1 to 536870912")));
}

TEST(RowStore, OneRowSegmentsOfInterleavedStreamsAreLinked) {
  const auto store = Make(100);
  TestStreams streams(5);
  ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1, 1}})), IsOk());
  EXPECT_EQ(store->Next(0).id, -1);
  EXPECT_EQ(store->Next(0).end, SegmentEnd::kCut);
  EXPECT_THAT(Place(*store, store->Next(0).obs), ElementsAre(0, 6, 0, 1));
  ASSERT_THAT(store->Append(streams.Make({{1, 1, SegmentEnd::kTruncated}, {0, 1}})), IsOk());
  EXPECT_EQ(store->Next(0).id, 3);
  EXPECT_THAT(Place(*store, store->Next(0).obs), ElementsAre(0, 6, 0, 1));
  EXPECT_EQ(store->Next(1).id, 2);
  EXPECT_EQ(store->Next(2).id, -1);
  EXPECT_EQ(store->Next(2).end, SegmentEnd::kTruncated);
  // The next episode is not linked to the one before, whose final observation stays.
  ASSERT_THAT(store->Append(streams.Make({{1, 1}})), IsOk());
  EXPECT_EQ(store->Next(2).id, -1);
  EXPECT_THAT(Place(*store, store->Next(2).obs), ElementsAre(1, 7, 0, 2));
  EXPECT_THAT(Place(*store, store->Locate(4)), ElementsAre(1, 7, 1, 0));
}

TEST(RowStore, AStreamThatLostStepsIsNotLinked) {
  const auto store = Make(100);
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 2}})), IsOk());
  streams.Skip(0, 1);
  ASSERT_THAT(store->Append(streams.Make({{0, 2}})), IsOk());
  EXPECT_EQ(store->Next(1).id, -1);
  EXPECT_THAT(Place(*store, store->Next(1).obs), ElementsAre(0, 2, 0, 2));
  EXPECT_EQ(store->Next(2).id, 3);
}

TEST(RowStore, ARowWhoseStreamGoesOnAfterItIsEvictedLeavesNoLink) {
  const auto store = Make(4);
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1, 4}})), IsOk());
  EXPECT_EQ(store->begin_id(), 1);
  ASSERT_THAT(store->Append(streams.Make({{0, 1}})), IsOk());
  EXPECT_EQ(store->Next(4).id, -1);
  EXPECT_EQ(store->Next(5).id, -1);
  EXPECT_THAT(Place(*store, store->Next(5).obs), ElementsAre(0, 2, 0, 2));
}

TEST(RowStore, OfAPushLargerThanTheStoreTheNewestRowsAreKept) {
  const auto store = Make(10);
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 7}})), IsOk());
  ASSERT_THAT(store->Append(streams.Make({{1, 5}, {0, 100}, {2, 3}})), IsOk());
  EXPECT_EQ(store->begin_id(), 105);
  EXPECT_EQ(store->end_id(), 115);
  EXPECT_THAT(Place(*store, store->Locate(105)), ElementsAre(0, 100, 0, 100));
  EXPECT_EQ(store->Next(105).id, 106);
  EXPECT_EQ(store->Next(111).id, -1);
  ASSERT_THAT(store->Append(streams.Make({{1, 1}, {0, 1}})), IsOk());
  EXPECT_EQ(store->Next(111).id, 116);
  EXPECT_EQ(store->Next(115).id, -1);
}

// What a reader has found stays as it is while it is pinned, whatever is evicted, linked or
// cleared.
TEST(RowStore, PinnedRowsAreNotOverwritten) {
  const auto store = Make(16);
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1, 15}})), IsOk());
  RowPin pin = store->Pin();
  const RowLocation row = store->Locate(0);
  const RowLocation after = store->Next(0).obs;
  for (int i = 0; i < 50; ++i) {
    ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1, 3, SegmentEnd::kTerminated}})), IsOk());
    EXPECT_THAT(Place(*store, row), ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(Place(*store, after), ElementsAre(0, 1, 0, 1));
  }
  store->EvictBefore(store->end_id());
  ASSERT_THAT(store->Append(streams.Make({{0, 16}})), IsOk());
  EXPECT_THAT(Place(*store, row), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Place(*store, after), ElementsAre(0, 1, 0, 1));
}

TEST(RowStore, WhatPinsHeldBackIsUsedAgain) {
  const auto store = Make(16);
  TestStreams streams;
  const auto push = [&] {
    ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1, 3, SegmentEnd::kTerminated}})), IsOk());
  };
  for (int i = 0; i < 20; ++i) push();
  const int64_t quiet = store->allocated_bytes();
  {
    // Overlapping readers: there is always one, but none stays.
    std::optional<RowPin> pins[2];
    for (int i = 0; i < 1000; ++i) {
      pins[i % 2].emplace(store->Pin());
      push();
    }
    EXPECT_LT(store->allocated_bytes(), 3 * quiet);
    for (int i = 0; i < 100; ++i) push();  // Now both stay.
    EXPECT_GT(store->allocated_bytes(), 3 * quiet);
  }
  push();
  // Side blocks stay for the next peak.
  const int64_t after = store->allocated_bytes();
  for (int i = 0; i < 1000; ++i) push();
  EXPECT_EQ(store->allocated_bytes(), after);
}

TEST(RowStore, BytesPerRowAreThoseOfTheColumnsAndSixteenAtMost) {
  constexpr int64_t kCapacity = 50000;
  const auto store = Make(kCapacity);
  TestStreams streams;
  EXPECT_EQ(store->allocated_bytes(), 0);  // Nothing before the first row.
  for (int64_t rows = 0; rows < 3 * kCapacity; rows += 800) {
    std::vector<SegmentPlan> plans(8);
    for (int64_t s = 0; s < 8; ++s) {
      plans[s] = {s, 100, rows % 1600 == 0 ? SegmentEnd::kCut : SegmentEnd::kTerminated};
    }
    ASSERT_THAT(store->Append(streams.Make(plans)), IsOk());
  }
  // A chunk is at most an eighth of the store: a part of one at each end, two spare.
  const int64_t chunk = kCapacity / 8 * (ColumnBytes() + 16);
  EXPECT_LE(store->allocated_bytes(), kCapacity * (ColumnBytes() + 16) + 4 * chunk);
}

// Streams that are gone cost nothing: each of these sends one row and never comes back.
TEST(RowStore, StreamsThatAreGoneAreForgotten) {
  const auto store = Make(64);
  TestStreams streams;
  int64_t early = 0;
  for (int64_t stream = 0; stream < 20000; ++stream) {
    ASSERT_THAT(store->Append(streams.Make({{stream, 1}})), IsOk());
    if (stream == 200) early = store->allocated_bytes();
  }
  EXPECT_EQ(store->allocated_bytes(), early);
  EXPECT_EQ(store->open_streams(), 64);
  store->EvictBefore(store->end_id());
  EXPECT_EQ(store->open_streams(), 0);
}

TEST(RowStore, OtherFieldsAreRefusedByName) {
  const auto store = Make(64);
  TestStreams streams;
  SegmentBatch push = streams.Make({{0, 1}});
  EXPECT_THAT(store->CheckLayout(push, "main"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr one, MakeSpec({Box("obs/place", {4})}));
  DING_ASSERT_OK_AND_ASSIGN(BatchBuilder final_obs, BatchBuilder::Create(one, 1));
  push.final_obs = std::move(final_obs).Seal(1);
  EXPECT_THAT(store->CheckLayout(push, "main"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("main: final_obs has 1 fields, expected 2")));
}

// Links that lead on are shared with the store, all others are those of the moment.
TEST(RowStore, ASnapshotHasTheLinksOfItsMoment) {
  const auto store = Make(4096);  // Chunks of 512 rows.
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 700}, {1, 300, SegmentEnd::kTerminated}, {2, 600}})),
              IsOk());
  for (int i = 0; i < 300; ++i) {  // Chunks of which every other row ends an episode.
    ASSERT_THAT(store->Append(streams.Make({{3, 2, SegmentEnd::kTruncated}})), IsOk());
  }
  const auto written = [](const StateSnapshot& snapshot) {
    StateDict state;
    EXPECT_THAT(snapshot(&state), IsOk());
    return state.tensors();
  };
  const StateSnapshot snapshot = store->Snapshot();
  const TensorMap at_the_moment = written(snapshot);
  ASSERT_THAT(store->Append(streams.Make({{0, 10}, {1, 10}, {2, 10}, {3, 10}})), IsOk());
  EXPECT_TRUE(SameBytes(written(snapshot), at_the_moment));
  EXPECT_FALSE(SameBytes(written(store->Snapshot()), at_the_moment));

  StateDict state(at_the_moment, "test");
  DING_ASSERT_OK_AND_ASSIGN(const auto loaded, RowStore::Load(&state, 4096));
  EXPECT_TRUE(SameBytes(written(loaded->Snapshot()), at_the_moment));
  EXPECT_EQ(loaded->Next(699).end, SegmentEnd::kCut);
  EXPECT_EQ(loaded->Next(699).id, -1);
  EXPECT_EQ(store->Next(699).id, 2200);
  EXPECT_EQ(loaded->Next(999).end, SegmentEnd::kTerminated);
  EXPECT_EQ(loaded->Next(1601).end, SegmentEnd::kTruncated);
  EXPECT_EQ(loaded->Next(1602).id, 1603);
  // The stream goes on where the saved one stopped.
  EXPECT_EQ(loaded->open_streams(), 2);
}

}  // namespace
}  // namespace ding
