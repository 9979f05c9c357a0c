#include "ding_worker/policy/policy_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

void RequireAtLeastOne(int64_t value, absl::string_view field, std::vector<std::string>* problems) {
  if (value >= 1) return;
  problems->push_back(absl::StrCat(field, " is ", value, ", must be at least 1"));
}

}  // namespace

void AppendProblems(const PolicyConfig& config, std::vector<std::string>* problems,
                    TakesSchedules takes_schedules) {
  RequireAtLeastOne(config.batch_size(), "batch_size", problems);
  RequireAtLeastOne(config.unroll_len(), "unroll_len", problems);
  RequireAtLeastOne(config.nstep(), "nstep", problems);
  if (config.has_n_sample()) RequireAtLeastOne(config.n_sample(), "n_sample", problems);
  if (config.has_n_episode()) RequireAtLeastOne(config.n_episode(), "n_episode", problems);
  if (!(config.discount_factor() >= 0 && config.discount_factor() <= 1)) {
    problems->push_back(
        absl::StrCat("discount_factor is ", config.discount_factor(), ", must be in [0, 1]"));
  }
  if (takes_schedules == TakesSchedules::kNo && config.schedule_size() > 0) {
    problems->push_back(absl::StrCat("schedule of ", config.schedule(0).field(),
                                     " is set, but no field of policy '", config.type(),
                                     "' changes in a run: remove it"));
  }
}

void AppendProblems(const ScheduleConfig& config, absl::string_view field,
                    std::vector<std::string>* problems) {
  if (!std::isfinite(config.start()) || !std::isfinite(config.end())) {
    problems->push_back(absl::StrCat(field, " goes from ", config.start(), " to ", config.end(),
                                     ", both must be finite"));
  }
  if (!(config.decay() > 0)) {
    problems->push_back(absl::StrCat(field, ".decay is ", config.decay(), ", must be above 0"));
  }
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

}  // namespace ding
