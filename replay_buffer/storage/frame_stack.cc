#include "ding_worker/replay_buffer/storage/frame_stack.h"

#include <cstring>

#include "ding_worker/base/check.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

// Copies `count` pieces of `bytes` bytes. The strides are the bytes from one piece to the next.
void CopyPieces(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
                int64_t bytes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(bytes));
  }
}

// Copies pieces of one common size with that size as a constant, so that the compiler makes each
// copy a single move: stacks along the last axis have pieces of one element.
void CopyStrided(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
                 int64_t bytes, int64_t count) {
  switch (bytes) {
    case 1:
      return CopyPieces(from, from_stride, to, to_stride, 1, count);
    case 4:
      return CopyPieces(from, from_stride, to, to_stride, 4, count);
    default:
      return CopyPieces(from, from_stride, to, to_stride, bytes, count);
  }
}

}  // namespace

FrameStack::FrameStack(const FieldSpec& field) {
  DING_CHECK(field.frame_stack_axis >= 0) << "field '" << field.name << "' stacks no frames";
  const auto axis = static_cast<size_t>(field.frame_stack_axis);
  inner_bytes_ = SizeOf(field.dtype);
  for (size_t i = 0; i < field.shape.size(); ++i) {
    if (i < axis) outer_ *= field.shape[i];
    if (i > axis) inner_bytes_ *= field.shape[i];
  }
  frames_ = static_cast<int>(field.shape[axis]);
}

void FrameStack::CopyOut(const std::byte* stack, int index, std::byte* frame) const {
  CopyStrided(stack + index * inner_bytes_, frames_ * inner_bytes_, frame, inner_bytes_,
              inner_bytes_, outer_);
}

void FrameStack::CopyIn(const std::byte* frame, int index, std::byte* stack) const {
  CopyStrided(frame, inner_bytes_, stack + index * inner_bytes_, frames_ * inner_bytes_,
              inner_bytes_, outer_);
}

bool FrameStack::Holds(const std::byte* stack, int index, const std::byte* frame) const {
  stack += index * inner_bytes_;
  for (int64_t i = 0; i < outer_; ++i) {
    if (std::memcmp(stack + i * frames_ * inner_bytes_, frame + i * inner_bytes_,
                    static_cast<size_t>(inner_bytes_)) != 0) {
      return false;
    }
  }
  return true;
}

bool FrameStack::GoesOn(const std::byte* stack, const std::byte* next) const {
  const int64_t bytes = frames_ * inner_bytes_;
  for (int64_t i = 0; i < outer_; ++i) {
    if (std::memcmp(stack + i * bytes + inner_bytes_, next + i * bytes,
                    static_cast<size_t>(bytes - inner_bytes_)) != 0) {
      return false;
    }
  }
  return true;
}

Shape FrameShape(const FieldSpec& field) {
  Shape shape = field.shape;
  shape.erase(shape.begin() + field.frame_stack_axis);
  return shape;
}

}  // namespace ding
