// A learner trains a policy: it calls the learn mode of the policy, counts iterations, and runs
// hooks around them. Runs call ILearner; hooks and reports get its base, LearnerView.
//
// An iteration is one optimizer step. A policy that takes several steps on one batch (epochs,
// minibatches) advances the count by as many, and after_iter hooks run once for each.
// `train_iter()` is the number of complete iterations, also inside after_iter hooks: checkpoint
// `iteration_<n>` has the parameters after n iterations.
//
// BaseLearner (learner/base_learner.h) is the default. A learner of your own derives from it, is
// composed of it, or implements this interface itself; the registry of learners finds it by name.
//
// Ownership: a learner does not own its policy, which must outlive it; it shares its hooks and its
//            metric sink.
// Threads:   thread-compatible; Train() and Start() run on the caller's thread.
// Errors:    an error names the iteration, and the hook if one failed. After an error the
//            learner has the parameters of the last complete iteration. Programs turn an exception
//            of a function that returns a Status into an error; the other functions must not throw.
#ifndef DING_WORKER_LEARNER_LEARNER_H_
#define DING_WORKER_LEARNER_LEARNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The next batch for a learner, and the env steps collected when it was drawn.
struct TrainData {
  TrainData() = default;
  TrainData(Batch data, int64_t collected = -1)  // NOLINT: converts a batch without settings.
      : batch(std::move(data)), envstep(collected) {}

  Batch batch;
  int64_t envstep = -1;  // env steps collected so far; -1: unknown
  NamedValues settings;  // settings of the learn mode, such as the learning rate
  std::string items;     // the encoded items (data/items.h) of the batch; empty: none
};

// A group of processes that train one model together, each with a rank, as a learner sees it.
//
// Threads: thread-compatible; every rank must make the same calls in the same order.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;        // 0 ... world_size() - 1
  virtual int world_size() const = 0;  // at least 1
  // Replaces each value by its mean over all ranks. kUnavailable if a rank is lost.
  virtual absl::Status AllReduceMean(absl::Span<double> values) = 0;
};

// A group of one process.
class SingleProcess : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  absl::Status AllReduceMean(absl::Span<double> /*values*/) override { return absl::OkStatus(); }
};

// The progress of a learner, which it reports to the commander of a parallel run.
struct LearnInfo {
  int64_t learner_step = 0;
  // The priorities of the last Train(), if the policy set any.
  std::optional<PriorityInfo> priority_info;
  bool learner_done = false;
};

// What hooks and reports see of a learner: its counters, the current iteration, its metrics, and
// the signals between it and the run. They may change only the values of the current step.
class LearnerView {
 public:
  virtual ~LearnerView() = default;

  virtual LearnInfo learn_info() const = 0;
  virtual int64_t train_iter() const = 0;
  virtual int64_t collector_envstep() const = 0;  // as of the last Train()
  // Null before ResetPolicy() of a learner that was created without a policy.
  virtual LearnMode* policy() const = 0;
  virtual ProcessGroup* group() const = 0;
  virtual const ComponentDeps& deps() const = 0;
  // The last evaluation, and how to end the run.
  virtual RunSignals* run_signals() = 0;

  // The values that the current iteration reported. Only after_iter hooks may use and change them;
  // for other hooks it is null.
  virtual LearnStep* current_step() = 0;
  // The batch of the current iteration, with all columns of its rows; null between two batches.
  virtual const Batch* current_batch() const { return nullptr; }
  // Whether the current iteration is the last one of its batch. Only then do the parameters match
  // train_iter().
  virtual bool at_end_of_batch() const = 0;
  // The number of iterations before the current batch.
  virtual int64_t batch_begin_iter() const = 0;

  // Whether this rank logs averages over the last iterations. monitor() has the values that the
  // policy reports, timings() has the seconds that each part of an iteration takes.
  virtual bool monitors() const = 0;
  virtual Monitor* monitor() = 0;
  virtual const Monitor& timings() const = 0;

  // Saves a checkpoint `name`, or `iteration_<n>` if it is empty, by the function that the program
  // has set. Without a function the learner writes policy and counters to CheckpointPath(name).
  //
  // If there is an after_run hook named "save_ckpt_after_run", this calls the hook, which saves by
  // calling SaveCheckpoint() itself. If the hook does not save, the learner does. A call from any
  // hook saves at once.
  virtual absl::Status SaveCheckpoint(absl::string_view name = "") = 0;
  // Loads policy, train state and counters from the folder `path`, as LoadLearnerCheckpoint()
  // (learner/checkpoint.h) does.
  virtual absl::Status LoadCheckpoint(const std::string& path) = 0;
};

// The full interface of a learner, which the program of a run calls.
class ILearner : public LearnerView {
 public:
  // Returns the next batch to train on; nullopt ends Start().
  using DataSource = std::function<absl::StatusOr<std::optional<TrainData>>()>;
  // Saves a checkpoint under a name ("iteration_100", "ckpt_best").
  using CheckpointFn = std::function<absl::Status(absl::string_view name)>;
  // Called when Start() fails to train on a batch. If it returns OK, Start() continues with the
  // next batch.
  using RecoverFn = std::function<absl::Status(const absl::Status& why)>;

  // Trains on `data`. `envstep`, the env steps collected so far, is the x axis of some logs; -1:
  // unknown.
  virtual absl::Status Train(const Batch& data, int64_t envstep = -1,
                             const NamedValues& settings = {}) = 0;
  // Runs the before_run hooks, trains on data from `next_data`, and runs the after_run hooks. It
  // ends when `next_data` returns nullopt or the learner's own limit is reached. Data without an
  // envstep get the envstep of the previous data. After an error, also of `next_data`, the
  // after_run hooks do not run. If `recover` is null, a batch on which the learner cannot train is
  // an error.
  virtual absl::Status Start(const DataSource& next_data, const RecoverFn& recover = nullptr) = 0;

  // Calls the hooks of a position. Programs call the after_eval hooks themselves; serial programs
  // also call the before_run and after_run hooks.
  virtual absl::Status CallHooks(HookPosition position) = 0;
  virtual void RegisterHook(std::shared_ptr<LearnerHook> hook) = 0;

  virtual void set_checkpoint_fn(CheckpointFn fn) = 0;
  virtual std::string CheckpointPath(absl::string_view name) const = 0;
  // Save and load the state of the learner, without the policy: counters, averages of the reported
  // values.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
  // Sets the counters; kInvalidArgument if train_iter is below 0, envstep below -1, or one above
  // 2^62.
  virtual absl::Status SetProgress(int64_t train_iter, int64_t envstep) = 0;

  // Flushes the metrics. May be called again. Call it after the last Train().
  virtual absl::Status Close() { return absl::OkStatus(); }
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_LEARNER_H_
