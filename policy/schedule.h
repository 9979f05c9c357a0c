// Values that change in a run: one schedule, and the fields of a policy that follow schedules.
#ifndef DING_WORKER_POLICY_SCHEDULE_H_
#define DING_WORKER_POLICY_SCHEDULE_H_

#include <memory>
#include <string>
#include <vector>

#include "ding_worker/data/named_values.h"

namespace ding {

enum class ScheduleKind { kExp, kLinear };

// A value that changes with the env steps of a run, such as epsilon.
//
//   kExp     end + (start - end) exp(-x / decay)
//   kLinear  end + (start - end) (1 - x / decay) up to x = decay, then end
//
// x is the number of env steps collected so far; a negative x (not known yet) counts as 0. The
// formulas depend on x only, so a resumed run needs no state of the schedule.
//
// Ownership: a value.   Threads: immutable.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kExp;
  double start = 0.95;
  double end = 0.1;
  double decay = 10000;  // env steps, above 0

  double At(double env_step) const;
};

// A value over the steps since the schedule began, of any kind (policy/schedule_registry.h).
// Immutable.
class ISchedule {
 public:
  virtual ~ISchedule() = default;
  // Returns the value after x steps; x is in [0, steps].
  virtual double At(double x) const = 0;
};

// Names of the progress of a run (CommandMode in policy/policy.h).
inline constexpr char kEnvStepProgress[] = "envstep";
inline constexpr char kTrainIterProgress[] = "learner_step";

// The fields of a policy that change in a run, as PolicyConfig.schedule says. A factory of a policy
// makes them (policy/policy_config.h); the command mode turns them into settings of the collect and
// learn modes:
//
//     PolicyConfig.schedule ──► FieldSchedules ── progress of the run ──► settings ("lr") ──► learn mode
//
// The values depend on the progress only, so a resumed run continues exactly.
//
// Example, in the command mode of a policy whose learn mode reads the setting "lr":
//   NamedValues GetSettingLearn(const NamedValues& info) override {
//     NamedValues settings;
//     options_.schedules.AddLearnSettings(info, &settings);
//     return settings;
//   }
//
// Ownership: a value; copies share the schedules.   Threads: thread-compatible.
class FieldSchedules {
 public:
  struct Phase {
    std::shared_ptr<const ISchedule> schedule;
    double begin = 0;  // steps of the run before the phase
    double steps = 0;  // length of the phase
  };
  // A field that changes: one phase after the other, then the last value of the last phase.
  struct Field {
    std::string setting;        // the setting that carries its value
    bool collects = false;      // whether it is a setting of the collect mode
    bool by_env_steps = true;   // else by learner steps
    std::vector<Phase> phases;  // at least one
  };

  // Adds a field. No field changes at first.
  void Add(Field field);

  // Whether any field changes.
  bool changes() const { return !fields_.empty(); }

  // Set the settings of these modes for the progress `info` of the run.
  void AddCollectSettings(const NamedValues& info, NamedValues* settings) const;
  void AddLearnSettings(const NamedValues& info, NamedValues* settings) const;

 private:
  void AddSettings(bool collects, const NamedValues& info, NamedValues* settings) const;

  std::vector<Field> fields_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_SCHEDULE_H_
