// Trains a policy: calls its learn mode, counts iterations, and runs hooks around them.
//
// An iteration is one optimizer step. A policy that takes several steps on one batch (epochs,
// minibatches) advances the count by as many, and after_iter hooks run once for each. `train_iter()`
// is the number of complete iterations, also inside after_iter hooks: checkpoint `iteration_<n>` has
// the parameters after n iterations.
//
// Ownership: the learner does not own its policy, which must outlive it; it shares its hooks and its
//            metric sink.
// Threads:   thread-compatible; Train() runs on the caller's thread.
// Errors:    an error names the iteration, and the hook if one failed. After an error the parameters
//            are those of the last complete iteration.
#ifndef DING_WORKER_LEARNER_BASE_LEARNER_H_
#define DING_WORKER_LEARNER_BASE_LEARNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/process_group.h"
#include "ding_worker/learner/train_data.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The state of a learner, for a commander.
struct LearnInfo {
  int64_t learner_step = 0;
  // The priorities of the last Train(), if the policy set any.
  std::optional<PriorityInfo> priority_info;
  bool learner_done = false;
};

class BaseLearner {
 public:
  struct Options {
    int64_t train_iterations = 1000000000;  // per Start(), at least 1
    bool log_policy = true;
    bool only_monitor_rank0 = true;
    int monitor_window = 10;  // number of values per average, at least 1
  };
  // Returns the next batch to train on; nullopt ends Start().
  using DataSource = std::function<absl::StatusOr<std::optional<TrainData>>()>;
  // Saves a checkpoint under a name ("iteration_100", "ckpt_best").
  using CheckpointFn = std::function<absl::Status(absl::string_view name)>;

  // `policy` (not null) and `group` must outlive the learner. A null `group` is a single process.
  static absl::StatusOr<std::unique_ptr<BaseLearner>> Create(const Options& options,
                                                             LearnMode* policy, LearnerHooks hooks,
                                                             const ComponentDeps& deps,
                                                             ProcessGroup* group = nullptr);

  // Trains on `data`. `envstep`, the env steps collected so far, is the x axis of some logs.
  absl::Status Train(const Batch& data, int64_t envstep = -1, const NamedValues& settings = {});

  // Runs the before_run hooks, trains on data from `next_data` until it returns nullopt or
  // train_iterations are done, and runs the after_run hooks. Data without an envstep have that of the
  // previous data. After an error, also of the source, the after_run hooks do not run.
  absl::Status Start(const DataSource& next_data);

  // Calls the hooks of a position. Serial programs call the before_run and after_run hooks themselves.
  absl::Status CallHooks(HookPosition position);
  void RegisterHook(std::shared_ptr<LearnerHook> hook);
  const LearnerHooks& hooks() const { return hooks_; }

  // Saves a checkpoint `name`, or `iteration_<n>` if it is empty, by the function that the program has
  // set; without one the learner writes policy and counters to CheckpointPath(name).
  absl::Status SaveCheckpoint(absl::string_view name = "");
  void set_checkpoint_fn(CheckpointFn fn) { checkpoint_fn_ = std::move(fn); }
  // "<exp_dir>/ckpt/<name>" for the instance "learner", "<exp_dir>/ckpt_<instance>/<name>" for
  // others.
  std::string CheckpointPath(absl::string_view name) const;

  // Called when Start() could not train on a batch. OK: continue with the next batch.
  using RecoverFn = std::function<absl::Status(const absl::Status& why)>;
  void set_recover_fn(RecoverFn fn) { recover_fn_ = std::move(fn); }

  // Saves counters and averages of the reported values, without the policy.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);
  // Sets the counters; kInvalidArgument if train_iter is below 0.
  absl::Status SetProgress(int64_t train_iter, int64_t envstep);

  LearnInfo learn_info() const;
  int64_t train_iter() const { return train_iter_; }
  int64_t collector_envstep() const { return collector_envstep_; }
  LearnMode* policy() const { return policy_; }
  ProcessGroup* group() const { return group_; }
  const ComponentDeps& deps() const { return deps_; }
  const Options& options() const { return options_; }
  bool monitors() const { return group_->rank() == 0 || !options_.only_monitor_rank0; }
  // Averages over the last iterations: of the values that the policy reports, and of the seconds taken.
  // Seconds are not saved, so that the state of a run does not depend on the speed of the machine.
  Monitor* monitor() { return &monitor_; }
  const Monitor& timings() const { return timings_; }
  // The values that the current iteration reported. Only after_iter hooks may use and change them; for
  // other hooks it is null.
  LearnStep* current_step() { return current_step_; }
  // Whether the current iteration is the last one of its batch. Only then do the parameters match
  // train_iter().
  bool at_end_of_batch() const {
    return current_step_ != nullptr && current_step_ == &steps_.back();
  }
  // The number of iterations before the current batch.
  int64_t batch_begin_iter() const { return batch_begin_iter_; }

 private:
  BaseLearner(const Options& options, LearnMode* policy, LearnerHooks hooks,
              const ComponentDeps& deps, ProcessGroup* group);

  absl::Status FinishIteration(LearnStep* step);
  void RememberPriorities(const Batch& data);

  const Options options_;
  LearnMode* const policy_;
  LearnerHooks hooks_;
  const ComponentDeps deps_;
  SingleProcess single_process_;
  ProcessGroup* const group_;
  CheckpointFn checkpoint_fn_;
  RecoverFn recover_fn_;

  Monitor monitor_;
  Monitor timings_;
  std::vector<LearnStep> steps_;  // a member, so that its memory is reused
  LearnStep* current_step_ = nullptr;
  std::optional<PriorityInfo> priority_info_;
  int64_t train_iter_ = 0;
  int64_t batch_begin_iter_ = 0;
  int64_t collector_envstep_ = -1;
  bool done_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_BASE_LEARNER_H_
