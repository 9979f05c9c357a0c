// A value that changes with the env steps of a run, such as epsilon.
//
//   kExp     end + (start - end) exp(-x / decay)
//   kLinear  end + (start - end) (1 - x / decay) up to x = decay, then end
//
// x is the number of env steps collected so far; a negative x (not known yet) counts as 0. The formulas
// depend on x only, so a resumed run needs no state of the schedule.
//
// Ownership: Schedule is a value.   Threads: immutable.
#ifndef DING_WORKER_POLICY_SCHEDULE_H_
#define DING_WORKER_POLICY_SCHEDULE_H_

namespace ding {

enum class ScheduleKind { kExp, kLinear };

struct Schedule {
  ScheduleKind kind = ScheduleKind::kExp;
  double start = 0.95;
  double end = 0.1;
  double decay = 10000;  // env steps, above 0

  double At(double env_step) const;
};

// A value over the steps since the schedule began, of any kind (policy/schedule_registry.h). Immutable.
class ISchedule {
 public:
  virtual ~ISchedule() = default;
  // Returns the value after x steps; x is in [0, steps].
  virtual double At(double x) const = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_SCHEDULE_H_
