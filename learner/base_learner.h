// The default learner, alone or as the base or a part of a learner of your own.
//
// Train() works in this order; Learn() and OnIteration() are for derived classes:
//
//     before_iter hooks ─► Learn() ─► priorities ─► ( count ─► OnIteration() ─► after_iter hooks ) per step
//
// A derived class overrides Learn() to change the optimizer steps, OnIteration() to change the
// values that they report, Train() to change the batch, and SaveState() and LoadState() to add
// state of its own. A learner that has a BaseLearner as a part calls set_outer().
//
// Ownership, threads, errors: as ILearner. An exception of a policy, a hook, a source of data,
//            Learn() or OnIteration() becomes an error. Train() and Start() refuse recursive calls,
//            for instance from a hook (kFailedPrecondition).
//
// Example: a learner that trains several times on each batch.
//   class RepeatLearner : public BaseLearner {
//    public:
//     RepeatLearner(Parts parts, int times) : BaseLearner(std::move(parts)), times_(times) {}
//     absl::Status Train(const Batch& data, int64_t envstep, const NamedValues& settings) override {
//       for (int i = 0; i < times_; ++i) {
//         DING_RETURN_IF_ERROR(BaseLearner::Train(data, envstep, settings));
//       }
//       return absl::OkStatus();
//     }
//     ...
//   };
#ifndef DING_WORKER_LEARNER_BASE_LEARNER_H_
#define DING_WORKER_LEARNER_BASE_LEARNER_H_

#include <cstdint>
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
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class BaseLearner : public ILearner {
 public:
  struct Options {
    int64_t train_iterations = 1000000000;  // limit of one Start(), at least 1
    bool log_policy = true;
    bool only_monitor_rank0 = true;
    bool is_multitask_pipeline = false;  // true: all ranks monitor, also if only_monitor_rank0
    int monitor_window = 10;             // number of values per average, at least 1
  };
  // The parts of a learner. `policy` and `group` must outlive it.
  struct Parts {
    Options options;
    LearnMode* policy = nullptr;  // null: none yet; Train() is refused until ResetPolicy()
    LearnerHooks hooks;
    ComponentDeps deps;
    ProcessGroup* group = nullptr;  // null: a single process
  };

  // kInvalidArgument if an option is out of range.
  static absl::Status CheckParts(const Parts& parts);
  static absl::StatusOr<std::unique_ptr<BaseLearner>> Create(Parts parts);
  // Does the same with the parts as separate arguments.
  static absl::StatusOr<std::unique_ptr<BaseLearner>> Create(const Options& options,
                                                             LearnMode* policy, LearnerHooks hooks,
                                                             const ComponentDeps& deps,
                                                             ProcessGroup* group = nullptr);
  BaseLearner(const BaseLearner&) = delete;
  BaseLearner& operator=(const BaseLearner&) = delete;

  absl::Status Train(const Batch& data, int64_t envstep = -1,
                     const NamedValues& settings = {}) override;
  // The limit of one call is Options::train_iterations.
  absl::Status Start(const DataSource& next_data, const RecoverFn& recover = nullptr) override;
  absl::Status SaveCheckpoint(absl::string_view name = "") override;
  absl::Status LoadCheckpoint(const std::string& path) override;
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;
  LearnInfo learn_info() const override;

  absl::Status CallHooks(HookPosition position) final;
  void RegisterHook(std::shared_ptr<LearnerHook> hook) final;
  void set_checkpoint_fn(CheckpointFn fn) final { checkpoint_fn_ = std::move(fn); }
  // "<exp_dir>/ckpt/<name>" for the instance "learner", "<exp_dir>/ckpt_<instance>/<name>" for
  // others.
  std::string CheckpointPath(absl::string_view name) const final;
  absl::Status SetProgress(int64_t train_iter, int64_t envstep) final;
  int64_t train_iter() const final { return train_iter_; }
  int64_t collector_envstep() const final { return collector_envstep_; }
  LearnMode* policy() const final { return policy_; }
  ProcessGroup* group() const final { return group_; }
  const ComponentDeps& deps() const final { return deps_; }
  RunSignals* run_signals() final { return &run_signals_; }
  LearnStep* current_step() final { return current_step_; }
  const Batch* current_batch() const final { return training_ ? current_batch_ : nullptr; }
  bool at_end_of_batch() const final {
    return current_step_ != nullptr && current_step_ == &steps_.back();
  }
  int64_t batch_begin_iter() const final { return batch_begin_iter_; }
  bool monitors() const final {
    return group_->rank() == 0 || options_.is_multitask_pipeline || !options_.only_monitor_rank0;
  }
  Monitor* monitor() final { return &monitor_; }
  // Not saved, so that the state of a run does not depend on the speed of the machine.
  const Monitor& timings() const final { return timings_; }
  absl::Status Close() override;

  // Trains `policy` from now on. `policy` must outlive the learner. Counters and hooks stay;
  // averages and priorities of the previous policy are dropped.
  //   kInvalidArgument     `policy` is null
  //   kFailedPrecondition  called in the middle of a batch, for example by an after_iter hook
  absl::Status ResetPolicy(LearnMode* policy);
  const LearnerHooks& hooks() const { return hooks_; }
  const Options& options() const { return options_; }
  // For a learner that contains this one: hooks get `outer` (not null), Start() calls
  // outer->Train(), and SaveCheckpoint() saves the state of `outer`. `outer` must live as long as
  // this learner is used.
  void set_outer(ILearner* outer) { outer_ = outer; }

 protected:
  // CheckParts() must accept `parts`.
  explicit BaseLearner(Parts parts);

  // Takes the optimizer steps of one batch and writes one entry of `steps` for each. On entry,
  // `steps` has the entries of the previous batch. If it is empty afterwards, the batch is skipped.
  // After an error the parameters must be unchanged. The default calls LearnMode::Forward().
  virtual absl::Status Learn(const Batch& data, const NamedValues& settings,
                             std::vector<LearnStep>* steps);
  // Called for each iteration before its after_iter hooks; train_iter() already counts the
  // iteration. It may change the values in `step` that hooks see, but not the priorities, which
  // Learn() sets. The default does nothing. An error ends Train().
  virtual absl::Status OnIteration(LearnStep* step);

 private:
  // Sets the policy and declares the values that it reports; null: none yet.
  void UsePolicy(LearnMode* policy);
  absl::Status FinishIteration(LearnStep* step);
  // Keeps the priorities of the last step that has any: one for each row of `data`, or one for each
  // sequence, with the id of its first row.
  absl::Status RememberPriorities(const Batch& data);

  const Options options_;
  LearnMode* policy_ = nullptr;
  LearnerHooks hooks_;
  const ComponentDeps deps_;
  SingleProcess single_process_;
  ProcessGroup* const group_;
  ILearner* outer_ = this;
  CheckpointFn checkpoint_fn_;

  RunSignals run_signals_;
  Monitor monitor_;
  Monitor timings_;
  std::vector<LearnStep> steps_;  // a member, so that its memory is reused
  LearnStep* current_step_ = nullptr;
  const Batch* current_batch_ = nullptr;  // valid while training_
  std::optional<PriorityInfo> priority_info_;
  int64_t train_iter_ = 0;
  int64_t batch_begin_iter_ = 0;
  int64_t collector_envstep_ = -1;
  bool done_ = false;
  bool training_ = false;  // within Train()
  bool running_ = false;   // within Start()
  bool in_hook_ = false;   // within a hook
  // The name of the checkpoint for which SaveCheckpoint() calls a hook, until the hook saves it.
  std::optional<std::string> asked_ckpt_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_BASE_LEARNER_H_
