// Helpers of the factories of serial collectors and evaluators.
//
// Threads: thread-safe.
#ifndef DING_WORKER_COLLECTOR_SERIAL_CONFIG_H_
#define DING_WORKER_COLLECTOR_SERIAL_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/evaluator/eval_core.h"
#include "ding_worker/collector/serial.pb.h"

namespace ding {

void ReadSerialCollectorOptions(const SerialCollectorConfig& config,
                                SerialCollectorOptions* options);

void ReadSerialEvaluatorOptions(const SerialEvaluatorConfig& config,
                                SerialEvaluatorOptions* options);

// Returns kInvalidArgument if there are `problems` of the config, and then lists those of the options, too, so
// that a user mends them in one go. Without problems of the config it is OK: Create() checks the options.
absl::Status SerialProblemsToStatus(std::vector<std::string> problems,
                                    const std::vector<std::string>& option_problems,
                                    absl::string_view where);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_CONFIG_H_
