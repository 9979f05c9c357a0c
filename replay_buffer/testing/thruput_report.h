// A check for tests of buffer factories: the statistics of a buffer go to the sink of the run.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_THRUPUT_REPORT_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_THRUPUT_REPORT_H_

#include <memory>

#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/buffer.pb.h"

namespace ding {

// Makes a buffer named "replay" from `config` with periodic_thruput_seconds = 3, pushes one row and draws it
// three times. Checks that the number of draws is reported when those seconds are over, not a millisecond
// sooner. Returns the sink, so that a test can look for further metrics.
std::shared_ptr<RecordingSink> ExpectThruputReport(BufferConfig config);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_THRUPUT_REPORT_H_
