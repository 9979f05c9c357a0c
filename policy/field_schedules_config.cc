#include "ding_worker/policy/field_schedules_config.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/schedule_registry.h"

namespace ding {
namespace {

// A schedule is tried at so many places before a run begins.
constexpr int kTries = 1024;

std::string NameOf(FieldScheduleConfig::Unit unit) { return FieldScheduleConfig::Unit_Name(unit); }

std::string RangeText(const ChangingField& field) {
  const std::string least = absl::StrCat(field.above ? "above " : "at least ", field.least);
  const bool bounded_below = std::isfinite(field.least);
  if (std::isinf(field.most)) return bounded_below ? least : "finite";
  return absl::StrCat("in ", field.above ? "(" : "[", field.least, ", ", field.most, "]");
}

// Refuses values that the field cannot have.
absl::Status CheckValues(const ISchedule& schedule, double steps, const ChangingField& field) {
  for (int i = 0; i <= kTries; ++i) {
    const double x = i == kTries ? steps : steps * i / kTries;
    const double value = schedule.At(x);
    const bool low = field.above ? !(value > field.least) : !(value >= field.least);
    if (std::isfinite(value) && !low && value <= field.most) continue;
    return absl::InvalidArgumentError(absl::StrCat("its value after ", x, " of ", steps,
                                                   " steps is ", value, ", but ", field.field,
                                                   " must be ", RangeText(field)));
  }
  return absl::OkStatus();
}

// Creates a schedule and checks it.
absl::StatusOr<std::shared_ptr<const ISchedule>> CreateChecked(const FieldScheduleConfig& config,
                                                               const ScheduleRange& range,
                                                               const ChangingField& field) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const ISchedule> schedule, create_schedule(config, range));
  DING_RETURN_IF_ERROR(CheckValues(*schedule, range.steps, field));
  return schedule;
}

// Adds the schedules of one field, if there are any.
void AddField(const PolicyConfig& config, const ChangingField& field,
              std::vector<std::string>* problems, FieldSchedules* schedules) {
  FieldSchedules::Field made;
  made.setting = field.setting;
  made.collects = field.collects;
  FieldScheduleConfig::Unit unit = FieldScheduleConfig::ENV_STEP;
  double begin = 0;
  double previous = field.value;
  for (int i = 0; i < config.schedule_size(); ++i) {
    const FieldScheduleConfig& schedule = config.schedule(i);
    if (schedule.field() != field.field) continue;
    const auto refuse = [&, i](absl::string_view text) {
      problems->push_back(
          absl::StrCat("schedule[", i, "], '", schedule.type(), "' of ", field.field, ": ", text));
    };
    if (made.phases.empty()) {
      unit = schedule.unit();
      if (!field.rival.empty()) {
        refuse(absl::StrCat(field.rival, " changes ", field.field, ", too: expected one of them"));
      }
    } else if (unit != schedule.unit()) {
      refuse(absl::StrCat("its unit is ", NameOf(schedule.unit()),
                          ", expected that of the schedule before, ", NameOf(unit)));
    }
    const absl::StatusOr<ScheduleRange> range = RangeOf(schedule, {field.value, previous});
    if (!range.ok()) {
      refuse(range.status().message());
      return;
    }
    auto checked = CreateChecked(schedule, *range, field);
    if (!checked.ok()) {
      refuse(checked.status().message());
      return;
    }
    previous = (*checked)->At(range->steps);
    made.phases.push_back({*std::move(checked), begin, range->steps});
    begin += range->steps;
  }
  if (made.phases.empty()) return;
  made.by_env_steps = unit == FieldScheduleConfig::ENV_STEP;
  schedules->Add(std::move(made));
}

}  // namespace

FieldSchedules CreateFieldSchedules(const PolicyConfig& config,
                                    const std::vector<ChangingField>& fields,
                                    std::vector<std::string>* problems) {
  FieldSchedules made;
  for (const ChangingField& field : fields) AddField(config, field, problems, &made);
  std::vector<std::string> names;
  for (const ChangingField& field : fields) names.push_back(field.field);
  for (int i = 0; i < config.schedule_size(); ++i) {
    const std::string& name = config.schedule(i).field();
    if (absl::c_linear_search(names, name)) continue;
    problems->push_back(absl::StrCat("schedule[", i, "].field is '", name,
                                     "', expected a field that may change: ",
                                     names.empty() ? "none" : absl::StrJoin(names, ", ")));
  }
  return made;
}

}  // namespace ding
