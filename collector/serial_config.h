// For factories of serial collectors and evaluators: they read the config into the options of the building
// blocks (collector/core/collect_core.h, collector/evaluator/eval_core.h). Fields of the config that a type has of
// its own are in its `params`.
//
// Threads: thread-safe.
// Errors:  what is wrong is added to a list of problems, which Create() of the building blocks reports together
//          with the others.
//
// Example, of a type "mine" with the message MyParams:
//   MyParams params;
//   CollectCore::Options options;
//   ReadSerialCollectorOptions(config, &options.common);
//   ReadParams(config, &params, &options.problems);
//   DING_ASSIGN_OR_RETURN(auto core, CollectCore::Create(options, env, PoliciesOf(policy), deps));
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

// Copies the fields that all types have; those that are not set keep their default.
void ReadSerialCollectorOptions(const SerialCollectorConfig& config,
                                SerialCollectorOptions* options);

void ReadSerialEvaluatorOptions(const SerialEvaluatorConfig& config,
                                SerialEvaluatorOptions* options);

// For a type whose Create() does not take problems of the config: returns kInvalidArgument if there are `problems`
// of the config, and then lists those of the options, too, so that a user mends them in one go. Without problems
// of the config it is OK: Create() checks the options. `where` is the name of the component.
absl::Status SerialProblemsToStatus(std::vector<std::string> problems,
                                    const std::vector<std::string>& option_problems,
                                    absl::string_view where);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_CONFIG_H_
