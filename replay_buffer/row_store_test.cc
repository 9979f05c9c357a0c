#include "ding_worker/replay_buffer/row_store.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/row_layout.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<RowStore> Make(int64_t capacity_rows) {
  return RowStore::Create(TestStreams::RowSpec(), 2, {capacity_rows}).value();
}

// {stream, step, episode, steps into it} at a place of the store.
std::vector<float> Place(const RowStore& store, const RowLocation& at) {
  std::vector<float> place(4);
  std::memcpy(place.data(), store.At(at, 0), 16);
  return place;
}

int64_t ColumnBytes() { return TestStreams::RowSpec()->row_bytes(); }

TEST(RowStore, CapacityOutsideTheRangeIsRefused) {
  EXPECT_THAT(RowStore::Create(TestStreams::RowSpec(), 2, {0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("capacity of 0 rows")));
  EXPECT_THAT(RowStore::Create(TestStreams::RowSpec(), 2, {kMaxCapacityRows + 1}),
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
  store->Clear();
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
  // A block is at most an eighth of the store: a part of one at each end, two spare.
  const int64_t block = kCapacity / 8 * (ColumnBytes() + 16);
  EXPECT_LE(store->allocated_bytes(), kCapacity * (ColumnBytes() + 16) + 4 * block);
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
  store->Clear();
  EXPECT_EQ(store->open_streams(), 0);
}

// `rows` rows of `streams` streams, all of empty frames: stacks that always go on.
SegmentBatch EmptyFrames(int64_t step, int64_t streams, int64_t rows) {
  FieldSpec obs = Scalar("obs", DType::kUint8);
  obs.shape = {4, 16, 16};
  obs.frame_stack_axis = 0;
  const SpecPtr spec = MakeSpec({obs, Scalar("reward", DType::kFloat32)}).value();
  const auto zeros = [](const SpecPtr& of, int64_t count) {
    BatchBuilder builder = BatchBuilder::Create(of, count).value();
    for (int i = 0; i < of->size(); ++i) {
      std::memset(builder.view().raw_column(i), 0, static_cast<size_t>(count * of->row_bytes(i)));
    }
    return std::move(builder).Seal(count);
  };
  SegmentBatch data;
  data.rows = zeros(spec, rows);
  data.final_obs = zeros(MakeSpec({obs}).value(), streams);
  const int64_t length = rows / streams;
  for (int64_t s = 0; s < streams; ++s) {
    data.segments.push_back({s, step, s * length, length, SegmentEnd::kCut});
  }
  return data;
}

TEST(RowStore, OfAStackARowTakesTheNewestFrame) {
  constexpr int64_t kCapacity = 20000;
  constexpr int64_t kRowBytes = 256 + 4 + 16;
  const SpecPtr spec = EmptyFrames(0, 1, 1).rows.spec_ptr();
  const auto store = RowStore::Create(spec, 1, {kCapacity}).value();
  for (int64_t step = 0; step < 20000; step += 100) {
    ASSERT_THAT(store->Append(EmptyFrames(step, 4, 400)), IsOk());
  }
  // A block and a side block are at most an eighth of the store, and here not more than 1 MB: a
  // part of a block at each end, two spare, one block for the streams that go on.
  EXPECT_LE(store->allocated_bytes(), kCapacity * kRowBytes + 5 * (int64_t{1} << 20));
}

// Slots of rows with stacks of their own go with their rows, whatever happens to those.
TEST(RowStore, StacksThatDoNotGoOnLeaveNothingBehind) {
  const auto store = RowStore::Create(TestStreams::RowSpec(true), 4, {64}).value();
  TestStreams streams(0, true);
  int64_t early = 0;
  for (int round = 0; round < 3000; ++round) {
    // Some streams pause for long; now and then a push is larger than the store.
    ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1 + round / 40 % 3, 2}, {9, 1}})), IsOk());
    if (round % 7 == 0) {
      ASSERT_THAT(store->Append(streams.Make({{5, 2, SegmentEnd::kTerminated}, {5, 3}})), IsOk());
    }
    if (round % 50 == 49) {
      ASSERT_THAT(store->Append(streams.Make({{7, 100}})), IsOk());
    }
    if (round % 9 == 8) {
      store->Clear();
      ASSERT_THAT(store->Append(streams.Make({{1, 2}})), IsOk());
      ASSERT_THAT(store->Append(streams.Make({{7, 65}})), IsOk());
    }
    if (round == 300) early = store->allocated_bytes();
  }
  EXPECT_LE(store->allocated_bytes(), 2 * early);
}

// Each of these would lead a later eviction or a draw to where nothing is.
TEST(RowStore, SavedLinksThatDoNotAgreeAreRefused) {
  const auto store = RowStore::Create(TestStreams::RowSpec(true), 4, {64}).value();
  TestStreams streams(0, true);
  for (int i = 0; i < 3; ++i) ASSERT_THAT(store->Append(streams.Make({{0, 2}, {1, 2}})), IsOk());
  const auto load = [&store](const std::string& name, size_t index, int64_t value) {
    StateDict saved;
    EXPECT_THAT(store->Snapshot()(&saved), IsOk());
    TensorMap damaged;
    for (const auto& [key, tensor] : saved.tensors()) damaged.Set(key, tensor.Clone());
    Tensor* const victim = damaged.FindMutable(name);
    // Little endian: an int32 is the first half of the int64.
    const auto bytes = static_cast<size_t>(SizeOf(victim->dtype()));
    std::memcpy(victim->raw_data() + index * bytes, &value, bytes);
    StateDict state(damaged, "test");
    return RowStore::Load(&state, {64}).status();
  };
  // Rows 0 1 | 2 3 | 4 5 | ...: row 4 follows row 1 of stream 0.
  EXPECT_THAT(load("previous", 4, 3), IsOk());
  for (const int64_t wrong : {0, 1, 2, 4, 5, -1, -2, -100}) {
    EXPECT_THAT(load("previous", 4, wrong),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("saved previous ", wrong, " of row 4"))));
  }
  EXPECT_THAT(load("previous", 0, -2), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(load("open_tails", 1, 11), IsOk());
  EXPECT_THAT(load("open_tails", 1, 9),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("saved row 9 cannot be the newest of stream 1")));
}

TEST(RowStore, AByteBudgetIsUsedAndKept) {
  const SpecPtr stacks = EmptyFrames(0, 1, 1).rows.spec_ptr();
  for (int64_t bytes = 1500; bytes < 40'000'000; bytes = bytes * 5 / 3) {
    SCOPED_TRACE(absl::StrCat(bytes, " bytes"));
    for (const int64_t owner_bytes : {0, 14}) {
      const auto store = RowStore::Create(stacks, 1, {0, bytes, owner_bytes}).value();
      const int64_t capacity = store->capacity_rows();
      EXPECT_GE(capacity, 1);
      // Of small stores the blocks' alignment is a good part, of others the spare blocks.
      if (bytes > 100000) {
        EXPECT_GT(capacity * (256 + 4 + 8 + owner_bytes), bytes / 3 * 2);
      }
      int64_t most = 0;
      for (int64_t step = 0; step < 3 * capacity; step += 1 + capacity / 7) {
        ASSERT_THAT(store->Append(EmptyFrames(step, 1, 1 + capacity / 7)), IsOk());
        most = std::max(most, store->allocated_bytes());
      }
      EXPECT_EQ(store->size(), capacity);
      const int64_t side_block = int64_t{1} << 20;
      EXPECT_LE(most + capacity * owner_bytes, bytes + side_block);
    }
  }
  EXPECT_THAT(RowStore::Create(stacks, 1, {0, 1151, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("capacity of 1151 bytes holds no row: one takes 3 blocks (2 of "
                                 "them spare) of 448 bytes + 0 bytes = 1344 bytes")));
  EXPECT_THAT(RowStore::Create(stacks, 1, {0, int64_t{1} << 50}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("capacity of 1125899906842624 bytes = 1125899.9 GB is more than "
                                 "this machine's memory of")));
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
  const auto store = Make(4096);  // Blocks of 512 rows.
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 700}, {1, 300, SegmentEnd::kTerminated}, {2, 600}})),
              IsOk());
  for (int i = 0; i < 300; ++i) {  // Blocks of which every other row ends an episode.
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
  DING_ASSERT_OK_AND_ASSIGN(const auto loaded, RowStore::Load(&state, RowCapacity{4096}));
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
