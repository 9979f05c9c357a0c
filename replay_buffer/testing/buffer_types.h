// The list of all types of buffer, for tests that each of them must pass. A buffer is made from a
// config by its factory, as in a run, so a new type is one more line here.
//
//   INSTANTIATE_TEST_SUITE_P(Types, MyTest, testing::ValuesIn(BufferTypes()), NameOfBufferType);
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_TYPES_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_TYPES_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "gtest/gtest.h"

namespace ding {

struct BufferType {
  std::string name;  // for names of tests: letters and digits
  BufferMaker make;
  // Whether count() and the size of a draw are in rows, and all rows can be drawn.
  bool of_rows;
  // Whether a draw has priorities and Update() checks its argument.
  bool prioritized;

  friend void PrintTo(const BufferType& type, std::ostream* out) { *out << type.name; }
};

const std::vector<BufferType>& BufferTypes();

inline std::string NameOfBufferType(const testing::TestParamInfo<BufferType>& info) {
  return info.param.name;
}

// A check for tests of factories: the statistics of a buffer go to the sink of the run. Makes a
// buffer named "replay" from `config` with periodic_thruput_seconds = 3, pushes one row and draws
// it three times. Checks that the number of draws is reported when those seconds are over, not a
// millisecond sooner. Returns the sink, so that a test can look for further metrics.
std::shared_ptr<RecordingSink> ExpectThruputReport(BufferConfig config);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_TYPES_H_
