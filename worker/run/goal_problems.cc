#include "ding_worker/worker/run/goal_problems.h"

#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/replay_buffer/hindsight_buffer.pb.h"
#include "ding_worker/replay_buffer/selection/hindsight_source.h"
#include "ding_worker/worker/config/experiment_config.h"

namespace ding {
namespace {

bool ShapesRewards(const ExperimentConfig& config) {
  EpisodeCollectorParams params;
  return config.policy().collect().collector().params().UnpackTo(&params) &&
         !params.reward_shaping().empty();
}

// Compares the rewards that a Python env says it gives with those of relabelled rows.
void CheckGoalRewards(const ExperimentConfig& config, const EnvSpec& env,
                      std::vector<std::string>* problems) {
  const EnvConfig env_config = MakeEnvConfig(config);
  GymnasiumConfig python;
  HindsightBufferConfig buffer;
  if (env_config.type() != "gymnasium" || !env_config.params().UnpackTo(&python) ||
      !config.policy().other().replay_buffer().params().UnpackTo(&buffer) ||
      ShapesRewards(config)) {
    return;
  }
  const absl::StatusOr<std::vector<GoalReward>> samples =
      SampleGymnasiumGoalRewards(python, WrappersOf(env_config), env_config);
  if (!samples.ok()) return problems->push_back(samples.status().ToString());
  HindsightOptions options;
  options.radius = buffer.radius();
  options.reward_at_goal = static_cast<float>(buffer.reward_at_goal());
  options.reward_elsewhere = static_cast<float>(buffer.reward_elsewhere());
  std::set<float> rewards;
  for (const GoalReward& sample : *samples) rewards.insert(sample.reward);
  for (const GoalReward& sample : *samples) {
    const absl::Status status =
        CheckHindsightReward(options, sample.achieved, sample.desired, sample.reward);
    if (status.ok()) continue;
    problems->push_back(
        absl::StrCat("policy.other.replay_buffer: compute_reward() of env '", env.name,
                     "', for the achieved goal [", absl::StrJoin(sample.achieved, ", "),
                     "] and the desired one [", absl::StrJoin(sample.desired, ", "),
                     "]: ", status.message(), ". It gave ", rewards.size(),
                     " different rewards, from ", *rewards.begin(), " to ", *rewards.rbegin()));
    return;
  }
}

}  // namespace

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
  if (problems.empty()) CheckGoalRewards(config, env, &problems);
  return problems;
}

}  // namespace ding
