#include "ding_worker/replay_buffer/storage/frame_store.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/linked_rows.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kCapacity = 64;
constexpr int kFrames = 2;  // field obs/frames
constexpr int kStrip = 3;   // field obs/strip

class FrameStoreTest : public testing::Test {
 protected:
  FrameStoreTest() : rows_(TestStreams::RowSpec(true), 4, kCapacity), frames_(&rows_) {}

  // Pushes at most as many rows as the capacity. Returns the slots that the push took for older
  // frames.
  int64_t Push(const SegmentBatch& data) {
    const int64_t first_id = rows_.end_id();
    const int64_t first_kept = first_id + data.size() - kCapacity;
    rows_.memory().Reclaim();
    frames_.Plan(data, 0, first_kept > rows_.begin_id() ? first_kept : rows_.begin_id());
    const int64_t slots = frames_.slots_planned();
    EXPECT_THAT(
        rows_.Reserve(first_id, data.size(), static_cast<int64_t>(data.segments.size()) + slots),
        IsOk());
    frames_.CutBefore(first_kept);
    rows_.EvictBefore(first_kept);
    rows_.Append(data.rows.view());
    frames_.Append(data.rows.view());
    for (size_t i = 0; i < data.segments.size(); ++i) {
      const int64_t id = first_id + data.segments[i].begin;
      const auto row = static_cast<int64_t>(i);
      const ColumnsView final_obs = data.final_obs.view();
      frames_.LinkSegment(id, rows_.LinkSegment(data.segments[i], id, final_obs, row), final_obs,
                          row);
    }
    frames_.KeepOlderFrames(data.rows.view(), first_id);
    return slots;
  }

  std::string Stack(int field, absl::Span<const FrameLocation> frames) const {
    std::string bytes(static_cast<size_t>(rows_.spec()->row_bytes(field)), 0);
    frames_.Gather(field, frames, reinterpret_cast<std::byte*>(&bytes[0]));
    return bytes;
  }
  std::string StackOf(int64_t id, int field) const {
    std::vector<FrameLocation> frames(static_cast<size_t>(frames_.frames_per_row()));
    frames_.Locate(id, absl::MakeSpan(frames));
    return Stack(field, frames);
  }
  std::string StackAfter(int64_t id, int field) const {
    std::vector<FrameLocation> frames(static_cast<size_t>(frames_.frames_per_row()));
    frames_.Locate(rows_.Next(id), absl::MakeSpan(frames));
    return Stack(field, frames);
  }

  TestStreams streams_{0, true};
  LinkedRows rows_;
  FrameStore frames_;
};

std::string BytesOf(const ColumnsView& rows, int64_t row, int field) {
  const int64_t bytes = rows.spec().row_bytes(field);
  return std::string(reinterpret_cast<const char*>(rows.raw_column(field)) + row * bytes,
                     static_cast<size_t>(bytes));
}

TEST_F(FrameStoreTest, FramesPerRowIsThatOfTheLongestStack) {
  EXPECT_EQ(frames_.frames_per_row(), 4);
  LinkedRows without_stacks(TestStreams::RowSpec(), 2, kCapacity);
  EXPECT_EQ(FrameStore(&without_stacks).frames_per_row(), 0);
}

TEST_F(FrameStoreTest, OnlyStacksThatAreNotShiftedTakeSlots) {
  EXPECT_EQ(Push(streams_.Make({{0, 3}, {1, 2}})), 2);  // The first row of each.
  EXPECT_EQ(Push(streams_.Make({{0, 1}, {1, 1}})), 0);
  streams_.Skip(1, 1);
  EXPECT_EQ(Push(streams_.Make({{1, 1}})), 1);  // After a lost step.
}

// The model keeps whole stacks.
TEST_F(FrameStoreTest, StacksAreReturnedByteForByte) {
  struct Row {
    std::string frames;
    std::string strip;
  };
  std::deque<Row> model;
  Rng rng(13, "frame_store_test");
  for (int push = 0; push < 300; ++push) {
    if (push % 40 == 39) {
      frames_.CutAll();
      rows_.EvictBefore(rows_.end_id());
      model.clear();
    }
    const SegmentBatch data = RandomPush(&streams_, &rng, 12);
    const int64_t first_id = rows_.end_id();
    Push(data);
    const ColumnsView pushed = data.rows.view();
    for (int64_t row = 0; row < pushed.rows(); ++row) {
      model.push_back({BytesOf(pushed, row, kFrames), BytesOf(pushed, row, kStrip)});
    }
    while (static_cast<int64_t>(model.size()) > kCapacity) model.pop_front();
    ASSERT_EQ(rows_.size(), static_cast<int64_t>(model.size()));
    for (int64_t id = rows_.begin_id(); id < rows_.end_id(); ++id) {
      const Row& expected = model[static_cast<size_t>(id - rows_.begin_id())];
      ASSERT_EQ(StackOf(id, kFrames), expected.frames) << "row " << id;
      ASSERT_EQ(StackOf(id, kStrip), expected.strip) << "row " << id;
    }
    for (size_t i = 0; i < data.segments.size(); ++i) {
      const Segment& segment = data.segments[i];
      const int64_t last = first_id + segment.begin + segment.length - 1;
      if (rows_.Next(last).id >= 0) continue;  // A later segment of the push goes on.
      const auto row = static_cast<int64_t>(i);
      ASSERT_EQ(StackAfter(last, kFrames), BytesOf(data.final_obs.view(), row, kFrames));
      ASSERT_EQ(StackAfter(last, kStrip), BytesOf(data.final_obs.view(), row, kStrip));
    }
  }
  // The slots that evicted rows and cuts had taken were given back.
  EXPECT_LT(rows_.memory().slots(), 8 * kCapacity);
}

}  // namespace
}  // namespace ding
