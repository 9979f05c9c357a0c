// The config of a task, which is the run's config with the settings that the commander gave the
// task; and the layout of the data that collectors send.
//
// commander ── StartTask.setting ──► coordinator ── TaskSettings::Check ─┬─► worker ── ConfigOfTask
//                                                                        └─► given back
//
// A learner task may change policy.params, policy.learn, policy.other.replay_buffer, the discount
// factor, nstep and the priorities, and the learner's buffer is made from the changed config. A
// collector task may change env, policy.params, policy.collect.n_sample and
// policy.collect.parallel_collector. What all tasks have in common stays: the layout of the rows
// and of the items of the buffer, the observations and actions of the env, and what ends the run.
//
// Threads: the functions are thread-safe, TaskSettings is thread-compatible.
// Errors:  kInvalidArgument names the commander, the task and the field.
#ifndef DING_WORKER_WORKER_TASKS_TASK_CONFIG_H_
#define DING_WORKER_WORKER_TASKS_TASK_CONFIG_H_

#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

absl::StatusOr<ExperimentConfig> ConfigOfTask(const ExperimentConfig& run, const LearnerTask& task);
absl::StatusOr<ExperimentConfig> ConfigOfTask(const ExperimentConfig& run,
                                              const CollectorTask& task);

// The config of the coordinator's buffer, for rows that `rows` describes: its rows are items, so
// that returns are computed where the data are read.
BufferConfig CoordinatorBufferConfig(const BufferConfig& rows);

// Checks the settings of tasks in the coordinator's process, before a worker is given the task.
// Each combination of settings is checked once.
class TaskSettings {
 public:
  // `env` is the spec of the run's env, as one player sees it. `rows` is the spec of the rows that
  // are collected in it; null: unknown.
  TaskSettings(const ExperimentConfig& run, const EnvSpec& env, SpecPtr rows, const Clock* clock)
      : run_(run), env_(env), rows_(std::move(rows)), clock_(clock) {}

  // May make envs, policies and buffers, which it drops again.
  absl::Status Check(const StartTask& task);

 private:
  absl::Status CheckLearner(const LearnerTask& task) const;
  absl::Status CheckCollector(const CollectorTask& task) const;
  absl::Status CheckRows(const ExperimentConfig& config, const EnvSpec& env) const;

  const ExperimentConfig run_;
  const EnvSpec env_;
  const SpecPtr rows_;
  const Clock* const clock_;
  std::set<std::string> valid_;  // combinations of settings
};

// Returns the layout of rows that `policy` makes of an env as `player` sees it. The learner and the
// coordinator check received data against it, since they do not trust collectors. The result is
// without layouts if the policy cannot process one row of zeros (CollectMode::GetTrainSample()).
// Thread-safe where the policy is.
absl::StatusOr<CollectedLayout> LayoutOfCollected(const EnvSpec& player, CollectMode* policy);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_TASK_CONFIG_H_
