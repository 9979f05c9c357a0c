// Helpers for factories of policies: they check the shared part of the config and convert it to plain
// structs.
//
// Problems are collected, so that a user sees all of them at once (base/problems.h).
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

// Whether a factory makes FieldSchedules (policy/field_schedules.h) of a config, which then finds their problems.
enum class TakesSchedules { kNo, kYes };

// Appends a problem for each field of `config`, except `type` and `params`, that is out of range. Schedules are
// refused unless the factory takes them.
void AppendProblems(const PolicyConfig& config, std::vector<std::string>* problems,
                    TakesSchedules takes_schedules = TakesSchedules::kNo);
// Likewise for a schedule; `field` is its name in messages, such as "eps".
void AppendProblems(const ScheduleConfig& config, absl::string_view field,
                    std::vector<std::string>* problems);

// Unpacks `config.params` into the algorithm's message; if it is not set, `params` is unchanged.
// kInvalidArgument, naming both types, if it is another message.
absl::Status UnpackParams(const PolicyConfig& config, google::protobuf::Message* params);

CollectAttributes CollectAttributesFromConfig(const PolicyConfig& config);
LearnAttributes LearnAttributesFromConfig(const PolicyConfig& config);
Schedule ScheduleFromConfig(const ScheduleConfig& config);

}  // namespace ding

#endif  // DING_WORKER_POLICY_POLICY_CONFIG_H_
