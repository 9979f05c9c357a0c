#include "ding_worker/worker/tasks/task_config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/setup/setup_problems.h"
#include "ding_worker/worker/tasks/on_policy_rounds.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/parallel_problems.h"

namespace ding {
namespace {

// So many combinations of settings are remembered.
constexpr size_t kMaxValid = 1000;

// Fields that a task may change, with all fields inside of them.
constexpr absl::string_view kOfLearners[] = {
    "policy.params",          "policy.learn", "policy.other.replay_buffer",
    "policy.discount_factor", "policy.nstep", "policy.priority",
};
constexpr absl::string_view kOfCollectors[] = {"env", "policy.params", "policy.collect.n_sample",
                                               "policy.collect.n_episode",
                                               "policy.collect.parallel_collector"};
// Fields among those that concern the whole run.
constexpr absl::string_view kOfRun[] = {"env.stop_value",
                                        "env.eval_opponent",
                                        "policy.learn.learner_num",
                                        "policy.learn.all_reduce",
                                        "policy.learn.all_reduce_timeout",
                                        "policy.learn.resume_training",
                                        "policy.other.replay_buffer.replay_ratio"};

std::string Describe(const ExperimentConfig& run, absl::string_view task_id) {
  return absl::StrCat("commander '", run.policy().other().commander().type(), "' gives ", task_id,
                      " settings");
}

// Prints the parts of a config that concern the whole run, however they were set.
std::string PartsOfRun(const ExperimentConfig& config) {
  const PolicySection& policy = config.policy();
  const BufferConfig& buffer = policy.other().replay_buffer();
  const ItemSequences items = ItemSequencesOf(buffer);
  ExperimentConfig parts;
  parts.mutable_env()->set_stop_value(config.env().stop_value());
  *parts.mutable_env()->mutable_eval_opponent() = config.env().eval_opponent();
  LearnSection& learn = *parts.mutable_policy()->mutable_learn();
  learn.set_learner_num(policy.learn().learner_num());
  learn.set_all_reduce(policy.learn().all_reduce());
  learn.set_all_reduce_timeout(policy.learn().all_reduce_timeout());
  learn.set_resume_training(policy.learn().resume_training());
  if (buffer.has_replay_ratio()) {
    *parts.mutable_policy()->mutable_other()->mutable_replay_buffer()->mutable_replay_ratio() =
        buffer.replay_ratio();
    learn.set_batch_size(policy.learn().batch_size());  // The bounds allow for a batch.
  }
  return absl::StrCat(PrintTextConfig(parts), "items of ", items.length, " rows, overlap ",
                      items.overlap, ", burn_in ", items.burn_in, ", padding ", items.padding,
                      ", whole_episodes ", items.whole_episodes);
}

absl::StatusOr<ExperimentConfig> Apply(const ExperimentConfig& run, absl::string_view task_id,
                                       const std::vector<std::string>& settings,
                                       absl::Span<const absl::string_view> allowed) {
  for (const std::string& setting : settings) {
    const absl::string_view path(setting.data(), std::min(setting.find('='), setting.size()));
    const auto contains = [path](absl::string_view outer) { return IsWithinField(path, outer); };
    const bool may = std::any_of(allowed.begin(), allowed.end(), contains) &&
                     std::none_of(std::begin(kOfRun), std::end(kOfRun), contains);
    if (may) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(run, task_id), ": '", setting,
                     "' must not change in a task, expected ", absl::StrJoin(allowed, ", "),
                     " or a field inside of these, and none of ", absl::StrJoin(kOfRun, ", ")));
  }
  absl::StatusOr<ExperimentConfig> config =
      ParseExperimentConfig(PrintTextConfig(run), Describe(run, task_id), settings);
  if (!config.ok()) {
    return absl::InvalidArgumentError(
        absl::StrReplaceAll(config.status().message(), {{"--set: ", ""}}));
  }
  const std::string before = PartsOfRun(run);
  const std::string after = PartsOfRun(*config);
  if (before == after) return config;
  return absl::InvalidArgumentError(absl::StrCat(
      Describe(run, task_id), " (", absl::StrJoin(settings, ", "),
      ") that change what all tasks have in common, expected\n", before, "\nfound\n", after));
}

std::vector<std::string> SettingsOf(const LearnerTask& task) {
  return {task.setting().begin(), task.setting().end()};
}

std::vector<std::string> SettingsOf(const CollectorTask& task) {
  return {task.setting().begin(), task.setting().end()};
}

absl::StatusOr<Batch> RowOfZeros(const SpecPtr& spec) {
  DING_ASSIGN_OR_RETURN(BatchBuilder row, BatchBuilder::Create(spec, 1));
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(row.view().raw_column(i), 0, static_cast<size_t>(spec->row_bytes(i)));
  }
  return std::move(row).Seal(1);
}

}  // namespace

absl::StatusOr<ExperimentConfig> ConfigOfTask(const ExperimentConfig& run,
                                              const LearnerTask& task) {
  if (task.setting().empty()) return run;
  return Apply(run, task.task_id(), SettingsOf(task), kOfLearners);
}

absl::StatusOr<ExperimentConfig> ConfigOfTask(const ExperimentConfig& run,
                                              const CollectorTask& task) {
  if (task.setting().empty()) return run;
  return Apply(run, task.task_id(), SettingsOf(task), kOfCollectors);
}

BufferConfig CoordinatorBufferConfig(const BufferConfig& rows) {
  BufferConfig config = ItemBufferConfig(rows);
  config.set_nstep(1);
  config.clear_replay_ratio();  // which the coordinator obeys
  return config;
}

absl::Status TaskSettings::Check(const StartTask& task) {
  const bool learns = task.has_learner();
  const std::string key = absl::StrCat(
      learns, "\n",
      absl::StrJoin(learns ? SettingsOf(task.learner()) : SettingsOf(task.collector()), "\n"));
  if (valid_.count(key) > 0) return absl::OkStatus();
  const absl::Status status =
      learns ? CheckLearner(task.learner()) : CheckCollector(task.collector());
  if (!status.ok()) return status;
  if (valid_.size() >= kMaxValid) valid_.clear();
  valid_.insert(key);
  return status;
}

absl::Status TaskSettings::CheckLearner(const LearnerTask& task) const {
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config, ConfigOfTask(run_, task));
  const std::string what = Describe(run_, task.task_id());
  DING_RETURN_IF_ERROR(Annotate(ProblemsToStatus(FindParallelProblems(config)), what));
  DING_RETURN_IF_ERROR(Annotate(CheckRows(config, env_), what));
  return Annotate(
      create_buffer(CoordinatorBufferConfig(config.policy().other().replay_buffer()), BufferDeps())
          .status(),
      what);
}

absl::Status TaskSettings::CheckCollector(const CollectorTask& task) const {
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config, ConfigOfTask(run_, task));
  const std::string what = Describe(run_, task.task_id());
  DING_RETURN_IF_ERROR(Annotate(ProblemsToStatus(FindParallelProblems(config)), what));
  const absl::StatusOr<EnvSpec> env = SpecOfEnv(config, clock_);
  DING_RETURN_IF_ERROR(Annotate(env.status(), what));
  DING_RETURN_IF_ERROR(Annotate(CheckSamePlayer(env_, *env), what));
  DING_RETURN_IF_ERROR(Annotate(CheckEvaluatorEnvs(config, env_, clock_).status(), what));
  return Annotate(CheckRows(config, *env), what);
}

absl::Status TaskSettings::CheckRows(const ExperimentConfig& config, const EnvSpec& env) const {
  PolicyModes modes;
  modes.eval = modes.collect = false;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> policy, MakePolicy(config, env, modes));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> collector,
                        MakePolicy(config, env, CollectModeOnly()));
  if (collector->collect_mode() != nullptr) {
    const CollectAttributes attributes = collector->collect_mode()->attributes();
    DING_RETURN_IF_ERROR(ProblemsToStatus(FindPolicyKindProblems(config, attributes)));
    if (attributes.on_policy) {
      DING_RETURN_IF_ERROR(ProblemsToStatus(FindSampleProblems(config, env.max_episode_steps)));
    }
  }
  if (policy->learn_mode() != nullptr) {
    DING_RETURN_IF_ERROR(ProblemsToStatus(FindSequenceProblems(
        config, policy->learn_mode()->attributes(),
        HasItemsOfSequences(config.policy().other().replay_buffer()), env.max_episode_steps)));
    DING_RETURN_IF_ERROR(ProblemsToStatus(FindGoalProblems(config, env)));
  }
  DING_ASSIGN_OR_RETURN(const CollectedLayout collected,
                        LayoutOfCollected(env, collector->collect_mode()));
  const bool same = rows_ == nullptr || collected.rows == nullptr || *rows_ == *collected.rows;
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("with them a collector hands over rows of ", collected.rows->DebugString(),
                   ", expected those of the run, ", rows_->DebugString()));
}

absl::StatusOr<CollectedLayout> LayoutOfCollected(const EnvSpec& player, CollectMode* policy) {
  DING_ASSIGN_OR_RETURN(
      const TrajLayout layout,
      TrajLayout::Create(player.observation, policy->output_spec(),
                         /*with_level_seed=*/false, player.reward_shape, player.info));
  SegmentBatch sample;
  DING_ASSIGN_OR_RETURN(sample.rows, RowOfZeros(layout.row));
  DING_ASSIGN_OR_RETURN(sample.final_obs, RowOfZeros(layout.observation));
  sample.segments = {{0, 0, 0, 1, SegmentEnd::kTerminated}};
  const absl::Status made = CallPolicy([&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(sample, policy->GetTrainSample(std::move(sample)));
    return absl::OkStatus();
  });
  if (!made.ok()) {
    DING_LOG(WARNING) << "the layout of the rows that collectors send is not known: "
                      << made.message() << "; it is taken from the first rows that arrive";
    return CollectedLayout();
  }
  return CollectedLayout{sample.rows.spec_ptr(), sample.final_obs.spec_ptr()};
}

}  // namespace ding
