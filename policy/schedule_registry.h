// The registry of schedules: how a field of a policy changes during a run.
//
// A schedule goes from `start` to `end` within `steps` steps; x is the number of steps since it
// began.
//
//   type         value
//   linear       end + (start - end) (1 - x / steps)
//   cosine       end + (start - end) (1 + cos(pi x / steps)) / 2     (Loshchilov and Hutter 2017, eq. 5)
//   exponential  start (end / start)^(x / steps); both are above 0
//   step         start while x is below steps, then end
//   constant     start
//   warm_up      as linear; by default from 0 to the value of the field
//
// These types are linked with the registry. Values depend only on x, so a resumed run needs no
// state of a schedule.
//
// Example of your own schedule, `policy { schedule { field: "learning_rate" type: "square_root"
// steps: 100000 } }`:
//
//   class SquareRoot : public ISchedule {
//    public:
//     explicit SquareRoot(const ScheduleRange& range) : range_(range) {}
//     double At(double x) const override {
//       return range_.end + (range_.start - range_.end) * (1 - std::sqrt(x / range_.steps));
//     }
//
//    private:
//     const ScheduleRange range_;
//   };
//   DING_REGISTER(
//       ScheduleRegistry(), "square_root",
//       [](const FieldScheduleConfig&, const NoParams&, const ScheduleRange& range) {
//         return std::make_unique<SquareRoot>(range);
//       },
//       "falls fast at first");
//
// Threads: thread-safe; schedules are immutable.
#ifndef DING_WORKER_POLICY_SCHEDULE_REGISTRY_H_
#define DING_WORKER_POLICY_SCHEDULE_REGISTRY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// The range that a config asks for, with all defaults filled in; the numbers are finite, and
// `steps` is above 0.
struct ScheduleRange {
  double start = 0;
  double end = 0;
  double steps = 1;
};

// Schedules (base/module.h).
using ScheduleFactory =
    Module<std::unique_ptr<ISchedule>, FieldScheduleConfig, const ScheduleRange&>;
ModuleRegistry<ScheduleFactory>& ScheduleRegistry();

// The values from which RangeOf() takes the defaults of `start` and `end`.
struct ScheduleDefaults {
  double field = 0;     // the value of the field in the config
  double previous = 0;  // the last value of the previous schedule; `field` if there is none
};

// Returns the range of `config`. Type "warm_up" has other defaults than the other types.
//   kInvalidArgument  a number is not finite, or `steps` is not set or not above 0
absl::StatusOr<ScheduleRange> RangeOf(const FieldScheduleConfig& config,
                                      const ScheduleDefaults& defaults);

// Creates the schedule that `config` names, with the errors of ModuleRegistry::Create().
inline absl::StatusOr<std::unique_ptr<ISchedule>> create_schedule(const FieldScheduleConfig& config,
                                                                  const ScheduleRange& range) {
  return ScheduleRegistry().Create(config, range);
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_SCHEDULE_REGISTRY_H_
