#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

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
