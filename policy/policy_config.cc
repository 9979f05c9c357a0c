#include "ding_worker/policy/policy_config.h"

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

std::string NoEffectWithout(absl::string_view field, absl::string_view value,
                            absl::string_view needs) {
  return absl::StrCat(field, " is ", value, ", which has no effect without ", needs, ": remove it");
}

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

void RequireDefaultUnless(bool is_read, double value, double default_value, absl::string_view field,
                          absl::string_view needs, std::vector<std::string>* problems) {
  if (is_read || value == default_value) return;
  problems->push_back(NoEffectWithout(field, absl::StrCat(value), needs));
}

void RequireDefaultUnless(bool is_read, bool value, bool default_value, absl::string_view field,
                          absl::string_view needs, std::vector<std::string>* problems) {
  if (is_read || value == default_value) return;
  problems->push_back(NoEffectWithout(field, value ? "true" : "false", needs));
}

void RequireSingleRows(const PolicyConfig& config, std::vector<std::string>* problems) {
  if (config.unroll_len() <= 1) return;
  problems->push_back(absl::StrCat("unroll_len is ", config.unroll_len(), ", but ", config.type(),
                                   " learns from single rows: must be 1"));
}

absl::Status UnpackParams(const PolicyConfig& config, google::protobuf::Message* params) {
  return Annotate(ReadParams(config, params), "policy");
}

CollectAttributes CollectAttributesFromConfig(const PolicyConfig& config) {
  CollectAttributes attributes;
  if (config.has_n_sample()) attributes.n_sample = config.n_sample();
  if (config.has_n_episode()) attributes.n_episode = config.n_episode();
  attributes.unroll_len = config.unroll_len();
  return attributes;
}

LearnAttributes LearnAttributesFromConfig(const PolicyConfig& config) {
  LearnAttributes attributes;
  attributes.batch_size = config.batch_size();
  attributes.priority = config.priority();
  return attributes;
}

Schedule ScheduleFromConfig(const ScheduleConfig& config) {
  return {config.type() == ScheduleConfig::EXP ? ScheduleKind::kExp : ScheduleKind::kLinear,
          config.start(), config.end(), config.decay()};
}

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
