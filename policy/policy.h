// What the workers know of an algorithm: up to four modes, each an interface of its own.
//
//   collect_mode  observations -> actions (with exploration) and whatever else is worth storing
//   learn_mode    a batch of training data -> one or more optimizer steps
//   eval_mode     observations -> actions (without exploration)
//   command_mode  progress of the run -> settings of the other modes (epsilon, ...)
//
// The modes of one Policy share its networks: what learn_mode learns, collect_mode and eval_mode
// act upon at once. In another process a policy is created with the modes needed there and given
// the parameters by LoadModel().
//
// Ownership: a Policy owns its modes; they live as long as it does.
// Threads:   one thread at a time uses a Policy, whichever mode.
// Errors:    a Status names what was wrong with the data; a loss that is not finite is kInternal
//            and leaves the parameters as they were before the step.
#ifndef DING_WORKER_POLICY_POLICY_H_
#define DING_WORKER_POLICY_POLICY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

// What a collector reads from its policy's config.
struct CollectAttributes {
  // How much one collect() gathers if its caller does not say: rows, or episodes.
  std::optional<int64_t> n_sample;
  std::optional<int64_t> n_episode;
  int64_t unroll_len = 1;
  // Training data must come from the current parameters: partial trajectories are not kept for the
  // next collect().
  bool on_policy = false;
  // Hand rows over only when their episode is complete.
  bool traj_len_inf = false;
};

class CollectMode {
 public:
  virtual ~CollectMode() = default;

  // What Forward() writes per row: the field "action" first, then what is to be stored beside it
  // (logit, value, ...).
  virtual const SpecPtr& output_spec() const = 0;
  virtual CollectAttributes attributes() const = 0;

  // Chooses actions for `obs` [B, ...], whose row i belongs to env_ids[i]; fills rows [0, B) of
  // `out` (output_spec()). `settings` come from command_mode; settings that are not known are
  // ignored.
  virtual absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                               const NamedValues& settings, const MutableColumnsView& out) = 0;
  // New episodes begin in these envs (all of them if empty): forget recurrent state.
  virtual absl::Status Reset(absl::Span<const int> /*env_ids*/) { return absl::OkStatus(); }

  // Turns what was collected into training data: adds advantages, say. The rows' fields may change,
  // their order and segments too. The default passes the data on.
  virtual absl::StatusOr<SegmentBatch> GetTrainSample(SegmentBatch data) { return data; }

  // Parameters, as written by LearnMode::SaveModel().
  virtual absl::Status LoadModel(StateReader* reader) = 0;
  // Random streams and recurrent state: what exact resume needs beside the model.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

// What one optimizer step reports.
struct LearnStep {
  // Shown and averaged by the learner: "total_loss", "q_value", ...
  NamedValues scalars;
  // Written to TensorBoard below one name: {"td_error", {{"min", ...}, {"max", ...}}}.
  std::vector<std::pair<std::string, NamedValues>> grouped_scalars;
  std::vector<std::pair<std::string, std::vector<float>>> histograms;
  // New priorities of the batch's rows, in their order; empty if the policy sets none.
  std::vector<float> priority;

  void Clear() {
    scalars.Clear();
    grouped_scalars.clear();
    histograms.clear();
    priority.clear();
  }
};

struct LearnAttributes {
  int64_t batch_size = 64;  // rows per sample() of the buffer
  bool priority = false;    // the buffer wants LearnStep::priority back
  bool on_policy = false;
  // Learns from rows that somebody else has labelled with actions, not from what it collects.
  bool supervised = false;
};

class LearnMode {
 public:
  virtual ~LearnMode() = default;

  virtual LearnAttributes attributes() const = 0;

  // Learns from `data` [B, ...]; the fields it needs are named in the implementation's header.
  // `steps` is resized to one entry per optimizer step (1 for most off-policy algorithms, epochs x
  // minibatches for PPO).
  virtual absl::Status Forward(const Batch& data, const NamedValues& settings,
                               std::vector<LearnStep>* steps) = 0;
  // Forgets what is kept from batch to batch beside parameters and optimizer (recurrent state);
  // most keep nothing.
  virtual absl::Status Reset() { return absl::OkStatus(); }

  // Which of LearnStep::scalars to average and log.
  virtual std::vector<std::string> monitor_vars() const = 0;
  // For the log: algorithm, network, number of parameters.
  virtual std::string info() const = 0;

  // The parameters that act, as tensors named "model/...". This alone starts an evaluation.
  virtual absl::Status SaveModel(StateWriter* writer) const = 0;
  // Strict: every parameter must be there with its shape, and nothing else; a model that does not
  // fit changes nothing. Training starts anew from it (a target network becomes equal to it), so a
  // run that goes on loads the model first and the train state after it.
  virtual absl::Status LoadModel(StateReader* reader) = 0;
  // Everything else that the next optimizer step depends on: optimizer, target networks, counters.
  virtual absl::Status SaveTrainState(StateWriter* writer) const = 0;
  virtual absl::Status LoadTrainState(StateReader* reader) = 0;
};

class EvalMode {
 public:
  virtual ~EvalMode() = default;

  // As of CollectMode.
  virtual const SpecPtr& output_spec() const = 0;
  virtual absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                               const NamedValues& settings, const MutableColumnsView& out) = 0;
  virtual absl::Status Reset(absl::Span<const int> /*env_ids*/) { return absl::OkStatus(); }
  virtual absl::Status LoadModel(StateReader* reader) = 0;
};

class CommandMode {
 public:
  virtual ~CommandMode() = default;

  // `info` holds the progress of the run: "envstep", "learner_step".
  virtual NamedValues GetSettingCollect(const NamedValues& info) = 0;
  virtual NamedValues GetSettingLearn(const NamedValues& /*info*/) { return {}; }
  virtual NamedValues GetSettingEval(const NamedValues& /*info*/) { return {}; }
};

// Which modes a process needs.
struct PolicyModes {
  bool learn = true;
  bool collect = true;
  bool eval = true;
  bool command = true;
};

class Policy {
 public:
  virtual ~Policy() = default;

  // Null if the policy was created without that mode.
  virtual CollectMode* collect_mode() = 0;
  virtual LearnMode* learn_mode() = 0;
  virtual EvalMode* eval_mode() = 0;
  virtual CommandMode* command_mode() = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_POLICY_H_
