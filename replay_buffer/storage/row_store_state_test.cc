#include "ding_worker/replay_buffer/storage/row_store_state.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

TensorMap Written(const StateSnapshot& snapshot) {
  StateDict state;
  EXPECT_THAT(snapshot(&state), IsOk());
  return state.tensors();
}

TEST(RowStoreState, HeaderHasSpecAndRowsOfTheStore) {
  const auto store = RowStore::Create(TestStreams::RowSpec(), 2, {4}).value();
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 6}})), IsOk());
  StateDict state(Written(store->Snapshot()), "test");
  DING_ASSERT_OK_AND_ASSIGN(const SavedRowsHeader header, ReadSavedRowsHeader(&state));
  EXPECT_EQ(*header.spec, *TestStreams::RowSpec());
  EXPECT_EQ(header.obs_fields, 2);
  EXPECT_EQ(header.rows, 4);
  EXPECT_EQ(header.begin_id, 2);
  EXPECT_THAT(RowStore::Load(&state, RowCapacity{3}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("saved number of rows is 4, expected 0 to 3")));
}

// Each of these values would lead a later eviction or draw to a place that holds nothing.
TEST(RowStoreState, RefusesInconsistentLinks) {
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

// Links to other rows are shared with the store; all other links are copies of that moment.
TEST(RowStoreState, SnapshotDoesNotSeeLaterPushes) {
  // The store has blocks of 512 rows.
  const auto store = RowStore::Create(TestStreams::RowSpec(), 2, {4096}).value();
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 700}, {1, 300, SegmentEnd::kTerminated}, {2, 600}})),
              IsOk());
  for (int i = 0; i < 300; ++i) {  // In these blocks every other row ends an episode.
    ASSERT_THAT(store->Append(streams.Make({{3, 2, SegmentEnd::kTruncated}})), IsOk());
  }
  const StateSnapshot snapshot = store->Snapshot();
  const TensorMap at_the_moment = Written(snapshot);
  ASSERT_THAT(store->Append(streams.Make({{0, 10}, {1, 10}, {2, 10}, {3, 10}})), IsOk());
  EXPECT_TRUE(SameBytes(Written(snapshot), at_the_moment));
  EXPECT_FALSE(SameBytes(Written(store->Snapshot()), at_the_moment));

  StateDict state(at_the_moment, "test");
  DING_ASSERT_OK_AND_ASSIGN(const auto loaded, RowStore::Load(&state, RowCapacity{4096}));
  EXPECT_TRUE(SameBytes(Written(loaded->Snapshot()), at_the_moment));
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
