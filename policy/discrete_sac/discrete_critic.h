// A critic of discrete SAC, with its target, its optimizer and its columns of a batch.
//
// Saved, for critic number k: "critic/q<k>/<parameter>", "target_critic/q<k>/<parameter>" and "critic_optimizer/q<k>/...".
//
// Shapes: values [B, A], actions and values of the actions taken [B].
// Ownership: owns network, target, optimizer and columns; spans are valid until the next pass.
// Threads:   thread-compatible.
// Errors:    as in policy/network.h.
#ifndef DING_WORKER_POLICY_DISCRETE_SAC_DISCRETE_CRITIC_H_
#define DING_WORKER_POLICY_DISCRETE_SAC_DISCRETE_CRITIC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/dqn/q_network.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {

class DiscreteCritic {
 public:
  // Messages begin with `algorithm`; `number` is k.
  //   kInvalidArgument  there is no network, it has a memory, or it does not fit the spaces
  static absl::StatusOr<std::unique_ptr<DiscreteCritic>> Create(
      absl::string_view algorithm, std::unique_ptr<Network> network, const SpecPtr& observation,
      const SpecPtr& action, const AdamOptions& options, int number);

  QNetwork& q() { return *q_; }
  Network& network() { return q_->network(); }
  Adam& adam() { return adam_; }
  // The values of the last pass.
  absl::Span<const float> values() const { return values_; }
  // The values of the actions taken, of the last Forward(), and the gradient by them.
  absl::Span<const float> taken() const { return taken_; }
  absl::Span<float> d_taken() { return absl::MakeSpan(d_taken_); }

  absl::Status InferTarget(const ColumnsView& inputs);
  absl::Status Forward(const ColumnsView& inputs, absl::Span<const int64_t> action);
  // Computes the gradients of the parameters from d_taken().
  absl::Status Backward(absl::Span<const int64_t> action);
  // Moves the target by the fraction `theta`.
  void MoveTarget(double theta, int64_t train_iter);

  absl::Status SaveState(StateWriter* writer) const;
  // A saved state, which ReadState() reads and Apply() makes the current one.
  struct Saved {
    std::vector<float> parameters;
    std::vector<float> target;
    Adam adam;
  };
  absl::StatusOr<Saved> ReadState(StateReader* reader);
  void Apply(const Saved& saved);

 private:
  DiscreteCritic(std::unique_ptr<QNetwork> q, std::unique_ptr<Network> target, Adam adam,
                 const AdamOptions& options, int number);

  std::string Scope(absl::string_view part) const;
  size_t At(size_t row, int64_t action) const {
    return row * static_cast<size_t>(q_->num_actions()) + static_cast<size_t>(action);
  }

  const std::unique_ptr<QNetwork> q_;
  const std::unique_ptr<Network> target_;
  Adam adam_;
  const AdamOptions options_;
  const std::string name_;

  // Working space, kept between iterations.
  ScratchColumns outputs_;
  ScratchColumns d_outputs_;
  absl::Span<const float> values_;
  std::vector<float> taken_;
  std::vector<float> d_taken_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DISCRETE_SAC_DISCRETE_CRITIC_H_
