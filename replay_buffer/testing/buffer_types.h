// Every type of buffer, for tests that all of them must pass: made from a config by its factory, as
// a run makes it, so that a new type is one more line here.
//
//   INSTANTIATE_TEST_SUITE_P(Types, MyTest, testing::ValuesIn(BufferTypes()), NameOfBufferType);
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_TYPES_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_TYPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ding_worker/replay_buffer/testing/buffer_maker.h"
#include "gtest/gtest.h"

namespace ding {

struct BufferType {
  std::string name;  // of a test: letters and digits
  BufferMaker make;
  // count() and the size of a draw are in rows, and all rows can be drawn.
  bool of_rows;
  // A draw has priorities, and Update() checks what it is given.
  bool prioritized;
};

const std::vector<BufferType>& BufferTypes();

inline std::string NameOfBufferType(const testing::TestParamInfo<BufferType>& info) {
  return info.param.name;
}

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_TYPES_H_
