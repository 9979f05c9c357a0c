#include "ding_worker/policy/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

double ValueAt(const std::vector<FieldSchedules::Phase>& phases, double step) {
  size_t phase = 0;
  while (phase + 1 < phases.size() && step >= phases[phase + 1].begin) ++phase;
  const FieldSchedules::Phase& current = phases[phase];
  return current.schedule->At(std::clamp(step - current.begin, 0.0, current.steps));
}

}  // namespace

double Schedule::At(double env_step) const {
  const double x = std::max(env_step, 0.0) / decay;
  const double rest = kind == ScheduleKind::kExp ? std::exp(-x) : std::max(1 - x, 0.0);
  return end + (start - end) * rest;
}

void FieldSchedules::Add(Field field) {
  DING_CHECK(!field.phases.empty());
  fields_.push_back(std::move(field));
}

void FieldSchedules::AddCollectSettings(const NamedValues& info, NamedValues* settings) const {
  AddSettings(/*collects=*/true, info, settings);
}

void FieldSchedules::AddLearnSettings(const NamedValues& info, NamedValues* settings) const {
  AddSettings(/*collects=*/false, info, settings);
}

void FieldSchedules::AddSettings(bool collects, const NamedValues& info,
                                 NamedValues* settings) const {
  for (const Field& field : fields_) {
    if (field.collects != collects) continue;
    const char* const name = field.by_env_steps ? kEnvStepProgress : kTrainIterProgress;
    settings->Set(field.setting, ValueAt(field.phases, info.GetOr(name, 0)));
  }
}

}  // namespace ding
