#include "ding_worker/worker/setup/supervised_setup.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/setup/setup_problems.h"

namespace ding {

namespace {

// Lists the fields of returns that are set, and have no effect on a policy of this type.
std::vector<std::string> ReturnProblems(const ExperimentConfig& config) {
  std::vector<std::string> problems;
  for (const SetField& field : ListSetFields(config)) {
    if (field.path != "policy.nstep" && field.path != "policy.discount_factor") continue;
    problems.push_back(absl::StrCat(field.path, " is ", field.value, ", which has no effect: '",
                                    config.policy().type(), "' learns from no rewards: expected ",
                                    field.default_value));
  }
  return problems;
}

// Lists the schedules that would never move.
std::vector<std::string> ScheduleProblems(const ExperimentConfig& config) {
  std::vector<std::string> problems;
  for (int i = 0; i < config.policy().schedule_size(); ++i) {
    if (config.policy().schedule(i).unit() == FieldScheduleConfig::TRAIN_ITER) continue;
    problems.push_back(absl::StrCat("policy.schedule[", i,
                                    "].unit is ENV_STEP, but a run with a data_set collects no env "
                                    "steps: expected TRAIN_ITER"));
  }
  return problems;
}

}  // namespace

absl::StatusOr<DataSet> LoadDataSetOf(const ExperimentConfig& config, EnvSpec* env) {
  const bool has_env = env->observation != nullptr;
  const DataSetOptions options{config.data_set().path(), config.data_set().held_out(),
                               config.seed(), config.data_set().window_rows()};
  DING_ASSIGN_OR_RETURN(DataSet data, LoadDataSet(options, has_env ? env : nullptr));
  env->observation = data.observation;
  env->action = data.action;
  return data;
}

absl::StatusOr<std::unique_ptr<ShuffledEpochs>> EpochsOf(const ExperimentConfig& config,
                                                         const DataSet& data) {
  const int64_t window_rows = config.data_set().window_rows();
  return ShuffledEpochs::Create(
      data.training, config.policy().learn().batch_size(), config.seed(),
      window_rows > 0 ? window_rows : std::numeric_limits<int64_t>::max());
}

absl::StatusOr<std::shared_ptr<const IMetric>> MetricOf(const ExperimentConfig& config,
                                                        const DataSet& data) {
  std::string name = config.policy().eval().metric_evaluator().metric();
  if (name.empty()) name = data.action->field(0).is_discrete() ? "accuracy" : "action_mse";
  DING_ASSIGN_OR_RETURN(std::shared_ptr<const IMetric> metric, MetricRegistry().Find(name));
  if (metric != nullptr) return metric;
  return absl::InternalError(
      absl::StrCat(MetricRegistry().kind(), " '", name, "' is a null pointer, expected an object"));
}

absl::Status CheckLearnsFromData(const ExperimentConfig& config, const LearnMode* policy) {
  const bool supervised = policy != nullptr && policy->attributes().supervised;
  if (supervised == IsSupervised(config)) {
    if (!supervised) return absl::OkStatus();
    std::vector<std::string> problems = ScheduleProblems(config);
    if (!policy->attributes().transitions) {
      for (std::string& problem : ReturnProblems(config)) problems.push_back(std::move(problem));
    }
    return StartupProblemsToStatus(problems);
  }
  const std::string& type = config.policy().type();
  return absl::InvalidArgumentError(
      supervised
          ? absl::StrCat("policy.type '", type,
                         "' learns from recorded episodes: data_set.path, a file of episodes, is "
                         "missing (//worker:evaluate --record_episodes writes one)")
          : absl::StrCat("policy.type '", type,
                         "' does not learn from recorded episodes, but there is a data_set; "
                         "expected one that does, such as 'bc'"));
}

absl::Status UseTransitions(const ExperimentConfig& config, const LearnMode& policy,
                            DataSet* data) {
  if (!policy.attributes().transitions) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(data->training, TransitionsOf(*data, {config.policy().nstep(),
                                                              config.policy().discount_factor()}));
  return absl::OkStatus();
}

absl::Status CheckSameDataSet(const ExperimentConfig& config, const DataSet& data,
                              int64_t checksum_at_begin) {
  if (checksum_at_begin == data.checksum) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", config.data_set().path(), "' has other content than when the run began: checksum ",
      data.checksum, ", expected ", checksum_at_begin));
}

}  // namespace ding
