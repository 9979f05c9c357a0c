// How the algorithms of Q-learning act: the collect, eval and command modes of DQN and R2D2.
//
//   collect  acts epsilon-greedily. Setting "eps" in [0, 1] is the probability of a uniform action; it
//            is required, because acting greedily by mistake is hard to notice
//   eval     acts greedily; among equal values it takes the lowest action
//   command  returns "eps" of the schedule and, if the learning rate changes, "lr", for the progress of the run
//
// A random network (policy/random_network.h) draws its numbers for each collect call, and uses their means in
// the eval mode.
//
// Only legal actions are taken (policy/action_mask.h); an observation without one is an error.
//
// With a recurrent network (policy/recurrent_network.h) each mode keeps a state of its own for each env; it
// is 0 after Reset(). The collect mode then also writes the column "rnn_state": the state before the row.
//
// Ownership: the modes use the network, which must outlive them.
// Threads:   one thread at a time may use the modes of a network.
// Errors:    kInvalidArgument for data of another layout; kInternal for Q values that are not finite. A
//            failed call changes no states. Messages begin with the name of the algorithm.
#ifndef DING_WORKER_POLICY_DQN_Q_ACTING_H_
#define DING_WORKER_POLICY_DQN_Q_ACTING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/dqn/dqn_options.h"
#include "ding_worker/policy/dqn/q_network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_network.h"
#include "ding_worker/policy/recurrent_network.h"
#include "ding_worker/policy/recurrent_states.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {

// The settings of the command mode: the learning rate for the learn mode, epsilon for the collect mode.
inline constexpr char kLearningRateSetting[] = "lr";
inline constexpr char kEpsSetting[] = "eps";

// Computes Q values of observations, and keeps the recurrent states of their envs.
class QActor {
 public:
  // `stores_state`: whether the output has the column of the recurrent state, if there is one.
  QActor(QNetwork* network, bool stores_state);

  const SpecPtr& output_spec() const { return output_spec_; }

  // Evaluates `obs` [B] of these envs; Greedy() and Random() then choose an action for a row of it. Writes
  // the column of the recurrent state of `out`.
  absl::Status Evaluate(const ColumnsView& obs, absl::Span<const int> env_ids,
                        const MutableColumnsView& out);
  int64_t Greedy(int64_t row) const;
  int64_t Random(int64_t row, Rng* rng) const;

  void Reset(absl::Span<const int> env_ids);
  // Save and load the recurrent states; without any, nothing.
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

}  // namespace ding

#endif  // DING_WORKER_POLICY_DQN_Q_ACTING_H_
