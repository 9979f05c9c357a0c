// The fields of a policy that change in a run, as PolicyConfig.schedule says. A factory of a policy names the fields
// that may change; the command mode turns them into settings of the collect and learn modes:
//
//     PolicyConfig.schedule ──► FieldSchedules ── progress of the run ──► settings ("lr") ──► learn mode
//
// The values depend on the progress only, so a resumed run continues exactly.
//
// Example, in a factory whose learn mode reads the setting "lr":
//   options.schedules = FieldSchedules::Create(
//       config, {{"learning_rate", "lr", my.learning_rate()}}, &problems);
// and in the command mode:
//   NamedValues GetSettingLearn(const NamedValues& info) override {
//     NamedValues settings;
//     options_.schedules.AddLearnSettings(info, &settings);
//     return settings;
//   }
//
// Ownership: a value; copies share the schedules.   Threads: immutable, so thread-safe.
#ifndef DING_WORKER_POLICY_FIELD_SCHEDULES_H_
#define DING_WORKER_POLICY_FIELD_SCHEDULES_H_

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/schedule_registry.h"

namespace ding {

// Names of the progress of a run (CommandMode in policy/policy.h).
inline constexpr char kEnvStepProgress[] = "envstep";
inline constexpr char kTrainIterProgress[] = "learner_step";

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

class FieldSchedules {
 public:
  // No field changes.
  FieldSchedules() = default;

  // Creates the schedules of `config`. Appends a problem for each that names none of `fields` or leaves the range of
  // its field, never ends, or counts other steps than the one before.
  static FieldSchedules Create(const PolicyConfig& config, const std::vector<ChangingField>& fields,
                               std::vector<std::string>* problems);

  // Whether any field changes.
  bool changes() const { return !fields_.empty(); }

  // Set the settings of these modes for the progress `info` of the run.
  void AddCollectSettings(const NamedValues& info, NamedValues* settings) const;
  void AddLearnSettings(const NamedValues& info, NamedValues* settings) const;

 private:
  struct Phase {
    std::shared_ptr<const ISchedule> schedule;
    double begin = 0;  // steps before it
    double steps = 0;
  };
  struct Field {
    std::string setting;
    bool collects = false;
    FieldScheduleConfig::Unit unit = FieldScheduleConfig::ENV_STEP;
    std::vector<Phase> phases;  // at least one

    double At(double step) const;
  };

  void AddField(const PolicyConfig& config, const ChangingField& field,
                std::vector<std::string>* problems);
  void AddSettings(bool collects, const NamedValues& info, NamedValues* settings) const;

  std::vector<Field> fields_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_FIELD_SCHEDULES_H_
