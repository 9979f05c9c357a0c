// The actor of an off-policy algorithm with continuous actions: a network, and the spaces that it belongs to.
//
//     obs ──► normalized? ──► network ──► "mean" [n], perhaps "log_std" [n] ──► algorithm ──► action in [-1, 1] ──► scaled
//
// Saved, below "model": "actor/<parameter>" and, if observations are normalized, "statistics/<field>/...".
//
// Ownership: owns the network.
// Threads:   thread-compatible.
// Errors:    messages begin with the name of the algorithm.
#ifndef DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTOR_H_
#define DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_scale.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/observation_normalizer.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {

// The outputs of an actor's network.
enum class ActorHead {
  kMean,    // "mean"
  kNormal,  // "mean" and "log_std"
};
absl::StatusOr<SpecPtr> ActorOutputs(const FieldSpec& action, ActorHead head);

class ContinuousActor {
 public:
  // `network` reads the observation, and has the outputs of ActorOutputs(). With `obs_clip` observations are normalized
  // by the statistics of SetStatistics(), and bounded by it.
  //   kInvalidArgument  a space or the network does not fit; a recurrent network
  static absl::StatusOr<std::unique_ptr<ContinuousActor>> Create(
      absl::string_view algorithm, ActorHead head, std::unique_ptr<Network> network, SpecPtr action,
      std::optional<double> obs_clip = std::nullopt);

  const std::string& algorithm() const { return algorithm_; }
  const SpecPtr& observation() const { return network_->input_spec(); }
  const SpecPtr& action() const { return action_; }
  const ActionScale& scale() const { return scale_; }
  Network& network() const { return *network_; }

  // Makes the statistics of observations those of `rows`, as ObservationNormalizer::Set(), if they are normalized.
  void SetStatistics(const ColumnsView& rows);
  // Returns what the networks read of `obs`: the observations themselves or, if they are normalized, in `memory`, which
  // has the spec of the observation.
  absl::StatusOr<ColumnsView> Inputs(const ColumnsView& obs, ScratchColumns* memory) const;

  // Computes the outputs for Inputs() [B, ...]; valid until the next call. Forward() also keeps what
  // Network::Backward() needs.
  //   kInternal  an output is not finite; names the row
  absl::StatusOr<ColumnsView> Infer(const ColumnsView& obs);
  absl::StatusOr<ColumnsView> Forward(const ColumnsView& obs);

  absl::Status SaveModel(StateWriter* writer) const;
  absl::Status LoadModel(StateReader* reader);

 private:
  ContinuousActor(absl::string_view algorithm, std::unique_ptr<Network> network, SpecPtr action,
                  ActionScale scale, std::optional<ObservationNormalizer> normalizer);

  absl::Status CheckFinite(const ColumnsView& outputs) const;

  const std::string algorithm_;
  const std::unique_ptr<Network> network_;
  const SpecPtr action_;
  const ActionScale scale_;
  const std::vector<ParameterInfo> info_;  // of the model
  std::optional<ObservationNormalizer> normalizer_;
  ScratchColumns outputs_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTOR_H_
