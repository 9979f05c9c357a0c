// The actors of off-policy algorithms with continuous actions, and the squashed normal distribution
// of the actions of SAC.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTOR_H_
#define DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTOR_H_

#include <cstddef>
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
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/observation_normalizer.h"

namespace ding {

// The outputs of an actor's network.
enum class ActorHead {
  kMean,    // "mean"
  kNormal,  // "mean" and "log_std"
};
absl::StatusOr<SpecPtr> ActorOutputs(const FieldSpec& action, ActorHead head);

// The actor of an off-policy algorithm with continuous actions: a network and its spaces.
//
//     obs ──► normalized? ──► network ──► "mean" [n], perhaps "log_std" [n] ──► algorithm ──► action in [-1, 1] ──► scaled
//
// Saved, below "model": "actor/<parameter>" and, if observations are normalized,
// "statistics/<field>/...".
//
// Ownership: owns the network.
// Errors:    messages begin with the name of the algorithm.
class ContinuousActor {
 public:
  // `network` reads the observation, and has the outputs of ActorOutputs(). With `obs_clip`,
  // observations are normalized by the statistics of SetStatistics(), and bounded by `obs_clip`.
  //   kInvalidArgument  a space or the network does not fit; a recurrent network
  static absl::StatusOr<std::unique_ptr<ContinuousActor>> Create(
      absl::string_view algorithm, ActorHead head, std::unique_ptr<Network> network, SpecPtr action,
      std::optional<double> obs_clip = std::nullopt);

  const std::string& algorithm() const { return algorithm_; }
  const SpecPtr& observation() const { return network_->input_spec(); }
  const SpecPtr& action() const { return action_; }
  const ActionScale& scale() const { return scale_; }
  Network& network() const { return *network_; }

  // If observations are normalized, computes their statistics from `rows` alone, as
  // ObservationNormalizer::Set() does.
  absl::Status SetStatistics(const RowParts& rows);
  // Returns the inputs of the networks for `obs`: `obs` itself or, if observations are normalized,
  // the normalized rows in `memory`, which has the spec of the observation.
  absl::StatusOr<ColumnsView> Inputs(const ColumnsView& obs, ScratchColumns* memory) const;

  // Compute the outputs for `obs` [B, ...], as Inputs() returns it; valid until the next call.
  // Forward() also keeps what Network::Backward() needs.
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

inline constexpr float kMinLogStd = -20;
inline constexpr float kMaxLogStd = 2;

// action = tanh(mean): the mean is the most probable value before the squashing. The spans may be
// the same.
void SquashMean(absl::Span<const float> mean, absl::Span<float> action);
// The gradient of SquashMean(): d_mean = d_action (1 - action^2). The spans may be the same.
void SquashMeanBackward(absl::Span<const float> action, absl::Span<const float> d_action,
                        absl::Span<float> d_mean);

// A normal distribution that tanh squashes into (-1, 1): the actions of soft actor-critic, their
// log-probabilities, and the gradients of both by the outputs of the actor's network.
//
//   u = mean + std noise     std = exp(clip(log_std, kMinLogStd, kMaxLogStd))
//   a = tanh(u)
//   log_prob = sum over elements of -noise^2 / 2 - log std - log(2 pi) / 2 - log(1 - a^2)
//
// With G = d loss / d a and L = d loss / d log_prob, for constant noise:
//   d loss / d u       = G (1 - a^2) + 2 L a
//   d loss / d mean    = d loss / d u
//   d loss / d log_std = d loss / d u std noise - L        0 where log_std is clipped
// Source: Haarnoja et al. 2018b ("Soft actor-critic algorithms and applications"), appendix C. The
// logarithm is computed as log(1 - tanh(u)^2) = 2 (log 2 - |u| - log(1 + exp(-2 |u|))), which does
// not overflow.
//
// Shapes: columns [B, n], row-major; log_prob [B].
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: owns working memory, which grows with the largest batch. The arguments of Sample()
//            must stay unchanged until Backward().
class SquashedNormal {
 public:
  // `width` is the number of elements of an action, n.
  explicit SquashedNormal(size_t width) : width_(width) {}

  // Writes the actions for the standard normal numbers `noise` to `action` [B, n], and their
  // log-probabilities to `log_prob` [B] unless `log_prob` is empty.
  void Sample(absl::Span<const float> mean, absl::Span<const float> log_std,
              absl::Span<const float> noise, absl::Span<float> action, absl::Span<float> log_prob);
  // Writes the gradients by `mean` and `log_std` of the last Sample().
  void Backward(absl::Span<const float> d_action, absl::Span<const float> d_log_prob,
                absl::Span<float> d_mean, absl::Span<float> d_log_std) const;

 private:
  const size_t width_;
  // The arguments and results of the last Sample().
  absl::Span<const float> log_std_;
  absl::Span<const float> noise_;
  absl::Span<const float> action_;
  std::vector<float> std_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTOR_H_
