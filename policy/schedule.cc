#include "ding_worker/policy/schedule.h"

#include <algorithm>
#include <cmath>

namespace ding {

double Schedule::At(double env_step) const {
  const double x = std::max(env_step, 0.0) / decay;
  const double rest = kind == ScheduleKind::kExp ? std::exp(-x) : std::max(1 - x, 0.0);
  return end + (start - end) * rest;
}

}  // namespace ding
