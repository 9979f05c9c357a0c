// The interface between workers and algorithms: a policy has up to four modes.
//
//   collect_mode  observations -> actions with exploration, and further columns to store
//   learn_mode    a batch of training data -> one or more optimizer steps
//   eval_mode     observations -> actions without exploration
//   command_mode  progress of the run -> settings of the other modes (epsilon, ...)
//
// The modes of one Policy share its networks: collect_mode and eval_mode act with the parameters of
// the last step of learn_mode. Another process creates the policy with the modes that it needs and
// gets the parameters by LoadModel().
//
// Ownership: a Policy owns its modes, which live as long as the policy.
// Threads:   one thread at a time may use a Policy, in any mode.
// Errors:    an error names what is wrong with the data. A loss that is not finite is kInternal and
//            leaves the parameters as before the step.
#ifndef DING_WORKER_POLICY_POLICY_H_
#define DING_WORKER_POLICY_POLICY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"

namespace ding {

// Returns the error of a policy that takes no tensors beside its settings.
inline absl::Status RefuseTensors(const TensorMap& tensors) {
  return absl::InvalidArgumentError("the policy takes no tensors, but policy_tensors has '" +
                                    tensors.begin()->first +
                                    "': expected none, or a policy that overrides ForwardWith()");
}

// The settings of the policy for a collector.
struct CollectAttributes {
  // The default size of one collect(), in rows or in episodes.
  std::optional<int64_t> n_sample;
  std::optional<int64_t> n_episode;
  // The number of rows of a training sample. If it is above 1, n_sample counts samples instead of
  // rows: each `unroll_len` rows of an episode are one sample, and so are the rows that are left at
  // its end.
  int64_t unroll_len = 1;
  // Whether training data must come from the current parameters. If so, partial trajectories are
  // not kept for the next collect().
  bool on_policy = false;
  // Whether to return rows of complete episodes only.
  bool traj_len_inf = false;
  // Whether GetTrainSample() uses statistics of all rows that this mode has collected, to normalize
  // observations or returns. Parallel runs refuse such a policy, because each collector would have
  // its own statistics.
  bool keeps_statistics = false;
  // Whether GetTrainSample() takes rows with a reward of several components ([R] float32). For
  // other policies create_policy() refuses envs with such rewards.
  bool reward_components = false;
};

class CollectMode {
 public:
  virtual ~CollectMode() = default;

  // The fields that Forward() writes: first "action", then further fields to store (logit, value,
  // ...).
  virtual const SpecPtr& output_spec() const = 0;
  virtual CollectAttributes attributes() const = 0;

  // Chooses actions for `obs` [B, ...], whose row i belongs to env_ids[i], and fills rows [0, B) of
  // `out` (output_spec()). `settings` come from command_mode; unknown settings are ignored.
  virtual absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                               const NamedValues& settings, const MutableColumnsView& out) = 0;
  // As Forward(), with further tensors of the caller (CollectOptions::policy_tensors). It is called
  // only if there are tensors. Most policies take none.
  virtual absl::Status ForwardWith(const ColumnsView& /*obs*/, absl::Span<const int> /*env_ids*/,
                                   const NamedValues& /*settings*/, const TensorMap& tensors,
                                   const MutableColumnsView& /*out*/) {
    return RefuseTensors(tensors);
  }
  // Drops the recurrent state of these envs, or of all envs if `env_ids` is empty, because new
  // episodes begin.
  virtual absl::Status Reset(absl::Span<const int> /*env_ids*/) { return absl::OkStatus(); }

  // Converts collected data to training data, for instance by adding advantages. It may change
  // fields, order and segments of the rows. The default returns the data unchanged.
  virtual absl::StatusOr<SegmentBatch> GetTrainSample(SegmentBatch data) { return data; }

  // Loads the parameters that LearnMode::SaveModel() has written.
  virtual absl::Status LoadModel(StateReader* reader) = 0;
  // Save and load random streams and recurrent state: what an exact resume needs in addition to the
  // model.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

// The report of one optimizer step.
struct LearnStep {
  // The learner averages and logs them: "total_loss", "q_value", ...
  NamedValues scalars;
  // Written to TensorBoard below one name: {"td_error", {{"min", ...}, {"max", ...}}}.
  std::vector<std::pair<std::string, NamedValues>> grouped_scalars;
  std::vector<std::pair<std::string, std::vector<float>>> histograms;
  // New priorities of the batch's rows, or of its sequences if it has sequences, in their order;
  // empty if the policy sets none.
  std::vector<float> priority;

  void Clear() {
    scalars.Clear();
    grouped_scalars.clear();
    histograms.clear();
    priority.clear();
  }
};

struct LearnAttributes {
  int64_t batch_size = 64;  // rows, or sequences of rows, per sample() of the buffer
  bool priority = false;    // whether the buffer needs LearnStep::priority
  bool on_policy = false;
  // Whether it learns from a data set of recorded episodes instead of collected rows: from
  // observations and actions, and with `transitions` also from the columns next_obs, reward and
  // discount (offline reinforcement learning).
  bool supervised = false;
  bool transitions = false;
  // Whether it learns from sequences of rows (Batch::sequence_length()) and reads the columns
  // "mask", "burn_in" and "is_first" of sequences that have them. Programs refuse buffers that draw
  // sequences for other policies, which would learn from padding, and buffers that draw single rows
  // for policies that need sequences.
  bool sequences = false;
  // Whether it learns from rewards of several components (column "reward" [B, R]) or reads no
  // rewards. For other policies create_policy() refuses envs with rewards of several components.
  bool reward_components = false;
};

// Names to display, with names of LearnStep::scalars: {"loss", "total_loss"}.
using ProgressVars = std::vector<std::pair<std::string, std::string>>;

class LearnMode {
 public:
  virtual ~LearnMode() = default;

  virtual LearnAttributes attributes() const = 0;

  // Trains on `data` [B, ...]; the header of the implementation names the required fields. Resizes
  // `steps` to one entry per optimizer step (1 for most off-policy algorithms, epochs x minibatches
  // for PPO).
  virtual absl::Status Forward(const Batch& data, const NamedValues& settings,
                               std::vector<LearnStep>* steps) = 0;
  // For policies that learn from a data set: called before the first Forward() with all rows of the
  // data set, to compute statistics of them. Most policies need no statistics, and load no part.
  // Returns the errors of data.load.
  virtual absl::Status SetData(const RowParts& /*data*/) { return absl::OkStatus(); }
  // Drops the state that is kept between batches (recurrent state), except parameters and
  // optimizer. Most policies have none.
  virtual absl::Status Reset() { return absl::OkStatus(); }

  // The names of LearnStep::scalars to average and log.
  virtual std::vector<std::string> monitor_vars() const = 0;
  // The names of the scalars that the progress of a run shows, the most important first.
  virtual ProgressVars progress_vars() const { return {{"loss", "total_loss"}}; }
  // Describes algorithm, network and number of parameters for the log.
  virtual std::string info() const = 0;

  // Saves the parameters of the acting networks, as tensors "model/...". An evaluation needs
  // nothing else.
  virtual absl::Status SaveModel(StateWriter* writer) const = 0;
  // Strict: the model must have every parameter with its shape and nothing else; a model that does
  // not fit changes nothing. Training restarts from the model (a target network becomes equal to
  // it), so a resumed run loads the model first and then the train state.
  virtual absl::Status LoadModel(StateReader* reader) = 0;
  // Save and load the other state of training: optimizer, target networks, counters.
  virtual absl::Status SaveTrainState(StateWriter* writer) const = 0;
  virtual absl::Status LoadTrainState(StateReader* reader) = 0;
};

class EvalMode {
 public:
  virtual ~EvalMode() = default;

  // As in CollectMode.
  virtual const SpecPtr& output_spec() const = 0;
  virtual absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                               const NamedValues& settings, const MutableColumnsView& out) = 0;
  virtual absl::Status ForwardWith(const ColumnsView& /*obs*/, absl::Span<const int> /*env_ids*/,
                                   const NamedValues& /*settings*/, const TensorMap& tensors,
                                   const MutableColumnsView& /*out*/) {
    return RefuseTensors(tensors);
  }
  virtual absl::Status Reset(absl::Span<const int> /*env_ids*/) { return absl::OkStatus(); }
  virtual absl::Status LoadModel(StateReader* reader) = 0;
};

class CommandMode {
 public:
  virtual ~CommandMode() = default;

  // `info` is the progress of the run: "envstep", "learner_step".
  virtual NamedValues GetSettingCollect(const NamedValues& info) = 0;
  virtual NamedValues GetSettingLearn(const NamedValues& /*info*/) { return {}; }
  virtual NamedValues GetSettingEval(const NamedValues& /*info*/) { return {}; }
};

// The modes that a process needs.
struct PolicyModes {
  bool learn = true;
  bool collect = true;
  bool eval = true;
  bool command = true;
};

class Policy {
 public:
  virtual ~Policy() = default;

  // Each is null if the policy was created without that mode.
  virtual CollectMode* collect_mode() = 0;
  virtual LearnMode* learn_mode() = 0;
  virtual EvalMode* eval_mode() = 0;
  virtual CommandMode* command_mode() = 0;
};

// Averages the gradients of several learners that take their optimizer steps together: each
// computes gradients from its own rows, and all step by the mean. The program passes a reducer in
// the context of the policy; the policy does not know the other learners.
//
//     rows of this learner ──► loss, gradients ──► Average() ──► clip, Adam ──► parameters
//                                                     ▲ │
//                                    the other learners' gradients
//
// Learners that begin with equal parameters and optimizers stay equal: the results of Average() are
// equal in all of them, bit for bit.
//
// Threads: thread-compatible; every learner must make the same calls in the same order.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // Replaces `values`, which are in several pieces, by their mean over all learners, each weighted
  // by its `rows`: the mean of the gradients of parts of a batch is the gradient of the batch. The
  // pieces must have the same sizes in all learners. A learner whose step has failed must also call
  // this, with its error as `status`, because the others wait for it; the step then fails for all.
  //   `status`, if it is an error
  //   kAborted                               another learner's step failed; values are unspecified
  //   kUnavailable, kDeadlineExceeded ...    a learner is lost
  virtual absl::Status Average(absl::Span<const absl::Span<float>> values, int64_t rows,
                               const absl::Status& status) = 0;

  // Replaces each value by its sum over all learners, such as counts and statistics of their rows.
  // `status` and errors are as in Average().
  virtual absl::Status Sum(absl::Span<double> values, const absl::Status& status) = 0;
};

// Do the same with `reducer`. If it is null, there is a single learner, and the values stay as they
// are.
inline absl::Status AverageGradients(GradientReducer* reducer,
                                     absl::Span<const absl::Span<float>> values, int64_t rows,
                                     const absl::Status& status) {
  return reducer == nullptr ? status : reducer->Average(values, rows, status);
}
inline absl::Status SumOverLearners(GradientReducer* reducer, absl::Span<double> values,
                                    const absl::Status& status = absl::OkStatus()) {
  return reducer == nullptr ? status : reducer->Sum(values, status);
}

// Refuses rewards of several components ([R] float32) for policies that do not take them: OK if the
// reward of the env is one number, or the policy takes components
// (CollectAttributes::reward_components, LearnAttributes::reward_components). Otherwise
// kInvalidArgument names policy, env and shape, and says what to do.
absl::Status CheckTakesReward(absl::string_view policy, bool takes_components,
                              absl::string_view env, const Shape& reward_shape);

}  // namespace ding

#endif  // DING_WORKER_POLICY_POLICY_H_
