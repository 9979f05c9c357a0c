// The common parts of Q-learning policies: options, acting modes, learn mode.
#ifndef DING_WORKER_POLICY_Q_LEARNING_Q_POLICY_H_
#define DING_WORKER_POLICY_Q_LEARNING_Q_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/recurrent_states.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// The options that the algorithms of Q-learning share: DQN (policy/dqn/dqn.h) and R2D2
// (policy/r2d2/r2d2.h).
struct DqnOptions {
  uint64_t seed = 0;  // exploration uses the stream (seed, "policy/collect")
  AdamOptions adam;
  double lr_decay_env_steps = 0;  // the rate falls linearly to 0 within these; 0: it is constant
  double grad_clip_norm = 0;      // maximal norm of the gradient; 0: not clipped
  int learn_threads = 1;          // MakeLearnTeam(); above 1 the network must use them
  TdLossOptions loss;
  std::shared_ptr<LossFunction> own_loss;  // of DQN; null: the loss of the head
  bool double_q = true;  // false: the target network also chooses the action that it evaluates
  TargetUpdate target_update;
  Schedule eps;
  FieldSchedules schedules;  // of the settings "lr" and "eps"; they replace the fields above
  CollectAttributes collect;
  LearnAttributes learn;
  PolicyModes modes;
  // Averages gradients with the other learners of a group; null: a single learner. It must outlive
  // the policy.
  GradientReducer* reducer = nullptr;
};

// How the algorithms of Q-learning act: the collect, eval and command modes of DQN and R2D2.
//
//   collect  acts epsilon-greedily. The setting "eps" in [0, 1] is the probability of a random
//            action, drawn uniformly. The setting is required, so that nobody collects greedily by
//            mistake
//   eval     acts greedily; among equal values it takes the lowest action
//   command  returns "eps" and, if the learning rate changes, "lr", as functions of the progress of
//            the run
//
// A random network (policy/network.h) draws its numbers for each collect call, and uses their means
// in the eval mode.
//
// Only legal actions are taken (policy/action_space.h); an observation without one is an error.
//
// With a recurrent network (policy/network.h) each mode keeps its own state for each env; the state
// is 0 after Reset(). The collect mode then also writes the column "rnn_state": the state before
// the row.
//
// Ownership: the modes use the network, which must outlive them.
// Threads:   one thread at a time may use the modes of a network.
// Errors:    kInvalidArgument for data of another layout; kInternal for Q values that are not
//            finite. A failed call changes no states. Messages begin with the name of the
//            algorithm.

// The settings of the command mode: the learning rate for the learn mode, epsilon for the collect
// mode.
inline constexpr char kLearningRateSetting[] = "lr";
inline constexpr char kEpsSetting[] = "eps";

// Computes Q values of observations, and keeps the recurrent states of their envs.
class QActor {
 public:
  // `stores_state`: whether the output has the column of the recurrent state, if the network is
  // recurrent.
  QActor(QNetwork* network, bool stores_state);

  const SpecPtr& output_spec() const { return output_spec_; }

  // Evaluates `obs` [B] of these envs; Greedy() and Random() then choose an action for a row of
  // `obs`. Writes the recurrent-state column of `out`.
  absl::Status Evaluate(const ColumnsView& obs, absl::Span<const int> env_ids,
                        const MutableColumnsView& out);
  int64_t Greedy(int64_t row) const;
  int64_t Random(int64_t row, Rng* rng) const;

  void Reset(absl::Span<const int> env_ids);
  // Save and load the recurrent states; they do nothing if there are none.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  absl::Status Infer(const ColumnsView& obs, absl::Span<const int> env_ids,
                     const MutableColumnsView& out, const MutableColumnsView& outputs);
  // Computes the values of the network's outputs.
  absl::Status SetValues(absl::Span<const float> outputs);

  QNetwork& network_;
  RecurrentNetwork* const recurrent_;  // null: without states
  const SpecPtr output_spec_;
  const std::string output_name_;  // in messages
  const std::string observation_name_;
  std::optional<RecurrentStates> states_;
  ScratchColumns scratch_;
  std::vector<float> values_;  // [B, A], unless the outputs are the values
  // The results of the last Evaluate().
  absl::Span<const float> q_;       // [B, A]
  absl::Span<const uint8_t> mask_;  // [B, A]; empty: all actions are legal
};

class QCollectMode : public CollectMode {
 public:
  QCollectMode(QNetwork* network, const DqnOptions& options);

  const SpecPtr& output_spec() const override { return actor_.output_spec(); }
  CollectAttributes attributes() const override { return attributes_; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status Reset(absl::Span<const int> env_ids) override;
  absl::Status LoadModel(StateReader* reader) override { return network_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  QNetwork& network_;
  RandomNetwork* const random_;  // null: without random numbers
  QActor actor_;
  const CollectAttributes attributes_;
  Rng rng_;
};

class QEvalMode : public EvalMode {
 public:
  explicit QEvalMode(QNetwork* network);

  const SpecPtr& output_spec() const override { return actor_.output_spec(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status Reset(absl::Span<const int> env_ids) override;
  absl::Status LoadModel(StateReader* reader) override { return network_.LoadModel(reader); }

 private:
  QNetwork& network_;
  RandomNetwork* const random_;  // null: without random numbers
  QActor actor_;
};

class QCommandMode : public CommandMode {
 public:
  explicit QCommandMode(const DqnOptions& options) : options_(options) {}

  NamedValues GetSettingCollect(const NamedValues& info) override;
  NamedValues GetSettingLearn(const NamedValues& info) override;

 private:
  const DqnOptions options_;
};

// The loss of a batch.
struct QLoss {
  double loss = 0;
  double mean_q = 0;                 // of the actions taken
  double mean_next_value = 0;        // of the bootstrap values, before the discount
  int64_t rows = 0;                  // number of rows over which the loss is a mean
  absl::Span<const float> td_error;  // one for each row of the batch
  absl::Span<const float> priority;  // of the batch; empty: |td_error|
  NamedValues scalars = {};          // of your own loss, to report
};

// The learn mode of the algorithms of Q-learning: target network, optimizer, saved state and
// report. A subclass computes the loss of a batch and its gradient.
//
// The optional setting "lr" changes the learning rate from then on. An iteration reports the
// scalars cur_lr, total_loss, q_value, target_q_value and td_error (the mean of |td error|), the td
// errors as a histogram, and priorities if these are configured. Every 10th iteration also reports
// grad_norm, the norm of the gradient before clipping.
//
// Saved: model "model/<parameter>"; train state "optimizer/...", "target_model/<parameter>",
//        "train_iter".
//
// Ownership: uses the network, which must outlive it; owns target network and optimizer.
// Threads:   thread-compatible.
// Errors:    they begin with the algorithm and the number of the training iteration. A failed call
//            changes no parameters, optimizer, target network and counters.
class QLearnMode : public GradientLearnMode {
 public:
  // The parts that the learn mode owns, made from the network. kInvalidArgument if the options are
  // out of range.
  struct Parts {
    std::unique_ptr<ThreadTeam> team;  // null: the caller's thread alone
    std::unique_ptr<Network> target;
    GroupAdam adam;
  };
  static absl::StatusOr<Parts> MakeParts(const QNetwork& network, const DqnOptions& options);
  ~QLearnMode() override { network_.network().set_thread_team(nullptr); }

  absl::Status SaveModel(StateWriter* writer) const override;
  absl::Status LoadModel(StateReader* reader) override;

 protected:
  QLearnMode(QNetwork* network, const DqnOptions& options, Parts parts);

  // Computes the loss of `data` and, if it is finite, the gradients of the network. The spans are
  // valid until the next call.
  virtual absl::StatusOr<QLoss> ComputeLoss(const Batch& data) = 0;

  // Writes the value of the best legal action of each row to `value` [B]. With double Q-learning
  // `online_q` [B, A] chooses the action; otherwise `target_q` does, and `online_q` is not read.
  // The value is always taken from `target_q`.
  void SelectValue(absl::Span<const float> online_q, absl::Span<const float> target_q,
                   absl::Span<const uint8_t> mask, absl::Span<float> value) const;

  QNetwork& network() const { return network_; }
  Network& target() { return *target_; }
  const DqnOptions& options() const { return options_; }

 private:
  absl::StatusOr<int64_t> ComputeGradients(const Batch& data, const NamedValues& settings,
                                           LearnStep* step) override;
  void AfterStep(LearnStep* step) override;
  void Report(const QLoss& loss, LearnStep* step) const;

  QNetwork& network_;
  const DqnOptions options_;
  const std::unique_ptr<ThreadTeam> team_;  // the networks use it
  const std::unique_ptr<Network> target_;
};

// A policy of Q-learning: a network and its modes. A subclass adds the learn mode.
//
// Ownership: owns network and modes, which share it.
// Threads:   one thread at a time may use the policy, in any mode.
class QPolicy : public ModelPolicy<QNetwork> {
 public:
  Network& network() { return model_->network(); }

 protected:
  // Creates the modes of `options`, except the learn mode.
  QPolicy(std::unique_ptr<QNetwork> network, const DqnOptions& options)
      : ModelPolicy(std::move(network)) {
    if (options.modes.collect) {
      collect_ = std::make_unique<QCollectMode>(model_.get(), options);
    }
    if (options.modes.eval) eval_ = std::make_unique<QEvalMode>(model_.get());
    if (options.modes.command) command_ = std::make_unique<QCommandMode>(options);
  }

  QNetwork* q_network() { return model_.get(); }
  void set_learn_mode(std::unique_ptr<QLearnMode> learn) { learn_ = std::move(learn); }
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_Q_LEARNING_Q_POLICY_H_
