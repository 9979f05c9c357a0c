// Helpers for factories of policies: they check the shared part of the config and convert it to
// plain structs.
//
// Problems are collected, so that a user sees all of them at once (base/problems.h).
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_POLICY_CONFIG_H_
#define DING_WORKER_POLICY_POLICY_CONFIG_H_

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// Whether a factory makes FieldSchedules (policy/schedule.h) of a config, which then finds their
// problems.
enum class TakesSchedules { kNo, kYes };

// Appends a problem for each field of `config`, except `type` and `params`, that is out of range.
// Schedules are refused unless the factory takes them.
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

// A field that may change. Its values are in [least, most], and above `least` if `above` is set.
struct ChangingField {
  std::string field;      // its name in configs
  std::string setting;    // the setting that carries its value
  double value = 0;       // that of the config
  bool collects = false;  // whether the setting is one of the collect mode
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool above = false;
  // Fields that are set and change the same value, such as "lr_decay_env_steps"; empty: none. A
  // schedule is then refused.
  std::string rival = {};
};

// Creates the schedules of `config`; a factory names the fields that may change:
//
//   options.schedules = CreateFieldSchedules(
//       config, {{"learning_rate", "lr", my.learning_rate()}}, &problems);
//
// Appends a problem for each schedule that names none of `fields` or leaves the range of its field,
// never ends, or counts other steps than the one before.
FieldSchedules CreateFieldSchedules(const PolicyConfig& config,
                                    const std::vector<ChangingField>& fields,
                                    std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_POLICY_POLICY_CONFIG_H_
