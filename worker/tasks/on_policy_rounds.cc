#include "ding_worker/worker/tasks/on_policy_rounds.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "ding_worker/worker/tasks/parallel_envs.h"

namespace ding {
namespace {

// Beside those that are collected ahead: each collector may have begun a hand-over before these
// were there.
constexpr int64_t kMoreRoundsInBuffer = 8;
// In lockstep a round has whole episodes, of any length. The buffer takes memory only for the rows
// that are there.
constexpr int64_t kRowsInLockstep = int64_t{1} << 17;

}  // namespace

LearningRounds RoundsOf(const ExperimentConfig& config) {
  const CollectSection& collect = config.policy().collect();
  LearningRounds rounds;
  rounds.hand_over_rows = ShareOfCollector(config);
  rounds.rows = config.system().lockstep() ? kRowsInLockstep
                : collect.has_n_episode()  ? collect.n_episode()
                                           : collect.n_sample();
  rounds.ahead = config.policy().learn().max_data_age();
  return rounds;
}

ItemSequences ItemSequencesOfRounds(const ExperimentConfig& config) {
  ItemSequences sequences;
  sequences.length = config.policy().collect().unroll_len();
  sequences.whole_episodes = config.policy().collect().has_n_episode();
  return sequences;
}

absl::StatusOr<std::unique_ptr<IBuffer>> MakeRoundBuffer(const LearningRounds& rounds,
                                                         const BufferDeps& deps) {
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = (rounds.ahead + kMoreRoundsInBuffer) * rounds.rows;
  options.max_use = 1;
  options.selector = std::make_shared<UniformSelector>();  // draws no row twice
  options.seed = deps.seed;
  options.name = deps.name;
  options.metrics = deps.metrics;
  options.clock = deps.clock;
  options.on_removed = deps.on_removed;
  return AdvancedReplayBuffer::Create(options);
}

std::vector<std::string> FindPolicyKindProblems(const ExperimentConfig& config,
                                                const CollectAttributes& policy) {
  if (IsSupervised(config)) return FindUnusedFields(config, RunKind::kSupervisedParallel);
  if (PlaysGames(config)) {
    if (!policy.on_policy) return {};
    return {absl::StrCat("policy.other.commander.type is '",
                         config.policy().other().commander().type(), "', a league, but policy '",
                         config.policy().type(),
                         "' is on-policy: the opponents' rows are not of its newest version; "
                         "expected a policy that learns from a replay buffer")};
  }
  std::vector<std::string> problems =
      FindUnusedFields(config, policy.on_policy ? RunKind::kOnPolicyParallel : RunKind::kParallel);
  if (!policy.on_policy) {
    const BufferConfig& buffer = config.policy().other().replay_buffer();
    const int64_t unroll_len = config.policy().collect().unroll_len();
    if (unroll_len == 1 ||
        (HasItemsOfSequences(buffer) && !ItemSequencesOf(buffer).whole_episodes)) {
      return problems;
    }
    problems.push_back(absl::StrCat(
        "policy.collect.unroll_len is ", unroll_len,
        ", which has no effect beside policy.other.replay_buffer.type '", buffer.type(),
        "': expected 1; rows are handed over one by one, or as whole episodes"));
    return problems;
  }
  const CollectSection& collect = config.policy().collect();
  const int learners = config.policy().learn().learner_num();
  if (const int64_t items = RoundsOf(config).rows; items < learners) {
    problems.push_back(
        absl::StrCat("policy.learn.learner_num is ", learners, ", but a round is policy.collect.",
                     collect.has_n_episode() ? "n_episode " : "n_sample ", items,
                     ": expected as many or more, because each learner learns from a part of it"));
  }
  if (collect.has_n_episode() && collect.unroll_len() > 1) {
    problems.push_back(absl::StrCat(
        "policy.collect.unroll_len is ", collect.unroll_len(),
        " beside policy.collect.n_episode, but policy '", config.policy().type(),
        "' is on-policy, and samples of several rows are handed over one by one in a parallel run: "
        "expected policy.collect.n_sample, which counts samples"));
  }
  if (policy.keeps_statistics) {
    problems.push_back(absl::StrCat(
        "policy '", config.policy().type(),
        "' keeps statistics of what its collect mode has collected, but each collector of a "
        "parallel run would have statistics of its own: expected a policy with statistics in the "
        "learn mode, as 'ppo'"));
  }
  return problems;
}

}  // namespace ding
