// A commander of a parallel run: "two_rates" trains with two learning rates side by side, each in a
// learner task of its own. When both policies have been evaluated a few times, the worse one is
// given up, and a new one goes on with the parameters of the better one and a lower rate:
// population-based training in its smallest form.
//   commander { type: "two_rates" learner_task_space: 2
//               params { [type.googleapis.com/own.TwoRatesParams] { rate: [0.001, 0.0001] evaluations: 3 } } }
#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/commander/solo_options.h"
#include "own_modules.pb.h"

namespace own {
namespace {

using ding::TrainedPolicies;
using ding::TrainedPolicy;

double RateOf(const ding::LearnerTask& task) {
  const std::vector<std::string> setting = absl::StrSplit(task.setting(0), '=');
  double rate = 0;
  (void)absl::SimpleAtod(setting.back(), &rate);  // Prepare() has written it.
  return rate;
}

void Prepare(const TwoRatesParams& params, const TrainedPolicies& others, ding::LearnerTask* task) {
  double rate = params.rate(others.empty() ? 0 : 1);
  if (!others.empty() && others[0].has_newest()) {  // It takes the place of one that was given up.
    *task->mutable_init_policy() = others[0].newest();
    rate = 0.8 * RateOf(others[0].task());
  }
  task->add_setting(absl::StrCat("policy.params.learning_rate=", rate));
}

bool GiveUp(const TwoRatesParams& params, const TrainedPolicy& policy, const TrainedPolicies& all) {
  const bool all_are_known = std::all_of(all.begin(), all.end(), [&](const TrainedPolicy& other) {
    return other.converged() || other.evaluations() >= params.evaluations();
  });
  return all_are_known && std::any_of(all.begin(), all.end(), [&](const TrainedPolicy& other) {
           return ding::EvalValue(other) > ding::EvalValue(policy);
         });
}

absl::StatusOr<std::unique_ptr<ding::BaseCommander>> Create(const ding::CommanderConfig& config,
                                                            const TwoRatesParams& params,
                                                            const ding::CommanderDeps& deps) {
  if (params.rate_size() != 2 || params.evaluations() < 1 || config.learner_task_space() != 2)
    return absl::InvalidArgumentError(
        "expected two values of rate, evaluations of at least 1, and learner_task_space 2");
  ding::SoloCommander::Options options = ding::ToSoloOptions(config, deps);
  options.prepare = [params](const auto& others, auto* task) { Prepare(params, others, task); };
  options.give_up = [params](const auto& policy, const auto& all) {
    return GiveUp(params, policy, all);
  };
  return ding::SoloCommander::Create(options, deps.policy, deps);
}

DING_REGISTER(
    ding::CommanderRegistry(), "two_rates", ding::CommanderDescriptor{Create},
    "two learning rates side by side; the worse one goes on with what the better one knows");

}  // namespace
}  // namespace own
