// The envs of the tasks of one collector, one task after the other.
//
// Types of envs that run in programs of their own, such as Python, take long to start, because
// each process is an interpreter that imports the env. Their envs stay open for the next task that
// needs the same ones: one manager for the tasks that collect and one for those that evaluate. In
// a task they begin new episodes by its seeds. All other envs are made anew for each task.
//
// Threads: thread-compatible. The envs of a task must be gone before the next Make().
#ifndef DING_WORKER_WORKER_TASKS_TASK_ENVS_H_
#define DING_WORKER_WORKER_TASKS_TASK_ENVS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {

class TaskEnvs {
 public:
  // `index`: of the collector among those of its run (EnvPlace).
  explicit TaskEnvs(int index) { place_.index = index; }

  // Returns the envs of the task, which are closed and not seeded. The errors are those of
  // MakeEnvManager().
  absl::StatusOr<std::shared_ptr<EnvManager>> Make(const ExperimentConfig& config,
                                                   const CollectorTask& task, const Clock* clock);

 private:
  struct Kept {
    std::string key;  // says which envs they are
    std::shared_ptr<EnvManager> envs;
  };

  EnvPlace place_;
  Kept collecting_;
  Kept evaluating_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_TASK_ENVS_H_
