// Several critics Q(obs, action) side by side: multi-layer perceptrons of the same shape with
// separate parameters, which read the same rows.
//
//     obs ────┐                ┌── 64-64-1  "q0"
//             ├── one input ───┼── 64-64-1  "q1"        one Mlp: the input is loaded once for all
//     action ─┘                └── ...
//
// Actions are in [-1, 1]. All parameters are one flat vector, as in any Network.
//
// Shapes: obs [B, ...], action [B, n], one column [B] for each critic.
// Ownership: owns its network and outputs, which are valid until the next call.
// Threads:   thread-compatible.
// Errors:    as in policy/network.h.
#ifndef DING_WORKER_POLICY_CONTINUOUS_CRITIC_ENSEMBLE_H_
#define DING_WORKER_POLICY_CONTINUOUS_CRITIC_ENSEMBLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"

namespace ding {

// Checks that critics with `num_parameters` parameters in all, their targets, gradients and
// optimizer fit in `memory_bytes`.
//   kResourceExhausted  they do not fit
absl::Status CheckFitsInMemory(int64_t num_parameters, int64_t memory_bytes);

class CriticEnsemble {
 public:
  // Each critic has the hidden layers of `options`. Their parameters are drawn from `seed`, and
  // differ.
  //   kInvalidArgument    lists all problems of the options and of the observation
  //   kResourceExhausted  training them takes more memory than this process may use
  static absl::StatusOr<std::unique_ptr<CriticEnsemble>> Create(MlpOptions options,
                                                                const SpecPtr& observation,
                                                                const FieldSpec& action,
                                                                int num_critics, uint64_t seed);
  // Return the specs of the ensemble's network.
  static absl::StatusOr<SpecPtr> InputSpec(const Spec& observation, const FieldSpec& action);
  static absl::StatusOr<SpecPtr> OutputSpec(int num_critics);

  int num_critics() const { return static_cast<int>(q_.size()); }
  Network& network() { return *network_; }
  const Network& network() const { return *network_; }

  // Whether the hidden layers have dropout. The keys determine the masks of the next passes, and
  // must stay unchanged until the last of these passes (Mlp::set_dropout_keys()). Without keys
  // nothing is dropped.
  bool has_dropout() const { return first_structure_.options.dropout > 0; }
  void set_dropout_keys(absl::Span<const uint64_t> row_keys) {
    network_->set_dropout_keys(row_keys);
    first_->set_dropout_keys(row_keys);
  }

  // As in Network.
  void set_thread_team(ThreadTeam* team) {
    network_->set_thread_team(team);
    first_->set_thread_team(team);
  }

  // Compute q() for the rows of `obs` and `action`. Forward() also keeps what the backward passes
  // need; its arguments must not change until then.
  absl::Status Infer(const ColumnsView& obs, absl::Span<const float> action);
  absl::Status Forward(const ColumnsView& obs, absl::Span<const float> action);
  const CriticColumns& q() const { return q_; }

  // Where the caller writes d loss / d q of the last Forward() before it calls Backward() or
  // BackwardToActions().
  const MutableCriticColumns& d_q() const { return d_q_; }
  // Computes the gradients of the parameters.
  absl::Status Backward();
  // Writes d loss / d action to `d_action` [B, n] and leaves the gradients of the parameters alone.
  absl::Status BackwardToActions(absl::Span<float> d_action);

  // Do the same for the first critic alone: they write q().front() and read d_q().front().
  absl::Status ForwardFirst(const ColumnsView& obs, absl::Span<const float> action);
  absl::Status BackwardFirstToActions(absl::Span<float> d_action);

  // An ensemble with its own copy of the parameters.
  absl::StatusOr<std::unique_ptr<CriticEnsemble>> Clone() const;
  // "2 critics, mlp ...".
  std::string info() const;

 private:
  CriticEnsemble(std::unique_ptr<Mlp> network, MlpStructure first);

  ColumnsView Inputs(const ColumnsView& obs, absl::Span<const float> action);
  absl::StatusOr<MutableColumnsView> Outputs(int64_t rows);

  const std::unique_ptr<Mlp> network_;
  // The first critic. It shares its parameters with `network_`: they are the first ones there.
  const MlpStructure first_structure_;
  const std::unique_ptr<Mlp> first_;
  const int64_t action_begin_;  // the first input element that belongs to the action
  std::vector<std::byte*> input_columns_;
  ScratchColumns outputs_;
  ScratchColumns d_outputs_;
  CriticColumns q_;
  MutableCriticColumns d_q_;
  MutableColumnsView d_output_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CRITIC_ENSEMBLE_H_
