#include "ding_worker/worker/setup/setup_problems.h"

#include <cstdint>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/gymnasium/gymnasium_envs.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/hindsight_buffer.pb.h"
#include "ding_worker/replay_buffer/selection/hindsight_source.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/worker/config/experiment_config.h"

namespace ding {
namespace {

constexpr char kBuffer[] = "policy.other.replay_buffer";
constexpr char kHindsight[] = "policy.other.replay_buffer.type is 'hindsight', which ";

// Compares the rewards that a Python env says it gives with those of relabelled rows.
void CheckGoalRewards(const ExperimentConfig& config, const EnvSpec& env,
                      std::vector<std::string>* problems) {
  const EnvConfig env_config = MakeEnvConfig(config);
  GymnasiumConfig python;
  HindsightBufferConfig buffer;
  if (env_config.type() != "gymnasium" || !env_config.params().UnpackTo(&python) ||
      !config.policy().other().replay_buffer().params().UnpackTo(&buffer) ||
      !RewardShapingOf(config).empty()) {
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
    problems->push_back(absl::StrCat(
        kBuffer, ": compute_reward() of env '", env.name, "', for the achieved goal [",
        absl::StrJoin(sample.achieved, ", "), "] and the desired one [",
        absl::StrJoin(sample.desired, ", "), "]: ", status.message(), ". It gave ", rewards.size(),
        " different rewards, from ", *rewards.begin(), " to ", *rewards.rbegin()));
    return;
  }
}

void CheckForSequences(const ExperimentConfig& config, bool draws_sequences,
                       const SequenceBufferConfig* sequence, std::vector<std::string>* problems) {
  const std::string& type = config.policy().other().replay_buffer().type();
  if (!draws_sequences) {
    problems->push_back(absl::StrCat(kBuffer, ".type is '", type,
                                     "', which draws single rows, but policy '",
                                     config.policy().type(),
                                     "' learns from sequences of rows: expected 'sequence', or "
                                     "'episode' for whole episodes"));
    return;
  }
  const int64_t collected = config.policy().collect().unroll_len();
  if (sequence == nullptr || collected == 1 || sequence->unroll_len() == collected) return;
  problems->push_back(absl::StrCat(kBuffer, ".params.unroll_len is ", sequence->unroll_len(),
                                   ", but policy.collect.unroll_len is ", collected,
                                   ": expected the same number, because a sample that is collected "
                                   "is a sequence that is drawn (or a policy.collect.unroll_len of "
                                   "1, to collect a number of rows)"));
}

void CheckForRows(const ExperimentConfig& config, bool draws_sequences,
                  const SequenceBufferConfig* sequence, std::vector<std::string>* problems) {
  const std::string& policy = config.policy().type();
  if (draws_sequences && sequence == nullptr) {
    problems->push_back(
        absl::StrCat(kBuffer, ".type is '", config.policy().other().replay_buffer().type(),
                     "', which draws sequences of rows, with padding, but policy '", policy,
                     "' learns from every row of a batch: expected a type that draws single rows, "
                     "such as 'naive', "
                     "or 'sequence' without padding and burn_in"));
  }
  if (sequence == nullptr) return;
  const auto refuse = [&](absl::string_view field, absl::string_view found,
                          absl::string_view expected) {
    problems->push_back(absl::StrCat(kBuffer, ".params.", field, " is ", found, ", but policy '",
                                     policy,
                                     "' learns from every row of a batch, also from those that ",
                                     field, " adds: expected ", expected));
  };
  if (sequence->padding()) refuse("padding", "true", "false");
  if (sequence->burn_in() > 0) refuse("burn_in", absl::StrCat(sequence->burn_in()), "0");
}

void CheckLength(const SequenceBufferConfig& sequence, int64_t max_episode_steps,
                 std::vector<std::string>* problems) {
  if (sequence.cross_episodes() || sequence.padding()) return;
  if (max_episode_steps == 0 || sequence.unroll_len() <= max_episode_steps) return;
  problems->push_back(absl::StrCat(kBuffer, ".params.unroll_len is ", sequence.unroll_len(),
                                   ", but an episode of the env ends after ", max_episode_steps,
                                   " steps at the latest: expected at most ", max_episode_steps,
                                   ", or params.cross_episodes or params.padding"));
}

}  // namespace

std::vector<std::string> FindGoalProblems(const ExperimentConfig& config, const EnvSpec& env) {
  if (config.policy().other().replay_buffer().type() != "hindsight") return {};
  std::vector<std::string> problems;
  const absl::Status goals = CheckGoalFields(*env.observation);
  if (!goals.ok()) {
    problems.push_back(absl::StrCat(kHindsight, "needs goals, but env '", env.name,
                                    "' has none: ", goals.message(),
                                    "\nset another type, such as 'naive', or an env with goals"));
  }
  if (env.reward_components() > 0) {
    problems.push_back(absl::StrCat(
        kHindsight, "computes the reward anew, as one number, but env '", env.name, "' has one of ",
        env.reward_components(), " components: set another type, such as 'naive'"));
  }
  if (problems.empty()) CheckGoalRewards(config, env, &problems);
  return problems;
}

std::vector<std::string> FindSequenceProblems(const ExperimentConfig& config,
                                              const LearnAttributes& policy, bool draws_sequences,
                                              int64_t max_episode_steps) {
  const BufferConfig& buffer = config.policy().other().replay_buffer();
  SequenceBufferConfig params;
  const SequenceBufferConfig* const sequence =
      buffer.params().UnpackTo(&params) ? &params : nullptr;
  std::vector<std::string> problems;
  (policy.sequences ? CheckForSequences : CheckForRows)(config, draws_sequences, sequence,
                                                        &problems);
  if (sequence != nullptr) CheckLength(*sequence, max_episode_steps, &problems);
  return problems;
}

std::vector<std::string> FindSampleProblems(const ExperimentConfig& config,
                                            int64_t max_episode_steps) {
  const CollectSection& collect = config.policy().collect();
  if (collect.last_sample() != PolicyConfig::DROP || max_episode_steps == 0 ||
      collect.unroll_len() <= max_episode_steps) {
    return {};
  }
  return {absl::StrCat("policy.collect.unroll_len is ", collect.unroll_len(),
                       ", but an episode of the env ends after ", max_episode_steps,
                       " steps at the latest, and last_sample DROP drops shorter samples: expected "
                       "at most ",
                       max_episode_steps, ", or last_sample: NULL_PADDING")};
}

}  // namespace ding
