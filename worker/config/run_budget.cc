#include "ding_worker/worker/config/run_budget.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace ding {

std::string EndlessRunWarning(const ExperimentConfig& config) {
  const PolicySection& policy = config.policy();
  const bool has_budget =
      config.max_env_step() > 0 || config.max_train_iter() > 0 || config.system().max_seconds() > 0;
  const bool may_be_solved = config.env().stop_value() < EnvSection().stop_value() ||
                             policy.eval().metric_evaluator().stop_value_size() > 0;
  const bool has_stopper =
      config.stopper_size() > 0 || policy.learn().learner().hook().hook_size() > 0;
  if (has_budget || may_be_solved || has_stopper) return "";
  return "nothing in the config ends this run, so that it goes on until Ctrl-C: --max_env_step=N, "
         "--max_train_iter=N, env.stop_value or a stopper ends it";
}

std::string SpentBudgets(const ExperimentConfig& config, int64_t env_step, int64_t train_iter) {
  std::vector<std::string> spent;
  const auto look = [&spent](absl::string_view name, int64_t budget, int64_t used) {
    if (budget == 0 || used < budget) return;
    spent.push_back(absl::StrCat("max_", name, " is ", budget, ", and the run has reached ", used,
                                 " before: --max_", name, "=N with a larger number lets it go on"));
  };
  look("env_step", config.max_env_step(), env_step);
  look("train_iter", config.max_train_iter(), train_iter);
  return absl::StrJoin(spent, "; ");
}

}  // namespace ding
