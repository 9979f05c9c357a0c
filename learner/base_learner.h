// Turns data into a better policy: calls the policy's learn_mode, counts iterations, and runs hooks
// around it.
//
// An iteration is one optimizer step. A policy that takes several steps on one batch (epochs,
// minibatches) advances the count by as many; after_iter hooks run once for each. `train_iter()` is
// the number of iterations that are complete, also inside after_iter hooks: checkpoint
// `iteration_<n>` holds the parameters after n iterations.
//
// Ownership: the learner does not own its policy, which must outlive it; it shares its hooks and
//            its metric sink.
// Threads:   thread-compatible; Train() runs on the caller's thread.
// Errors:    name the iteration, and the hook if one failed. After an error the parameters are
//            those of the last complete iteration.
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

// What a commander reads from a learner.
struct LearnInfo {
  int64_t learner_step = 0;
  // Of the last Train(), if the policy set priorities in it.
  std::optional<PriorityInfo> priority_info;
  bool learner_done = false;
};

class BaseLearner {
 public:
  struct Options {
    int64_t train_iterations = 1000000000;  // of one Start(), at least 1
    bool log_policy = true;
    bool only_monitor_rank0 = true;
    int monitor_window = 10;  // values per average, at least 1
  };
  // What Start() trains on next; none ends it.
  using DataSource = std::function<absl::StatusOr<std::optional<TrainData>>()>;
  // Saves a checkpoint under a name ("iteration_100", "ckpt_best").
  using CheckpointFn = std::function<absl::Status(absl::string_view name)>;

  // `group` may be null: one process alone. It must outlive the learner, and so must `policy` (not
  // null).
  static absl::StatusOr<std::unique_ptr<BaseLearner>> Create(const Options& options,
                                                             LearnMode* policy, LearnerHooks hooks,
                                                             const ComponentDeps& deps,
                                                             ProcessGroup* group = nullptr);

  // Learns from `data`; `envstep` (env steps collected so far) is the x axis of some logs.
  absl::Status Train(const Batch& data, int64_t envstep = -1, const NamedValues& settings = {});

  // before_run hooks, data from `next_data` until it ends or train_iterations are done, after_run
  // hooks. Data that do not say their envstep have that of the data before them. A source that
  // another thread has end ends the run after the batch under way. After a failure, also of the
  // source, the after_run hooks do not run.
  absl::Status Start(const DataSource& next_data);

  // The serial programs call the run's hooks themselves.
  absl::Status CallHooks(HookPosition position);
  void RegisterHook(std::shared_ptr<LearnerHook> hook);
  const LearnerHooks& hooks() const { return hooks_; }

  // Saves under `name`, or under `iteration_<n>`. Who saves, and what beside the policy, is set by
  // the program; a learner by itself writes policy and counters to CheckpointPath(name).
  absl::Status SaveCheckpoint(absl::string_view name = "");
  void set_checkpoint_fn(CheckpointFn fn) { checkpoint_fn_ = std::move(fn); }
  // "<exp_dir>/ckpt/<name>" of the instance "learner", "<exp_dir>/ckpt_<instance>/<name>" of
  // others.
  std::string CheckpointPath(absl::string_view name) const;

  // Asked when Start() could not learn from a batch: OK if it is to go on with the next.
  using RecoverFn = std::function<absl::Status(const absl::Status& why)>;
  void set_recover_fn(RecoverFn fn) { recover_fn_ = std::move(fn); }

  // Counters and averages of what the policy reports; the policy saves itself.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);
  // Goes on counting there; kInvalidArgument if it is below 0.
  absl::Status SetProgress(int64_t train_iter, int64_t envstep);

  LearnInfo learn_info() const;
  int64_t train_iter() const { return train_iter_; }
  int64_t collector_envstep() const { return collector_envstep_; }
  LearnMode* policy() const { return policy_; }
  ProcessGroup* group() const { return group_; }
  const ComponentDeps& deps() const { return deps_; }
  const Options& options() const { return options_; }
  bool monitors() const { return group_->rank() == 0 || !options_.only_monitor_rank0; }
  // Averages over the last iterations: of what the policy reports, and of seconds taken. The latter
  // are not saved, so that the state of a run does not depend on the speed of the machine.
  Monitor* monitor() { return &monitor_; }
  const Monitor& timings() const { return timings_; }
  // What the iteration under way reported, for after_iter hooks, which may change it; null for
  // others.
  LearnStep* current_step() { return current_step_; }
  // Whether that is the last of the iterations that its batch gave: only then have the parameters
  // had as many steps as train_iter() says.
  bool at_end_of_batch() const {
    return current_step_ != nullptr && current_step_ == &steps_.back();
  }
  // Iterations that were complete before that batch.
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
  std::vector<LearnStep> steps_;  // kept, so that their memory is used again
  LearnStep* current_step_ = nullptr;
  std::optional<PriorityInfo> priority_info_;
  int64_t train_iter_ = 0;
  int64_t batch_begin_iter_ = 0;
  int64_t collector_envstep_ = -1;
  bool done_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_BASE_LEARNER_H_
