// The command mode of a policy whose other modes need the settings of its schedules, if there are any, and no others; and the
// names of such settings that several algorithms read.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_SCHEDULED_SETTINGS_H_
#define DING_WORKER_POLICY_SCHEDULED_SETTINGS_H_

#include <utility>

#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/field_schedules.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Settings of a learn mode: learning rates of actor, critics and temperature, and the entropy that the temperature is
// learned for.
inline constexpr char kActorRate[] = "actor_learning_rate";
inline constexpr char kCriticRate[] = "critic_learning_rate";
inline constexpr char kAlphaRate[] = "alpha_learning_rate";
inline constexpr char kTargetEntropy[] = "target_entropy";

class ScheduledSettings : public CommandMode {
 public:
  explicit ScheduledSettings(FieldSchedules schedules = {}) : schedules_(std::move(schedules)) {}

  NamedValues GetSettingCollect(const NamedValues& info) override {
    NamedValues settings;
    schedules_.AddCollectSettings(info, &settings);
    return settings;
  }
  NamedValues GetSettingLearn(const NamedValues& info) override {
    NamedValues settings;
    schedules_.AddLearnSettings(info, &settings);
    return settings;
  }

 private:
  const FieldSchedules schedules_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_SCHEDULED_SETTINGS_H_
