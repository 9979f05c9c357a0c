#include "ding_worker/worker/config/unused_fields.h"

#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/worker/config/policy_defaults.h"
#include "ding_worker/worker/config/text_config.h"

namespace ding {
namespace {

constexpr unsigned kSerial = static_cast<unsigned>(RunKind::kSerial);
constexpr unsigned kOnPolicy = static_cast<unsigned>(RunKind::kOnPolicy);
constexpr unsigned kSupervised = static_cast<unsigned>(RunKind::kSupervised);
constexpr unsigned kParallel = static_cast<unsigned>(RunKind::kParallel);
constexpr unsigned kLeague = static_cast<unsigned>(RunKind::kLeague);
constexpr unsigned kCollectsSerially = kSerial | kOnPolicy;
constexpr unsigned kOneProcess = kCollectsSerially | kSupervised;
constexpr unsigned kOnPolicyParallel = static_cast<unsigned>(RunKind::kOnPolicyParallel);
constexpr unsigned kCollectsInParallel = kParallel | kLeague | kOnPolicyParallel;
constexpr unsigned kSupervisedParallel = static_cast<unsigned>(RunKind::kSupervisedParallel);
constexpr unsigned kManyProcesses = kCollectsInParallel | kSupervisedParallel;
constexpr unsigned kHasDataSet = kSupervised | kSupervisedParallel;

// A field, or all fields inside of it, and the kinds of run that do not use it.
struct Unused {
  absl::string_view path;
  unsigned kinds;
  absl::string_view instead;  // the reason, or what has an effect instead
};

// It is true where learner_num is above 1, which is refused itself.
constexpr absl::string_view kLogReduce = "policy.learn.learner.hook.log_reduce_after_iter";

// Whether it has an effect in a parallel run depends on the type of the buffer:
// on_policy_rounds.cc.
constexpr absl::string_view kUnrollLen = "policy.collect.unroll_len";

// Values that two sections share (ShareAmongSections in experiment_config.cc) are not listed at the
// place to which they are copied.
constexpr Unused kUnused[] = {
    {"resume.period_rounds", kManyProcesses, "there are no rounds; set resume.period_seconds"},
    {"resume.max_replay_bytes", kOnPolicy | kHasDataSet, "it has no replay buffer"},
    {"data_set.held_out", kCollectsSerially | kCollectsInParallel, "there is no data_set.path"},
    {"data_set.window_rows", kCollectsSerially | kCollectsInParallel, "there is no data_set.path"},
    {"system", kOneProcess, "it is one process"},
    {"system.lockstep", kLeague, "it is for one policy"},
    {"system.lockstep", kSupervisedParallel, "the same data set gives the same run again"},
    {"system.record_bytes", kLeague, "the learners of a league are not recorded"},
    {"system.record_bytes", kSupervisedParallel, "the same data set gives the same run again"},
    {"env.evaluator_type", kSupervised, "env.type is what the policy plays in"},
    {"env.evaluator_params", kSupervised, "env.type is what the policy plays in"},
    {"env.collector_env_num", kHasDataSet, "nothing is collected"},
    {"env.collector_episode_num", kSupervisedParallel, "nothing is collected"},
    {"env.collector_episode_num", kOneProcess, "there are no tasks; see policy.collect"},
    {"env.evaluator_episode_num", kOneProcess, "set env.n_evaluator_episode"},
    {"env.eval_opponent", kOneProcess | kParallel | kOnPolicyParallel | kSupervisedParallel,
     "it is for a league; otherwise set env.evaluator_type"},
    {"opponent", kHasDataSet, "nothing is collected"},
    {"opponent", kLeague, "the policy of a league plays itself and what it was before"},
    {"opponent.learns", kOnPolicyParallel,
     "a round has rows of one policy: set an off-policy policy.type, or learn both in a serial "
     "run (tools/train)"},
    {"policy.random_collect_size", kOnPolicy | kOnPolicyParallel,
     "nothing is kept from one collect to the next"},
    {"policy.learn.update_per_collect", kOnPolicy | kOnPolicyParallel,
     "it learns once from what was collected; see epoch_per_collect of 'ppo'"},
    {"policy.learn.update_per_collect", kCollectsInParallel,
     "the learner trains all the time; policy.other.replay_buffer.replay_ratio bounds how often "
     "rows are drawn"},
    {"policy.learn.learner.train_iterations", kOneProcess, "set max_train_iter"},
    {"policy.learn.learner.only_monitor_rank0", kOneProcess, "there is one learner"},
    {"policy.learn.learner.is_multitask_pipeline", kOneProcess, "there is one learner"},
    {kLogReduce, kOneProcess, "there is one learner"},
    {"policy.learn.resume_training", kHasDataSet, "a run goes on counting by --resume"},
    {"policy.learn.send_policy_freq", kOneProcess, "the policy is in the same process"},
    {"policy.learn.send_policy_freq", kOnPolicyParallel,
     "the policy is published after each round"},
    {"policy.learn.prefetch_batches", kOnPolicyParallel,
     "a round is drawn when it is learned from"},
    {"policy.learn.loader_threads", kOnPolicyParallel, "a round is drawn when it is learned from"},
    {"policy.learn.max_data_age", kOneProcess, "the newest policy collects"},
    {"policy.learn.max_data_age", kSupervisedParallel, "a data set does not age"},
    {"policy.learn.max_data_age", kParallel | kLeague,
     "it is for on-policy policies; a replay buffer's size bounds the age of its rows"},
    {"policy.learn.prefetch_batches", kOneProcess | kSupervisedParallel, "batches are not loaded"},
    {"policy.learn.loader_threads", kOneProcess | kSupervisedParallel, "batches are not loaded"},
    {"policy.learn.data_timeout", kOneProcess | kSupervisedParallel, "batches are not loaded"},
    {"policy.learn.learner_num", kOneProcess,
     "there is one learner; several learn together in a parallel run (tools/train --parallel)"},
    {"policy.learn.all_reduce", kOneProcess, "there is one learner"},
    {"policy.learn.all_reduce_timeout", kOneProcess, "there is one learner"},
    {"policy.collect.n_sample", kHasDataSet, "nothing is collected"},
    {"policy.collect.n_episode", kHasDataSet, "nothing is collected"},
    {kUnrollLen, kLeague, "rows are handed over one by one"},
    {kUnrollLen, kSupervisedParallel, "nothing is collected"},
    {"policy.collect.last_sample", kSerial, "a replay buffer draws the samples"},
    {"policy.collect.last_sample", kHasDataSet, "nothing is collected"},
    {"policy.collect.last_sample", kParallel | kLeague, "rows are handed over one by one"},
    {"policy.collect.collector.type", kHasDataSet, "nothing is collected"},
    {"policy.collect.collector.collect_print_freq", kHasDataSet, "nothing is collected"},
    {"policy.collect.collector.max_abnormal", kHasDataSet, "nothing is collected"},
    {"policy.collect.collector.params", kHasDataSet, "nothing is collected"},
    {"policy.collect.collector.collector_num", kOneProcess, "there is one collector"},
    {"policy.collect.overlap", kOnPolicy,
     "it learns from rows of its newest parameters, so that collecting and learning take turns"},
    {"policy.collect.overlap", kHasDataSet, "nothing is collected"},
    {"policy.collect.overlap", kCollectsInParallel,
     "collectors and learners are processes, which work at the same time anyway"},
    {"policy.collect.parallel_collector.reward_shaping", kManyProcesses,
     "it is in policy.collect.collector.params: write collect { n_episode: ... collector { type: "
     "\"episode\" params { [type.googleapis.com/ding.EpisodeCollectorParams] { get_train_sample: "
     "true reward_shaping: $0 } } } }"},
    {"policy.collect.parallel_collector.print_freq", kSupervisedParallel, "nothing is collected"},
    {"policy.collect.parallel_collector.update_policy_second", kSupervisedParallel,
     "an evaluation plays by the version with which it began"},
    {"policy.collect.parallel_collector.max_abnormal", kSupervisedParallel,
     "set that of policy.eval.evaluator"},
    {"policy.collect.parallel_collector.max_abnormal", kCollectsInParallel,
     "write policy.collect.collector { max_abnormal: $0 }"},
    {"policy.collect.parallel_collector", kOneProcess, "policy.collect.collector collects"},
    {"policy.collect.collector_num", kOneProcess, "there is one collector"},
    {"policy.eval.evaluator.eval_freq", kManyProcesses,
     "policy.other.commander.eval_interval says how often"},
    {"policy.eval.metric_evaluator", kCollectsSerially | kCollectsInParallel,
     "there is no data_set.path"},
    {"policy.eval.opponent_checkpoint", kHasDataSet,
     "env.evaluator_type plays the opponent itself"},
    {"policy.other.replay_buffer", kOnPolicy | kHasDataSet | kOnPolicyParallel,
     "it has no replay buffer"},
    {"policy.other.replay_buffer.replay_ratio", kSerial,
     "policy.learn.update_per_collect says how often rows are drawn"},
    {"policy.other.commander", kOneProcess, "there are no tasks"},
    {"policy.other.commander.league", kParallel | kOnPolicyParallel | kSupervisedParallel,
     "it is that of commander 'one_vs_one'"},
    {"policy.other.commander.learner_task_space", kLeague,
     "there is one learning task; set policy.learn.learner_num to learn in several processes"},
    {"metrics.x_axis", kHasDataSet,
     "there are no env steps, so that metrics are over train iterations"},
};

// How work is divided among processes. A run in one process leaves these out, so that one config
// serves both kinds of run.
constexpr absl::string_view kOfSeveralProcesses[] = {
    "env.collector_episode_num",
    "env.evaluator_episode_num",
    "policy.collect.collector.collector_num",
    "policy.collect.parallel_collector.print_freq",
    "policy.collect.parallel_collector.update_policy_second",
    "policy.learn.all_reduce",
    "policy.learn.all_reduce_timeout",
    "policy.learn.data_timeout",
    "policy.learn.loader_threads",
    "policy.learn.max_data_age",
    "policy.learn.prefetch_batches",
    "policy.learn.send_policy_freq",
    "policy.other.commander.collector_task_space",
    "policy.other.commander.eval_interval",
    "system.comm_collector_params",
    "system.comm_collector_type",
    "system.comm_learner_params",
    "system.comm_learner_type",
    "system.coordinator",
    "system.derived",
    "system.run_files",
    "system.store_url"};

// Values that are filled in from another field, and refused if they are set to something else.
constexpr absl::string_view kShared[] = {
    "policy.other.replay_buffer.nstep", "policy.other.replay_buffer.discount_factor",
    "policy.eval.evaluator.n_episode", "policy.eval.evaluator.stop_value"};

absl::string_view NameOf(RunKind kind) {
  // A switch, like those of other enums, and not a shared table: the compiler warns if a name is
  // missing.
  switch (kind) {
    case RunKind::kSerial:
      return "a serial run";
    case RunKind::kOnPolicy:
      return "a run whose policy is on-policy";
    case RunKind::kSupervised:
      return "a run with a data_set";
    case RunKind::kParallel:
      return "a parallel run";
    case RunKind::kLeague:
      return "a league";
    case RunKind::kOnPolicyParallel:
      return "a parallel run whose policy is on-policy";
    case RunKind::kSupervisedParallel:
      return "a parallel run with a data_set";
  }
  return "";
}

bool IsShared(absl::string_view path) { return absl::c_linear_search(kShared, path); }

bool IsLeftOut(absl::string_view path, RunKind kind) {
  return (static_cast<unsigned>(kind) & kOneProcess) != 0 &&
         absl::c_any_of(kOfSeveralProcesses,
                        [&](absl::string_view outer) { return IsWithinField(path, outer); });
}

// Why runs of this kind do not use the field; null: they do.
const Unused* FindUnused(const ExperimentConfig& config, absl::string_view path, RunKind kind) {
  if (IsShared(path) || IsLeftOut(path, kind)) return nullptr;
  if (path == kLogReduce && config.policy().learn().learner_num() > 1) return nullptr;
  for (const Unused& unused : kUnused) {
    if ((unused.kinds & static_cast<unsigned>(kind)) != 0 && IsWithinField(path, unused.path)) {
      return &unused;
    }
  }
  return nullptr;
}

// Appends the fields of envs that are set although there is no env to evaluate in.
void AppendFieldsWithoutEnv(const ExperimentConfig& config, RunKind kind,
                            std::vector<std::string>* problems) {
  if (!config.env().type().empty()) return;
  for (const SetField& field : ListSetFields(config)) {
    // Runs that use env.evaluator_type report themselves that it needs env.type.
    if (!IsWithinField(field.path, "env") || field.path == "env.evaluator_type") continue;
    if (FindUnused(config, field.path, kind) != nullptr) continue;
    problems->push_back(absl::StrCat(field.path, " is ", field.value, ", which has no effect in ",
                                     NameOf(kind), " and without env.type: leave it out"));
  }
}

// Appends the wrappers that change nothing: a data set is learned from as it is, and an evaluation
// reports the returns of the env itself.
void AppendWrappersWithoutEffect(const ExperimentConfig& config, RunKind kind,
                                 std::vector<std::string>* problems) {
  constexpr absl::string_view kChangeRewardsOnly[] = {"normalize_reward", "reward_clip",
                                                      "reward_scale"};
  for (int i = 0; i < config.env().wrapper_size(); ++i) {
    const EnvWrapperConfig& wrapper = config.env().wrapper(i);
    const std::string path = absl::StrCat("env.wrapper[", i, "]");
    if (!wrapper.in_evaluation()) {
      problems->push_back(absl::StrCat(path, ".in_evaluation is false, but ", NameOf(kind),
                                       " only evaluates: remove wrapper '", wrapper.type(),
                                       "', which has no effect"));
    } else if (absl::c_linear_search(kChangeRewardsOnly, wrapper.type())) {
      problems->push_back(absl::StrCat(
          path, ".type is '", wrapper.type(), "', which has no effect in ", NameOf(kind),
          ": it learns from the rewards of the data set, and evaluations report the returns of "
          "the env itself: remove it"));
    }
  }
}

}  // namespace

std::vector<std::string> FindLeftOutFields(const ExperimentConfig& config, RunKind kind) {
  std::vector<std::string> paths;
  for (const SetField& field : ListSetFields(config)) {
    if (IsLeftOut(field.path, kind)) paths.push_back(field.path);
  }
  return paths;
}

std::vector<std::string> FindUnusedFields(const ExperimentConfig& config, RunKind kind,
                                          std::optional<RunKind> or_kind) {
  std::vector<std::string> problems;
  const PolicyDefaultValues defaults(config.policy().type());
  for (const SetField& field : ListSetFields(config)) {
    const Unused* const unused = FindUnused(config, field.path, kind);
    if (unused == nullptr || defaults.FindSource(field.path, field.value) != nullptr) continue;
    if (or_kind.has_value() && FindUnused(config, field.path, *or_kind) == nullptr) continue;
    problems.push_back(absl::StrCat(field.path, " is ", field.value, ", which has no effect in ",
                                    NameOf(kind), ": leave it out; ",
                                    absl::StrReplaceAll(unused->instead, {{"$0", field.value}})));
  }
  if ((static_cast<unsigned>(kind) & kHasDataSet) != 0) {
    AppendFieldsWithoutEnv(config, kind, &problems);
    AppendWrappersWithoutEffect(config, kind, &problems);
  }
  return problems;
}

}  // namespace ding
