// Reads PolicyConfig.schedule. A factory names the fields that may change:
//
//   options.schedules = CreateFieldSchedules(
//       config, {{"learning_rate", "lr", my.learning_rate()}}, &problems);
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_FIELD_SCHEDULES_CONFIG_H_
#define DING_WORKER_POLICY_FIELD_SCHEDULES_CONFIG_H_

#include <limits>
#include <string>
#include <vector>

#include "ding_worker/policy/field_schedules.h"
#include "ding_worker/policy/policy.pb.h"

namespace ding {

// A field that may change. Its values are in [least, most], and above `least` if `above` is set.
struct ChangingField {
  std::string field;      // its name in configs
  std::string setting;    // the setting that carries its value
  double value = 0;       // that of the config
  bool collects = false;  // whether the setting is one of the collect mode
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool above = false;
  // Fields that are set and change the same value, such as "lr_decay_env_steps"; empty: none. A schedule is then refused.
  std::string rival = {};
};

// Creates the schedules of `config`. Appends a problem for each that names none of `fields` or leaves the range of its
// field, never ends, or counts other steps than the one before.
FieldSchedules CreateFieldSchedules(const PolicyConfig& config,
                                    const std::vector<ChangingField>& fields,
                                    std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_POLICY_FIELD_SCHEDULES_CONFIG_H_
