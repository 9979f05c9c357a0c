#include "ding_worker/worker/run/goal_problems.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/data/goal_fields.h"

namespace ding {

std::vector<std::string> FindGoalProblems(const ExperimentConfig& config, const EnvSpec& env) {
  constexpr char kBuffer[] = "policy.other.replay_buffer.type is 'hindsight', which ";
  if (config.policy().other().replay_buffer().type() != "hindsight") return {};
  std::vector<std::string> problems;
  const absl::Status goals = CheckGoalFields(*env.observation);
  if (!goals.ok()) {
    problems.push_back(absl::StrCat(kBuffer, "needs goals, but env '", env.name,
                                    "' has none: ", goals.message(),
                                    "\nset another type, such as 'naive', or an env with goals"));
  }
  if (env.reward_components() > 0) {
    problems.push_back(absl::StrCat(kBuffer, "computes the reward anew, as one number, but env '",
                                    env.name, "' has one of ", env.reward_components(),
                                    " components: set another type, such as 'naive'"));
  }
  return problems;
}

}  // namespace ding
