#include "ding_worker/replay_buffer/storage/frame_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/linked_rows.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

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

FieldSpec Stacked(DType dtype, Shape shape, int axis) {
  FieldSpec field = Scalar("obs", dtype);
  field.shape = std::move(shape);
  field.frame_stack_axis = axis;
  return field;
}

template <typename T>
std::byte* Bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// Returns frame `index` of a stack with the elements 0, 1, 2, ...
template <typename T>
std::vector<T> FrameOfACountingStack(const FieldSpec& field, int index) {
  std::vector<T> stack(static_cast<size_t>(field.num_elements()));
  for (size_t i = 0; i < stack.size(); ++i) stack[i] = static_cast<T>(i);
  const FrameStack frames(field);
  std::vector<T> frame(static_cast<size_t>(frames.frame_bytes()) / sizeof(T));
  frames.CopyOut(Bytes(stack), index, Bytes(frame));
  EXPECT_TRUE(frames.Holds(Bytes(stack), index, Bytes(frame)));
  std::vector<T> other(stack.size(), T{77});
  frames.CopyIn(Bytes(frame), index, Bytes(other));
  EXPECT_TRUE(frames.Holds(Bytes(other), index, Bytes(frame)));
  EXPECT_EQ(std::count(other.begin(), other.end(), T{77}), stack.size() - frame.size());
  frame.back() += 1;
  EXPECT_FALSE(frames.Holds(Bytes(stack), index, Bytes(frame)));
  frame.back() -= 1;
  return frame;
}

TEST(FrameStack, CopiesFramesAlongAnyAxis) {
  const FieldSpec first = Stacked(DType::kUint8, {2, 3}, 0);
  EXPECT_THAT(FrameOfACountingStack<uint8_t>(first, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(FrameOfACountingStack<uint8_t>(first, 1), ElementsAre(3, 4, 5));
  const FieldSpec middle = Stacked(DType::kFloat32, {2, 3, 2}, 1);
  EXPECT_THAT(FrameOfACountingStack<float>(middle, 1), ElementsAre(2, 3, 8, 9));
  const FieldSpec last = Stacked(DType::kFloat32, {2, 3}, 1);
  EXPECT_THAT(FrameOfACountingStack<float>(last, 2), ElementsAre(2, 5));
  const FieldSpec bytes = Stacked(DType::kUint8, {2, 2, 3}, 2);
  EXPECT_THAT(FrameOfACountingStack<uint8_t>(bytes, 1), ElementsAre(1, 4, 7, 10));
}

TEST(FrameStack, GoesOnIfTheStackIsShiftedByOneFrame) {
  std::vector<uint8_t> stack = {1, 2, 3, 11, 12, 13};  // Frames {1, 11}, {2, 12}, {3, 13}.
  const FrameStack frames(Stacked(DType::kUint8, {2, 3}, 1));
  std::vector<uint8_t> next = {2, 3, 4, 12, 13, 14};
  EXPECT_TRUE(frames.GoesOn(Bytes(stack), Bytes(next)));
  for (const size_t changed : {0, 1, 3, 4}) {
    std::vector<uint8_t> other = next;
    other[changed] = 99;
    EXPECT_FALSE(frames.GoesOn(Bytes(stack), Bytes(other))) << changed;
  }
  next[2] = 99;
  next[5] = 99;
  EXPECT_TRUE(frames.GoesOn(Bytes(stack), Bytes(next)));
}

TEST(FrameStack, FrameShapeOmitsTheStackAxis) {
  EXPECT_THAT(FrameShape(Stacked(DType::kUint8, {4, 84, 84}, 0)), ElementsAre(84, 84));
  EXPECT_THAT(FrameShape(Stacked(DType::kUint8, {84, 85, 4}, 2)), ElementsAre(84, 85));
  EXPECT_THAT(FrameShape(Stacked(DType::kFloat32, {4}, 0)), ElementsAre());
}

}  // namespace
}  // namespace ding
