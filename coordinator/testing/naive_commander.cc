#include "ding_worker/coordinator/testing/naive_commander.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"

namespace ding {
namespace {

constexpr char kBufferId[] = "test";
constexpr char kPolicyId[] = "test.pth";
constexpr double kEpsilon = 0.9;

}  // namespace

std::vector<std::string> NaiveCommander::Problems(const Options& options) {
  std::vector<std::string> problems;
  TaskSpace::AppendProblems(options.collector_task_space, "collector_task_space", &problems);
  TaskSpace::AppendProblems(options.learner_task_space, "learner_task_space", &problems);
  return problems;
}

absl::StatusOr<std::unique_ptr<NaiveCommander>> NaiveCommander::Create(const Options& options) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(options), "naive commander"));
  return absl::WrapUnique(new NaiveCommander(options));
}

NaiveCommander::NaiveCommander(const Options& options)
    : collector_space_(options.collector_task_space), learner_space_(options.learner_task_space) {}

std::optional<CollectorTask> NaiveCommander::GetCollectorTask() {
  if (collector_space_.full()) return std::nullopt;
  collector_space_.Take();
  CollectorTask task;
  task.set_number(collector_tasks_++);
  task.set_task_id(absl::StrCat("collector_task_id", collector_tasks_));
  task.set_buffer_id(kBufferId);
  task.set_policy_id(kPolicyId);
  task.set_eval_flag(false);
  Setting* const setting = task.add_collect_setting();
  setting->set_name("eps");
  setting->set_value(kEpsilon);
  return task;
}

std::optional<LearnerTask> NaiveCommander::GetLearnerTask() {
  if (learner_space_.full()) return std::nullopt;
  learner_space_.Take();
  LearnerTask task;
  task.set_task_id(absl::StrCat("learner_task_id", ++learner_tasks_));
  task.set_buffer_id(kBufferId);
  task.set_policy_id(kPolicyId);
  return task;
}

bool NaiveCommander::FinishCollectorTask(const CollectorTask& /*task*/,
                                         const CollectorFinished& info) {
  collector_space_.Release();
  ++finished_collector_tasks_;
  total_collector_env_step_ = SaturatingSum(total_collector_env_step_, info.step_count());
  return false;
}

std::string NaiveCommander::FinishLearnerTask(const LearnerTask& task) {
  learner_space_.Release();
  ++finished_learner_tasks_;
  return task.buffer_id();
}

void NaiveCommander::NotifyFailCollectorTask(const CollectorTask& /*task*/) {
  collector_space_.Release();
}

void NaiveCommander::NotifyFailLearnerTask(const LearnerTask& /*task*/) {
  learner_space_.Release();
}

void NaiveCommander::UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) {
  learner_infos_[task.task_id()].push_back(info);
}

void NaiveCommander::IncreaseCollectorTaskSpace() { collector_space_.Increase(); }

void NaiveCommander::DecreaseCollectorTaskSpace() { collector_space_.Decrease(); }

std::vector<LearnerInfo> NaiveCommander::learner_infos(const std::string& task_id) const {
  const auto it = learner_infos_.find(task_id);
  return it == learner_infos_.end() ? std::vector<LearnerInfo>() : it->second;
}

}  // namespace ding
