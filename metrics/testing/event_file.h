// Reads the event files of TensorBoardSink with code that is independent of the sink.
#ifndef DING_WORKER_METRICS_TESTING_EVENT_FILE_H_
#define DING_WORKER_METRICS_TESTING_EVENT_FILE_H_

#include <string>
#include <vector>

#include "ding_worker/metrics/tensorboard.pb.h"

namespace ding {

// Returns all events of a file; the test fails if a checksum is wrong or the last record is torn.
std::vector<tensorboard::Event> ReadEvents(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_METRICS_TESTING_EVENT_FILE_H_
