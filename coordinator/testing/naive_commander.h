// A commander to try out a coordinator: it gives the same tasks over and over, for one buffer and
// one policy.
//
// Ownership, threads: as BaseCommander.
#ifndef DING_WORKER_COORDINATOR_TESTING_NAIVE_COMMANDER_H_
#define DING_WORKER_COORDINATOR_TESTING_NAIVE_COMMANDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class NaiveCommander : public BaseCommander {
 public:
  struct Options {
    int collector_task_space = 1;
    int learner_task_space = 1;
  };
  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // kInvalidArgument lists the options that are out of range.
  static absl::StatusOr<std::unique_ptr<NaiveCommander>> Create(const Options& options);

  // Returns task "collector_task_id<n>" for buffer "test" and policy "test.pth", with eps 0.9. It
  // is never an evaluation.
  std::optional<CollectorTask> GetCollectorTask() override;
  // Returns task "learner_task_id<n>" for the same buffer and policy.
  std::optional<LearnerTask> GetLearnerTask() override;
  // Returns false: the run never converges.
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override;
  std::string FinishLearnerTask(const LearnerTask& task) override;
  void NotifyFailCollectorTask(const CollectorTask& task) override;
  void NotifyFailLearnerTask(const LearnerTask& task) override;
  void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) override;
  void IncreaseCollectorTaskSpace() override;
  void DecreaseCollectorTaskSpace() override;
  int64_t total_collector_env_step() const override { return total_collector_env_step_; }
  std::optional<double> last_eval_value() const override { return std::nullopt; }
  std::vector<double> last_eval_returns() const override { return {}; }

  const TaskSpace& collector_space() const { return collector_space_; }
  const TaskSpace& learner_space() const { return learner_space_; }
  int64_t finished_collector_tasks() const { return finished_collector_tasks_; }
  int64_t finished_learner_tasks() const { return finished_learner_tasks_; }
  // All reports about the task with this id.
  std::vector<LearnerInfo> learner_infos(const std::string& task_id) const;

 private:
  explicit NaiveCommander(const Options& options);

  TaskSpace collector_space_;
  TaskSpace learner_space_;
  int64_t collector_tasks_ = 0;  // the number of tasks that were given
  int64_t learner_tasks_ = 0;
  int64_t finished_collector_tasks_ = 0;
  int64_t finished_learner_tasks_ = 0;
  int64_t total_collector_env_step_ = 0;
  std::map<std::string, std::vector<LearnerInfo>> learner_infos_;  // by task id
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TESTING_NAIVE_COMMANDER_H_
