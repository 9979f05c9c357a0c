// Helpers of the factories of serial collectors and evaluators.
//
// Threads: thread-safe.
#ifndef DING_WORKER_COLLECTOR_SERIAL_CONFIG_H_
#define DING_WORKER_COLLECTOR_SERIAL_CONFIG_H_

#include <string>
#include <vector>

#include "ding_worker/collector/collect_core.h"
#include "ding_worker/collector/eval_core.h"
#include "ding_worker/collector/serial.pb.h"
#include "google/protobuf/message.h"

namespace ding {

void ReadSerialCollectorOptions(const SerialCollectorConfig& config,
                                SerialCollectorOptions* options);

void ReadSerialEvaluatorOptions(const SerialEvaluatorConfig& config,
                                SerialEvaluatorOptions* options);

// Reads the `params` of a SerialCollectorConfig or SerialEvaluatorConfig into `*params`, if they are set.
// A null `params` means that this type has none. Appends a problem if they do not fit.
template <typename Config>
void ReadSerialParams(const Config& config, google::protobuf::Message* params,
                      std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_CONFIG_H_
