// Copies and compares single frames of a stack. The stack is a row of a field with a
// FieldSpec::frame_stack_axis; a frame is a dense array:
//
//     shape [3, K, 84], axis 1         stack  [ a0 b0 c0 | a1 b1 c1 | a2 b2 c2 ]    K = 3: a, b, c
//                                      frame  [ a0 a1 a2 ]                          a is the oldest
//
// Frames are numbered from 0, the oldest, to frames() - 1.
//
// Threads: thread-compatible; a value type.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_FRAME_STACK_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_FRAME_STACK_H_

#include <cstddef>
#include <cstdint>

#include "ding_worker/data/spec.h"

namespace ding {

class FrameStack {
 public:
  // `field` has a frame_stack_axis.
  explicit FrameStack(const FieldSpec& field);

  int frames() const { return frames_; }
  int64_t frame_bytes() const { return outer_ * inner_bytes_; }

  // Copies frame `index` out of, or into, `stack`.
  void CopyOut(const std::byte* stack, int index, std::byte* frame) const;
  void CopyIn(const std::byte* frame, int index, std::byte* stack) const;
  // Whether frame `index` of `stack` equals `frame` byte for byte.
  bool Holds(const std::byte* stack, int index, const std::byte* frame) const;
  // Whether `next` is `stack` shifted by one frame: it begins with all frames of `stack` except the
  // oldest. Its newest frame may be anything.
  bool GoesOn(const std::byte* stack, const std::byte* next) const;

 private:
  int64_t outer_ = 1;        // elements before the axis
  int64_t inner_bytes_ = 1;  // bytes of the elements after it
  int frames_ = 1;
};

// Returns the shape of one frame: that of the field without the axis.
Shape FrameShape(const FieldSpec& field);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_FRAME_STACK_H_
