#include "ding_worker/coordinator/commander/solo_commander.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/evaluation.h"

namespace ding {
namespace {

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

void AppendResourceProblems(const Resources& needed, absl::string_view name,
                            std::vector<std::string>* problems) {
  // This refuses NaN, too.
  if (!(needed.cpus() >= 0)) {
    problems->push_back(
        absl::StrCat(name, ".cpus is ", needed.cpus(), ", expected at least 0 cores"));
  }
  if (needed.memory_bytes() < 0) {
    problems->push_back(absl::StrCat(name, ".memory_bytes is ", needed.memory_bytes(),
                                     ", expected at least 0 bytes"));
  }
  if (needed.gpus() < 0) {
    problems->push_back(absl::StrCat(name, ".gpus is ", needed.gpus(), ", expected at least 0"));
  }
}

}  // namespace

std::vector<std::string> SoloCommander::Problems(const Options& options) {
  std::vector<std::string> problems;
  TaskSpace::AppendProblems(options.collector_task_space, "collector_task_space", &problems);
  TaskSpace::AppendProblems(options.learner_task_space, "learner_task_space", &problems);
  if (!(options.eval_interval >= 0)) {
    problems.push_back(
        absl::StrCat("eval_interval is ", options.eval_interval, ", expected at least 0 seconds"));
  }
  AppendResourceProblems(options.collector_resources, "collector_resources", &problems);
  AppendResourceProblems(options.learner_resources, "learner_resources", &problems);
  if (std::isnan(options.stop_value)) {
    problems.push_back("stop_value is NaN, expected a number");
  }
  if (!(options.stop_after_seconds >= 0)) {
    problems.push_back(absl::StrCat("stop_after_seconds is ", options.stop_after_seconds,
                                    ", expected at least 0 seconds"));
  }
  if (options.first_env_step < 0 || options.first_env_step > kMaxSavedCount) {
    problems.push_back(absl::StrCat("first_env_step is ", options.first_env_step,
                                    ", expected 0 to ", kMaxSavedCount));
  }
  if (options.has_opponent && options.learner_task_space != 2) {
    problems.push_back(absl::StrCat("learner_task_space is ", options.learner_task_space,
                                    ", expected 2: the policy and its opponent"));
  }
  return problems;
}

absl::StatusOr<std::unique_ptr<SoloCommander>> SoloCommander::Create(const Options& options,
                                                                     CommandMode* policy,
                                                                     const ComponentDeps& deps) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(options), "solo commander"));
  return absl::WrapUnique(new SoloCommander(options, policy, deps));
}

SoloCommander::SoloCommander(const Options& options, CommandMode* policy, const ComponentDeps& deps)
    : options_(options),
      policy_(policy),
      deps_(deps),
      made_nanos_(deps.clock->MonotonicNanos()),
      collector_space_(options.collector_task_space),
      learner_space_(options.learner_task_space) {
  state_.set_total_collector_env_step(options.first_env_step);
}

const TrainedPolicy* SoloCommander::Find(const std::string& policy_id) const {
  for (const TrainedPolicy& policy : policies()) {
    if (policy.task().policy_id() == policy_id) return &policy;
  }
  return nullptr;
}

std::string SoloCommander::current_policy_id() const {
  return policies().empty() ? "" : policies().rbegin()->task().policy_id();
}

std::string SoloCommander::current_buffer_id() const {
  return policies().empty() ? "" : policies().rbegin()->task().buffer_id();
}

std::optional<double> SoloCommander::last_eval_value() const {
  if (state_.last_eval_return().empty()) return std::nullopt;
  return state_.has_last_eval_score() ? state_.last_eval_score()
                                      : MeanReturn(state_.last_eval_return());
}

TrainedPolicy* SoloCommander::NextInTurn() {
  const auto turn = [](const TrainedPolicy& policy) {
    return std::make_tuple(!policy.has_newest(), policy.running(), policy.turn_steps());
  };
  TrainedPolicy* next = nullptr;
  for (TrainedPolicy& policy : *state_.mutable_policy()) {
    if (policy.converged()) continue;
    if (policy.has_to_confirm() && !policy.evaluating()) return &policy;
    if (!options_.collects && !EvaluationIsDue(policy)) continue;
    if (next == nullptr || turn(policy) < turn(*next)) next = &policy;
  }
  return next;
}

bool SoloCommander::EvaluationIsDue(const TrainedPolicy& policy) const {
  if (policy.evaluating() || policy.has_to_confirm()) return false;
  if (!options_.evaluates || IsOpponent(policy)) return false;
  if (!policy.has_eval_began_nanos()) return true;
  if (options_.collects && !policy.collected_since_evaluation()) return false;
  return UntilNextEvaluation(policy) < absl::ZeroDuration();
}

absl::Duration SoloCommander::UntilNextEvaluation(const TrainedPolicy& policy) const {
  if (!policy.has_eval_began_nanos()) return absl::ZeroDuration();
  return absl::Seconds(options_.eval_interval) -
         absl::Nanoseconds(RunNanos() - policy.eval_began_nanos());
}

absl::Duration SoloCommander::AskAgainAfter() const {
  absl::Duration wait = absl::InfiniteDuration();
  if (options_.collects || !options_.evaluates) return wait;
  for (const TrainedPolicy& policy : policies()) {
    const bool waits = !policy.converged() && !policy.evaluating() && !EvaluationIsDue(policy);
    if (waits) wait = std::min(wait, UntilNextEvaluation(policy));
  }
  return wait;
}

bool SoloCommander::ReachesStopValue(const CollectorTask& task,
                                     const CollectorFinished& info) const {
  if (info.episode_return_size() < (task.has_confirmation() ? 2 : 1)) return false;
  const double score = EvalScore(info);
  const double value =
      task.has_confirmation() ? EstimateReturn(info.episode_return(), score).lower_bound() : score;
  return value >= options_.stop_value && info.train_iter() > 0 &&
         absl::Nanoseconds(RunNanos()) >= absl::Seconds(options_.stop_after_seconds);
}

bool SoloCommander::WouldConverge(const CollectorTask& task, const CollectorFinished& info) const {
  const TrainedPolicy* const policy = Find(task.policy_id());
  // The last evaluation of a single policy may end after its training: then the policy is gone.
  const bool may = policy == nullptr ? !trains_several() : !policy->converged();
  return task.eval_flag() && may && task.has_confirmation() == options_.confirms &&
         ReachesStopValue(task, info);
}

bool SoloCommander::TakeTaskOfRound(const TrainedPolicy& policy) {
  if (!policy.has_newest()) return false;
  if (policy.newest().version() != round_version_) round_tasks_ = 0;
  round_version_ = policy.newest().version();
  return round_tasks_++ < options_.collector_task_space;
}

std::optional<CollectorTask> SoloCommander::GetCollectorTask() {
  if (converged() || collector_space_.full()) return std::nullopt;
  TrainedPolicy* const policy = NextInTurn();
  if (policy == nullptr) return std::nullopt;
  const PolicyVersion* const other = options_.has_opponent ? NewestOfOther(*policy) : nullptr;
  if (options_.has_opponent && (other == nullptr || !policy->has_newest())) return std::nullopt;
  if (options_.lockstep && !TakeTaskOfRound(*policy)) return std::nullopt;
  collector_space_.Take();
  policy->set_running(policy->running() + 1);
  CollectorTask task;
  const bool confirms = policy->has_to_confirm() && !policy->evaluating();
  task.set_eval_flag(confirms || EvaluationIsDue(*policy));
  if (confirms) {
    state_.set_confirmations(state_.confirmations() + 1);
    task.set_confirmation(state_.confirmations());
    *task.mutable_policy() = policy->to_confirm();
  }
  if (task.eval_flag()) {
    policy->set_evaluating(true);
    policy->set_eval_began_nanos(RunNanos());
    task.set_number(state_.evaluations());
    state_.set_evaluations(state_.evaluations() + 1);
  } else {
    task.set_number(state_.collections());
    state_.set_collections(state_.collections() + 1);
  }
  policy->set_collected_since_evaluation(!task.eval_flag());
  task.set_task_id(absl::StrCat("collector_task_", state_.collector_tasks()));
  state_.set_collector_tasks(state_.collector_tasks() + 1);
  task.set_buffer_id(policy->task().buffer_id());
  task.set_policy_id(policy->task().policy_id());
  AddCollectSetting(*policy, &task);
  if (other != nullptr) AddPlayers(*policy, *other, &task);
  *task.mutable_resources() = options_.collector_resources;
  return task;
}

TrainedPolicy* SoloCommander::AddPolicy() {
  TrainedPolicy policy;
  LearnerTask* const task = policy.mutable_task();
  task->set_policy_id(absl::StrCat("policy_", state_.models()));
  task->set_buffer_id(absl::StrCat("buffer_", state_.models()));
  if (options_.has_opponent) {
    NameAgainstOpponent(task);
  } else if (trains_several()) {
    task->set_name(task->policy_id());
  }
  state_.set_models(state_.models() + 1);
  *task->mutable_resources() = options_.learner_resources;
  policy.set_collected_since_evaluation(true);
  // If policies are trained one after the other, the next one continues the count of env steps.
  policy.set_env_steps(trains_several() ? options_.first_env_step : total_collector_env_step());
  std::optional<int64_t> last;
  for (const TrainedPolicy& other : policies()) {
    if (!other.converged()) last = std::min(last.value_or(other.turn_steps()), other.turn_steps());
  }
  policy.set_turn_steps(last.value_or(0));
  if (options_.prepare) options_.prepare(policies(), task);
  *state_.add_policy() = std::move(policy);
  return &*state_.mutable_policy()->rbegin();
}

std::optional<LearnerTask> SoloCommander::GetLearnerTask() {
  if (converged() || learner_space_.full()) return std::nullopt;
  TrainedPolicy* policy = nullptr;
  // The policies of tasks that failed may be finished meanwhile.
  auto* const failed = state_.mutable_failed_learner_task();
  while (!failed->empty() && policy == nullptr) {
    policy = Find(failed->begin()->policy_id());
    if (policy != nullptr) {
      *policy->mutable_task() = std::move(*failed->begin());
      policy->mutable_task()->set_resume(true);
    }
    failed->erase(failed->begin());
  }
  if (policy == nullptr) {
    if (policies().size() >= options_.learner_task_space) return std::nullopt;
    policy = AddPolicy();
  }
  learner_space_.Take();
  policy->mutable_task()->set_task_id(absl::StrCat("learner_task_", state_.learner_tasks()));
  state_.set_learner_tasks(state_.learner_tasks() + 1);
  return policy->task();
}

void SoloCommander::ReleaseCollectorTask(const CollectorTask& task) {
  collector_space_.Release();
  TrainedPolicy* const policy = Find(task.policy_id());
  if (policy == nullptr) return;
  policy->set_running(policy->running() - 1);
  if (task.eval_flag()) policy->set_evaluating(false);
}

bool SoloCommander::FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) {
  ReleaseCollectorTask(task);
  if (task.eval_flag()) {
    NoteEvaluation(task, info);
  } else {
    NoteCollected(task, info);
  }
  return converged();
}

void SoloCommander::NoteEvaluation(const CollectorTask& task, const CollectorFinished& info) {
  TrainedPolicy* policy = Find(task.policy_id());
  TrainedPolicy gone;
  if (policy == nullptr) {
    if (trains_several()) return;  // the task of a policy that was given up
    gone.set_env_steps(total_collector_env_step());
    policy = &gone;
  }
  Measure(task.has_confirmation() ? "confirmation" : "evaluator", *policy, info);
  if (task.has_confirmation()) policy->clear_to_confirm();
  if (info.episode_return_size() == 0 || policy->converged()) return;
  policy->set_converged(SoloCommander::WouldConverge(task, info) && MayConverge());
  NoteBest(task, info, policy);
  if (task.has_confirmation()) {
    NoteConfirmation(info);
    EndTraining(task.policy_id(), *policy);
    return;
  }
  policy->set_evaluations(policy->evaluations() + 1);
  *policy->mutable_eval_return() = info.episode_return();
  policy->set_eval_score(EvalScore(info));
  const TrainedPolicy* lowest = policy;
  for (const TrainedPolicy& other : policies()) {
    const std::optional<double> value = EvalValue(other);
    if (value.has_value() && *value < *EvalValue(*lowest)) lowest = &other;
  }
  *state_.mutable_last_eval_return() = lowest->eval_return();
  state_.set_last_eval_score(*EvalValue(*lowest));
  EndTraining(task.policy_id(), *policy);
}

void SoloCommander::NoteConfirmation(const CollectorFinished& info) {
  if (info.episode_return_size() < 2) return;
  const ReturnEstimate estimate = EstimateReturn(info.episode_return(), EvalScore(info));
  state_.mutable_confirmation()->set_episodes(estimate.episodes);
  state_.mutable_confirmation()->set_mean(estimate.mean);
  state_.mutable_confirmation()->set_standard_error(estimate.standard_error);
  DING_LOG(INFO) << "confirmation: the mean return of " << estimate.episodes
                 << " fresh episodes is " << estimate.mean << ", with a standard error of "
                 << estimate.standard_error;
}

void SoloCommander::NoteBest(const CollectorTask& task, const CollectorFinished& info,
                             TrainedPolicy* policy) {
  // The result says nothing about the version of the task if the collector could not read it and
  // took another one.
  const PolicyVersion& version = task.policy();
  if (version.key().empty() || version.version() != info.policy_version()) return;
  if (options_.confirms && !task.has_confirmation() && ReachesStopValue(task, info) &&
      MayConverge()) {
    *policy->mutable_to_confirm() =
        version;  // Its confirmation will count in the place of this lucky result.
    return;
  }
  const absl::StatusOr<double> score = ValueOf(EvaluationOf(info), options_.best_by);
  auto* const bests = state_.mutable_best();
  const std::string& name = policy->task().name();
  const auto known = std::find_if(bests->begin(), bests->end(),
                                  [&name](const BestPolicy& one) { return one.name() == name; });
  if (known == bests->end()) status_.Update(Annotate(score.status(), "env.best_by"));
  if (!score.ok() || std::isnan(*score)) return;
  if (known != bests->end() && !(*score > known->mean_return())) return;
  BestPolicy& best = known == bests->end() ? *bests->Add() : *known;
  best.set_name(name);
  *best.mutable_policy() = version;
  best.mutable_policy()->set_train_iter(info.train_iter());
  best.set_mean_return(*score);
  best.set_env_step(policy->env_steps());
  *best.mutable_setting() = policy->task().setting();
}

void SoloCommander::EndTraining(const std::string& policy_id, const TrainedPolicy& policy) {
  if (!policy.converged()) return;
  auto* const failed = state_.mutable_failed_learner_task();
  failed->erase(std::remove_if(failed->begin(), failed->end(),
                               [&policy_id](const LearnerTask& task) {
                                 return task.policy_id() == policy_id;
                               }),
                failed->end());
  const auto converged = std::count_if(policies().begin(), policies().end(),
                                       [](const TrainedPolicy& p) { return p.converged(); });
  const int wanted = options_.has_opponent ? 1 : options_.learner_task_space;
  state_.set_converged(!trains_several() || converged >= wanted);
  DING_LOG_IF(INFO, trains_several())
      << policy_id << " has converged: " << converged << " of " << wanted << " policies have";
}

void SoloCommander::NoteCollected(const CollectorTask& task, const CollectorFinished& info) {
  state_.set_total_collector_env_step(SaturatingSum(total_collector_env_step(), info.step_count()));
  TrainedPolicy* const policy = Find(task.policy_id());
  if (policy == nullptr) return;
  policy->set_env_steps(SaturatingSum(policy->env_steps(), info.step_count()));
  policy->set_turn_steps(SaturatingSum(policy->turn_steps(), info.step_count()));
  policy->set_sample_count(SaturatingSum(policy->sample_count(), info.sample_count()));
  policy->set_episode_count(policy->episode_count() + info.episode_return_size());
  auto& [collected, measured_nanos, measured_train_iter] = unmeasured_[task.policy_id()];
  collected.set_train_iter(info.train_iter());
  collected.set_step_count(SaturatingSum(collected.step_count(), info.step_count()));
  collected.set_sample_count(SaturatingSum(collected.sample_count(), info.sample_count()));
  collected.set_abnormal_episode_count(
      SaturatingSum(collected.abnormal_episode_count(), info.abnormal_episode_count()));
  collected.set_duration_seconds(collected.duration_seconds() + info.duration_seconds());
  collected.mutable_episode_return()->MergeFrom(info.episode_return());
  const int64_t now = deps_.clock->MonotonicNanos();
  const bool too_early = measured_nanos.has_value() &&
                         absl::Nanoseconds(now - *measured_nanos) < options_.log_interval;
  // The iteration is smaller if another learner began anew.
  const bool too_near =
      measured_nanos.has_value() && info.train_iter() >= measured_train_iter &&
      info.train_iter() < SaturatingSum(measured_train_iter, options_.log_train_iters);
  if (too_early || too_near) return;
  measured_nanos = now;
  measured_train_iter = info.train_iter();
  Measure("collector", *policy, collected);
  collected.Clear();
}

void SoloCommander::Measure(absl::string_view kind, const TrainedPolicy& policy,
                            const CollectorFinished& info) {
  const bool evaluates = kind != "collector";
  const NamedValues metrics = MetricsOf(evaluates, policy, info);
  const std::string what =
      absl::StrCat(policy.task().name(), policy.task().name().empty() ? "" : "_", kind);
  // The iteration is -1 if no parameters acted; charts begin at 0.
  const int64_t train_iter = std::max<int64_t>(info.train_iter(), 0);
  DING_LOG(INFO) << what << " at iteration " << train_iter << ": " << MetricsLine(metrics);
  // A run that does not collect has no env steps; -1 makes WriteMetrics() write over train
  // iterations.
  WriteMetrics(metrics, what, train_iter, options_.collects ? policy.env_steps() : -1,
               "total_envstep_count", deps_.metrics.get());
  if (!evaluates) return;
  const absl::Status flushed = deps_.metrics->Flush();
  DING_LOG_IF(WARNING, !flushed.ok())
      << "some of the metrics could not be written: " << flushed.message();
}

NamedValues SoloCommander::MetricsOf(bool eval_flag, const TrainedPolicy& policy,
                                     const CollectorFinished& info) const {
  const double episodes = info.episode_return_size();
  const double steps = static_cast<double>(info.step_count());
  const double samples = static_cast<double>(info.sample_count());
  const double seconds = info.duration_seconds();
  NamedValues metrics = {
      {"episode_count", episodes},
      {"abnormal_episode_count", static_cast<double>(info.abnormal_episode_count())},
      {"envstep_count", steps},
      {"avg_envstep_per_episode", Ratio(steps, episodes)},
      {"avg_envstep_per_sec", Ratio(steps, seconds)},
      {"avg_time_per_step", Ratio(seconds, steps)},
      {"avg_time_per_episode", Ratio(seconds, episodes)}};
  if (eval_flag) {
    metrics.Set("evaluate_time", seconds);
    if (info.has_eval_score()) metrics.Set("score", info.eval_score());
    for (const InfoValue& value : info.info()) {
      const std::string name = EnvStatisticName(value.name());
      metrics.Set(name + "_mean", value.mean());
      if (value.count() == info.episode_return_size()) continue;
      metrics.Set(name + "_count", static_cast<double>(value.count()));
    }
  } else {
    metrics.Set("train_sample_count", samples);
    metrics.Set("avg_sample_per_episode", Ratio(samples, episodes));
    metrics.Set("avg_train_sample_per_sec", Ratio(samples, seconds));
    metrics.Set("avg_episode_per_sec", Ratio(episodes, seconds));
    metrics.Set("collect_time", seconds);
    metrics.Set("total_envstep_count", static_cast<double>(policy.env_steps()));
    metrics.Set("total_train_sample_count", static_cast<double>(policy.sample_count()));
    metrics.Set("total_episode_count", static_cast<double>(policy.episode_count()));
  }
  if (episodes > 0) AddStatistics("reward", info.episode_return(), &metrics);
  return metrics;
}

bool SoloCommander::JudgeLearnerFinish(const LearnerInfo& info) const {
  const auto is_over = [this, &info](const TrainedPolicy& policy) {
    return policy.task().task_id() == info.task_id() &&
           (policy.converged() || (options_.give_up && options_.give_up(policy, policies())));
  };
  return info.learner_done() || std::any_of(policies().begin(), policies().end(), is_over);
}

std::string SoloCommander::FinishLearnerTask(const LearnerTask& task) {
  learner_space_.Release();
  const auto is_over = [&task](const TrainedPolicy& policy) {
    return policy.task().policy_id() == task.policy_id() && !policy.converged();
  };
  auto* const policies = state_.mutable_policy();
  policies->erase(std::remove_if(policies->begin(), policies->end(), is_over), policies->end());
  unmeasured_.erase(task.policy_id());
  return task.buffer_id();
}

void SoloCommander::NotifyFailCollectorTask(const CollectorTask& task) {
  ReleaseCollectorTask(task);
}

void SoloCommander::NotifyFailLearnerTask(const LearnerTask& task) {
  learner_space_.Release();
  const TrainedPolicy* const policy = Find(task.policy_id());
  if (policy != nullptr && !policy->converged()) *state_.add_failed_learner_task() = task;
}

void SoloCommander::UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) {
  TrainedPolicy* const policy = Find(task.policy_id());
  if (policy != nullptr) policy->set_learner_step(info.learner_step());
}

void SoloCommander::PolicyPublished(const PolicyVersion& version) {
  TrainedPolicy* const policy = Find(version.policy_id());
  if (policy != nullptr) *policy->mutable_newest() = version;
}

bool SoloCommander::KeepsPolicy(const PolicyVersion& version) const {
  for (const BestPolicy& best : state_.best()) {
    if (best.policy().key() == version.key()) return true;
  }
  return std::any_of(policies().begin(), policies().end(), [&version](const TrainedPolicy& policy) {
    if (policy.has_to_confirm() && policy.to_confirm().key() == version.key()) return true;
    return policy.converged() && policy.has_newest() && policy.newest().key() == version.key();
  });
}

}  // namespace ding
