#include "ding_worker/coordinator/commander/solo_commander.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

template <typename Values>
double MeanOf(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
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
  if (std::isnan(options.stop_value)) {
    problems.push_back("stop_value is NaN, expected a number");
  }
  if (!(options.stop_after_seconds >= 0)) {
    problems.push_back(absl::StrCat("stop_after_seconds is ", options.stop_after_seconds,
                                    ", expected at least 0 seconds"));
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
      learner_space_(options.learner_task_space),
      total_collector_env_step_(options.first_env_step) {}

bool SoloCommander::EvaluationIsDue() const {
  if (evaluating_) return false;
  if (!eval_began_nanos_.has_value()) return true;
  if (!collected_since_evaluation_) return false;
  const int64_t nanos = deps_.clock->MonotonicNanos() - *eval_began_nanos_;
  return absl::Nanoseconds(nanos) > absl::Seconds(options_.eval_interval);
}

bool SoloCommander::WouldConverge(const CollectorTask& task, const CollectorFinished& info) const {
  return task.eval_flag() && info.episode_return_size() > 0 &&
         MeanOf(info.episode_return()) >= options_.stop_value && info.train_iter() > 0 &&
         absl::Nanoseconds(deps_.clock->MonotonicNanos() - made_nanos_) >=
             absl::Seconds(options_.stop_after_seconds);
}

void SoloCommander::AddCollectSetting(bool eval_flag, CollectorTask* task) const {
  if (policy_ == nullptr) return;
  const NamedValues info = {{"learner_step", static_cast<double>(learner_step_)},
                            {"envstep", static_cast<double>(total_collector_env_step_)}};
  const NamedValues settings =
      eval_flag ? policy_->GetSettingEval(info) : policy_->GetSettingCollect(info);
  for (const auto& [name, value] : settings) {
    Setting* const setting = task->add_collect_setting();
    setting->set_name(name);
    setting->set_value(value);
  }
}

std::optional<CollectorTask> SoloCommander::GetCollectorTask() {
  if (converged_ || collector_space_.full() || current_policy_id_.empty()) return std::nullopt;
  collector_space_.Take();
  CollectorTask task;
  task.set_eval_flag(EvaluationIsDue());
  if (task.eval_flag()) {
    evaluating_ = true;
    eval_began_nanos_ = deps_.clock->MonotonicNanos();
  }
  collected_since_evaluation_ = !task.eval_flag();
  task.set_number(task.eval_flag() ? evaluations_++ : collections_++);
  task.set_task_id(absl::StrCat("collector_task_", collector_tasks_++));
  task.set_buffer_id(current_buffer_id_);
  task.set_policy_id(current_policy_id_);
  AddCollectSetting(task.eval_flag(), &task);
  *task.mutable_resources() = options_.collector_resources;
  return task;
}

std::optional<LearnerTask> SoloCommander::GetLearnerTask() {
  if (converged_ || learner_space_.full()) return std::nullopt;
  learner_space_.Take();
  LearnerTask task;
  if (failed_learner_tasks_.empty()) {
    task.set_policy_id(absl::StrCat("policy_", models_));
    task.set_buffer_id(absl::StrCat("buffer_", models_));
    ++models_;
    current_policy_id_ = task.policy_id();
    current_buffer_id_ = task.buffer_id();
    *task.mutable_resources() = options_.learner_resources;
  } else {
    task = std::move(failed_learner_tasks_.front());
    failed_learner_tasks_.pop_front();
    task.set_resume(true);
  }
  task.set_task_id(absl::StrCat("learner_task_", learner_tasks_++));
  return task;
}

void SoloCommander::ReleaseCollectorTask(const CollectorTask& task) {
  collector_space_.Release();
  if (task.eval_flag()) evaluating_ = false;
}

bool SoloCommander::FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) {
  ReleaseCollectorTask(task);
  if (!task.eval_flag()) {
    NoteCollected(info);
    return converged_;
  }
  Measure(/*eval_flag=*/true, info);
  if (info.episode_return_size() == 0) return converged_;
  last_eval_returns_.assign(info.episode_return().begin(), info.episode_return().end());
  last_eval_value_ = MeanOf(info.episode_return());
  const bool converges =
      WouldConverge(task, info) && (!options_.may_converge || options_.may_converge());
  converged_ = converged_ || converges;
  return converged_;
}

void SoloCommander::NoteCollected(const CollectorFinished& info) {
  total_collector_env_step_ += info.step_count();
  total_sample_count_ += info.sample_count();
  total_episode_count_ += info.episode_return_size();
  collected_.set_train_iter(info.train_iter());
  collected_.set_step_count(collected_.step_count() + info.step_count());
  collected_.set_sample_count(collected_.sample_count() + info.sample_count());
  collected_.set_duration_seconds(collected_.duration_seconds() + info.duration_seconds());
  collected_.mutable_episode_return()->MergeFrom(info.episode_return());
  const int64_t now = deps_.clock->MonotonicNanos();
  if (measured_nanos_.has_value() &&
      absl::Nanoseconds(now - *measured_nanos_) < options_.log_interval) {
    return;
  }
  measured_nanos_ = now;
  Measure(/*eval_flag=*/false, collected_);
  collected_.Clear();
}

void SoloCommander::Measure(bool eval_flag, const CollectorFinished& info) {
  const NamedValues metrics = MetricsOf(eval_flag, info);
  const absl::string_view what = eval_flag ? "evaluator" : "collector";
  // -1: no parameters acted; a chart begins at 0.
  const int64_t train_iter = std::max<int64_t>(info.train_iter(), 0);
  DING_LOG(INFO) << what << " at iteration " << train_iter << ": " << MetricsLine(metrics);
  WriteIterMetrics(metrics, what, train_iter, deps_.metrics.get());
  WriteStepMetrics(metrics, what, total_collector_env_step_, "total_envstep_count",
                   deps_.metrics.get());
}

NamedValues SoloCommander::MetricsOf(bool eval_flag, const CollectorFinished& info) const {
  const double episodes = info.episode_return_size();
  const double steps = static_cast<double>(info.step_count());
  const double samples = static_cast<double>(info.sample_count());
  const double seconds = info.duration_seconds();
  NamedValues metrics = {{"episode_count", episodes},
                         {"envstep_count", steps},
                         {"avg_envstep_per_episode", Ratio(steps, episodes)},
                         {"avg_envstep_per_sec", Ratio(steps, seconds)},
                         {"avg_time_per_step", Ratio(seconds, steps)},
                         {"avg_time_per_episode", Ratio(seconds, episodes)}};
  if (eval_flag) {
    metrics.Set("evaluate_time", seconds);
  } else {
    metrics.Set("train_sample_count", samples);
    metrics.Set("avg_sample_per_episode", Ratio(samples, episodes));
    metrics.Set("avg_train_sample_per_sec", Ratio(samples, seconds));
    metrics.Set("avg_episode_per_sec", Ratio(episodes, seconds));
    metrics.Set("collect_time", seconds);
    metrics.Set("total_envstep_count", static_cast<double>(total_collector_env_step_));
    metrics.Set("total_train_sample_count", static_cast<double>(total_sample_count_));
    metrics.Set("total_episode_count", static_cast<double>(total_episode_count_));
  }
  if (episodes > 0) AddStatistics("reward", info.episode_return(), &metrics);
  return metrics;
}

void SoloCommander::FinishLearnerTask(const LearnerTask& task) {
  learner_space_.Release();
  if (task.policy_id() != current_policy_id_) return;
  current_policy_id_.clear();
  current_buffer_id_.clear();
  learner_step_ = 0;
  // The next policy begins with an evaluation, as the first one did.
  eval_began_nanos_.reset();
}

void SoloCommander::NotifyFailCollectorTask(const CollectorTask& task) {
  ReleaseCollectorTask(task);
}

void SoloCommander::NotifyFailLearnerTask(const LearnerTask& task) {
  learner_space_.Release();
  failed_learner_tasks_.push_back(task);
}

// Moments are saved as how long they were ago; what is collected since the last measurement is not
// saved.
absl::Status SoloCommander::SaveState(StateWriter* writer) const {
  const int64_t now = deps_.clock->MonotonicNanos();
  const std::pair<const char*, int64_t> numbers[] = {
      {"collectors_running", collector_space_.running()},
      {"learners_running", learner_space_.running()},
      {"collector_tasks", collector_tasks_},
      {"learner_tasks", learner_tasks_},
      {"collections", collections_},
      {"evaluations", evaluations_},
      {"models", models_},
      {"learner_step", learner_step_},
      {"evaluating", evaluating_ ? 1 : 0},
      {"nanos_since_evaluation", eval_began_nanos_.has_value() ? now - *eval_began_nanos_ : -1},
      {"nanos_since_made", now - made_nanos_},
      {"collected_since_evaluation", collected_since_evaluation_ ? 1 : 0},
      {"total_collector_env_step", total_collector_env_step_},
      {"total_sample_count", total_sample_count_},
      {"total_episode_count", total_episode_count_},
      {"converged", converged_ ? 1 : 0},
      {"has_current", current_policy_id_.empty() ? 0 : 1},
      {"last_eval_returns_size", static_cast<int64_t>(last_eval_returns_.size())},
      {"failed_learner_tasks", static_cast<int64_t>(failed_learner_tasks_.size())}};
  for (const auto& [name, number] : numbers) DING_RETURN_IF_ERROR(writer->WriteInt(name, number));
  if (!current_policy_id_.empty()) {
    DING_RETURN_IF_ERROR(writer->WriteString("current_policy_id", current_policy_id_));
    DING_RETURN_IF_ERROR(writer->WriteString("current_buffer_id", current_buffer_id_));
  }
  if (!last_eval_returns_.empty()) {
    DING_RETURN_IF_ERROR(writer->WriteSpan<double>("last_eval_returns", last_eval_returns_));
  }
  for (size_t i = 0; i < failed_learner_tasks_.size(); ++i) {
    DING_RETURN_IF_ERROR(writer->WriteString(absl::StrCat("failed_learner_task/", i),
                                             failed_learner_tasks_[i].SerializeAsString()));
  }
  return absl::OkStatus();
}

absl::Status SoloCommander::LoadState(StateReader* reader) {
  std::map<std::string, int64_t> number;
  for (const char* name :
       {"collectors_running", "learners_running", "collector_tasks", "learner_tasks", "collections",
        "evaluations", "models", "learner_step", "evaluating", "nanos_since_evaluation",
        "nanos_since_made", "collected_since_evaluation", "total_collector_env_step",
        "total_sample_count", "total_episode_count", "converged", "has_current",
        "last_eval_returns_size", "failed_learner_tasks"}) {
    DING_ASSIGN_OR_RETURN(number[name], reader->ReadInt(name));
  }
  std::string policy_id;
  std::string buffer_id;
  if (number["has_current"] != 0) {
    DING_ASSIGN_OR_RETURN(policy_id, reader->ReadString("current_policy_id"));
    DING_ASSIGN_OR_RETURN(buffer_id, reader->ReadString("current_buffer_id"));
  }
  // The size is compared with the tensor before memory is taken: the numbers come from a file.
  std::vector<double> returns;
  if (number["last_eval_returns_size"] != 0) {
    DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info("last_eval_returns"));
    if (info.shape != Shape{number["last_eval_returns_size"]}) {
      return absl::DataLossError(absl::StrCat("solo commander: last_eval_returns are not the ",
                                              number["last_eval_returns_size"],
                                              " that last_eval_returns_size says"));
    }
    returns.resize(static_cast<size_t>(number["last_eval_returns_size"]));
    DING_RETURN_IF_ERROR(reader->ReadSpan("last_eval_returns", absl::MakeSpan(returns)));
  }
  std::deque<LearnerTask> failed;
  for (int64_t i = 0; i < number["failed_learner_tasks"]; ++i) {
    const std::string name = absl::StrCat("failed_learner_task/", i);
    DING_ASSIGN_OR_RETURN(const std::string bytes, reader->ReadString(name));
    const absl::Status parsed = ParseProto(bytes, &failed.emplace_back());
    if (!parsed.ok()) {
      return absl::DataLossError(
          absl::StrCat("solo commander: ", name, " is not a task: ", parsed.message()));
    }
  }
  const int64_t now = deps_.clock->MonotonicNanos();
  collector_space_.Restore(static_cast<int>(number["collectors_running"]));
  learner_space_.Restore(static_cast<int>(number["learners_running"]));
  collector_tasks_ = number["collector_tasks"];
  learner_tasks_ = number["learner_tasks"];
  collections_ = number["collections"];
  evaluations_ = number["evaluations"];
  models_ = number["models"];
  learner_step_ = number["learner_step"];
  evaluating_ = number["evaluating"] != 0;
  eval_began_nanos_.reset();
  if (number["nanos_since_evaluation"] >= 0) {
    eval_began_nanos_ = now - number["nanos_since_evaluation"];
  }
  made_nanos_ = now - number["nanos_since_made"];
  collected_since_evaluation_ = number["collected_since_evaluation"] != 0;
  total_collector_env_step_ = number["total_collector_env_step"];
  total_sample_count_ = number["total_sample_count"];
  total_episode_count_ = number["total_episode_count"];
  converged_ = number["converged"] != 0;
  current_policy_id_ = std::move(policy_id);
  current_buffer_id_ = std::move(buffer_id);
  last_eval_returns_ = std::move(returns);
  last_eval_value_.reset();
  if (!last_eval_returns_.empty()) last_eval_value_ = MeanOf(last_eval_returns_);
  failed_learner_tasks_ = std::move(failed);
  return absl::OkStatus();
}

void SoloCommander::UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) {
  if (task.policy_id() == current_policy_id_) learner_step_ = info.learner_step();
}

}  // namespace ding
