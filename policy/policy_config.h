// What every policy's factory does with the shared part of its config: checks it, and turns it into
// the plain structs that classes take.
//
// Problems are collected, not returned one by one, so that a user sees all of them at once.
#ifndef DING_WORKER_POLICY_POLICY_CONFIG_H_
#define DING_WORKER_POLICY_POLICY_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// Appends a sentence for each field of `config` (besides `type` and `params`) that is out of range.
void AppendProblems(const PolicyConfig& config, std::vector<std::string>* problems);
// The same for a schedule; `field` is its name in messages: "eps".
void AppendProblems(const ScheduleConfig& config, absl::string_view field,
                    std::vector<std::string>* problems);

// Unpacks `config.params` into the algorithm's message; not set leaves `params` as it is.
// InvalidArgument if it holds another message, naming both.
absl::Status UnpackParams(const PolicyConfig& config, google::protobuf::Message* params);

CollectAttributes CollectAttributesFromConfig(const PolicyConfig& config);
LearnAttributes LearnAttributesFromConfig(const PolicyConfig& config);
Schedule ScheduleFromConfig(const ScheduleConfig& config);

}  // namespace ding

#endif  // DING_WORKER_POLICY_POLICY_CONFIG_H_
