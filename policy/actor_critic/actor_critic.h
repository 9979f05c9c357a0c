// The model of actor-critic algorithms: an actor, a critic, a distribution over actions, and the
// statistics that normalize observations.
//
//     observation ──► without mask ──► normalized ──┬──► actor  "logit" | "mean" ──► distribution
//                         │                         └──► critic "value"                  ▲
//                         └── mask ──────────────────────────────────────────────────────┘
//
// Actor and critic are two networks or one network with two heads. Algorithms that learn no values
// have no critic.
//
// Each network may be recurrent (policy/network.h). The caller keeps the recurrent states: rows of
// state_size() floats, first the floats of the actor, then the floats of the critic.
//
// Only UpdateStatistics(), UpdateInputStatistics() and return_statistics() change the statistics.
// They are part of the model, so that a process that loads the model normalizes observations as in
// training.
//
// Saved, below "model": "actor/<parameter>" and "critic/<parameter>" (or
// "actor_critic/<parameter>"), "distribution/log_std" if actions are continuous,
// "statistics/<input>/..." if observations are normalized, "return_statistics/..." if rows were
// added to them.
//
// Ownership: owns all its parts. Spans of outputs are valid until the next call.
// Threads:   thread-compatible.
// Errors:    kInvalidArgument for data of another layout, kInternal for NaN and infinity.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/observation_normalizer.h"

namespace ding {

// A network of an ActorCritic, and its part of the recurrent states. In a row of states, the parts
// of all networks are side by side, so that the states are a single column:
//
//     rows [B]   | state of the actor | state of the critic |        a network without memory has no part
//
// Ownership: owns the network. Returns the errors of the network.
class NetworkPart {
 public:
  // The part begins at float `state_begin` of a row of states. `network` may be null: there is no
  // such network, and neither Infer() nor Forward() may be called.
  NetworkPart(std::unique_ptr<Network> network, int64_t state_begin);

  Network* network() const { return network_.get(); }
  // The number of floats in its part; 0 without memory.
  int64_t state_size() const { return recurrent_ == nullptr ? 0 : recurrent_->state_size(); }

  // Computes the outputs of rows [B], each from its row of `states` [B, floats of all networks],
  // and advances its part of the states by one step. If `states` is empty, the rows begin episodes.
  absl::Status Infer(const ColumnsView& input, absl::Span<float> states,
                     const MutableColumnsView& output);
  // The pass for learning, for sequences of `length` rows; row i of `states` is the state before
  // sequence i.
  absl::Status Forward(const ColumnsView& input, int64_t length, absl::Span<const float> states,
                       const MutableColumnsView& output);

 private:
  // Returns this network's part of the rows of `states`; does not copy if the part is the whole
  // row.
  absl::Span<const float> PartOf(absl::Span<const float> states, int64_t rows);

  std::unique_ptr<Network> network_;
  RecurrentNetwork* recurrent_;  // network_, or null if it has no memory
  int64_t state_begin_;
  std::vector<float> part_;  // working space
};

struct ActorCriticOptions {
  double initial_log_std = 0;   // continuous actions only: see ActionDistribution
  bool squash_actions = false;  // likewise
  bool normalize_obs = false;
  double obs_clip = 10;  // bound of normalized observations, above 0
  // If false, there is no value head, and methods that need one must not be called.
  bool has_value = true;
};

class ActorCritic {
 public:
  // The output of the critic, or the second output of the actor if there is no critic.
  static FieldSpec ValueField();

  // The scope of return_statistics() in a saved model.
  static std::string ReturnStatisticsScope();
  // The scope of the actor's parameters in a saved model. `shared`: the actor also has the value
  // head.
  static std::string ParametersOf(bool shared);

  // `actor` and `critic` read WithoutActionMask(observation). The actor has the output field
  // ActionDistribution::head() and, if `critic` is null and has_value is set, ValueField(). The
  // critic has the output field ValueField().
  //   kInvalidArgument  spaces or networks that do not fit
  static absl::StatusOr<std::unique_ptr<ActorCritic>> Create(std::unique_ptr<Network> actor,
                                                             std::unique_ptr<Network> critic,
                                                             SpecPtr observation, SpecPtr action,
                                                             const ActorCriticOptions& options);

  const SpecPtr& observation() const { return observation_; }
  // The fields that the networks read.
  const SpecPtr& inputs() const { return inputs_.spec(); }
  std::optional<int> mask_field() const { return mask_field_; }
  const SpecPtr& action() const { return action_; }
  ActionDistribution& distribution() { return *distribution_; }
  bool normalizes() const { return normalizer_.has_value(); }
  // The number of floats in the recurrent state of a row; 0 without recurrent networks.
  int64_t state_size() const { return actor_.state_size() + critic_.state_size(); }

  // Sets the distribution for `obs` [B, ...], and writes V(obs) to `value` [B] unless it is empty.
  // `states` [B, state_size()] holds the states before `obs`; Act() replaces them by the states
  // after it. The states of the critic change only if `value` is written. If `states` is empty, the
  // rows begin episodes. kInternal if outputs are not finite.
  absl::Status Act(const ColumnsView& obs, absl::Span<float> value, absl::Span<float> states = {});
  // Returns the head outputs of the last Act() [B, W].
  absl::Span<const float> head() const { return head_; }
  // Writes V(obs) to `value`. A value is not finite if its row of `obs` is not. As in Act(),
  // `states` advance by one step, but only the parts on which V depends.
  absl::Status Values(const ColumnsView& obs, absl::Span<float> value,
                      absl::Span<float> states = {});

  // Normalizes the inputs in place. They are the first fields of `rows`, without the mask.
  void NormalizeInputs(const MutableColumnsView& rows);
  // Adds the rows of `obs`, which must be finite and not yet normalized, to the statistics.
  void UpdateStatistics(const ColumnsView& obs);
  // Adds rows of inputs() to the statistics, together with the rows of the other learners of a
  // group. Nothing is changed if `sum` fails.
  absl::Status UpdateInputStatistics(const ColumnsView& inputs, GroupSum sum);

  // The statistics of discounted returns by which collectors in other processes scale rewards
  // (data/running_normalizer.h).
  RunningNormalizer& return_statistics() { return return_statistics_; }

  // Returns the inputs of Forward() for `obs`, normalized if there are statistics. The view is
  // valid until the next call.
  absl::StatusOr<ColumnsView> Inputs(const ColumnsView& obs);

  // The pass for learning. The first fields of `inputs` [B, ...] are the inputs of the networks,
  // already normalized; recurrent networks read them as sequences of `length` rows, with `states`
  // [B / length, state_size()] before their first rows. Inputs and states must stay unchanged until
  // Backward(). Sets the distribution and value(). The caller then writes the gradients of the loss
  // by the head and by value() to d_head() and d_value() and calls Backward(), which computes the
  // gradients of the networks.
  absl::Status Forward(const ColumnsView& inputs, absl::Span<const uint8_t> mask,
                       int64_t length = 1, absl::Span<const float> states = {});
  absl::Span<const float> value() const { return value_; }
  absl::Span<float> d_head() const { return d_actor_.column<float>(0); }
  absl::Span<float> d_value() const {
    return critic() == nullptr ? d_actor_.column<float>(1) : d_critic_.column<float>(0);
  }
  absl::Status Backward();

  // Returns all parameters that an optimizer updates.
  std::vector<ParameterGroup> Groups();

  absl::Status SaveModel(StateWriter* writer) const;
  // Strict: an error lists everything that does not fit, and nothing is changed.
  absl::Status LoadModel(StateReader* reader);
  // "mlp 4-64-64 ...; critic mlp ...".
  std::string info() const;

 private:
  ActorCritic(std::unique_ptr<Network> actor, std::unique_ptr<Network> critic, SpecPtr observation,
              SpecPtr action, std::optional<ObservationNormalizer> normalizer, bool has_value);

  absl::Status CheckNames(StateReader* reader) const;
  // Whether the actor has a second head.
  bool shared() const { return critic() == nullptr && has_value_; }
  // Null: the actor has two heads, or there are no values.
  Network* critic() const { return critic_.network(); }
  const char* actor_name() const { return ActorName(shared()); }
  static const char* ActorName(bool shared) { return shared ? "actor_critic" : "actor"; }

  const SpecPtr observation_;
  const SpecPtr action_;
  NetworkPart actor_;
  NetworkPart critic_;
  const bool has_value_;
  std::unique_ptr<ActionDistribution> distribution_;
  std::optional<int> mask_field_;
  ColumnBinding inputs_;
  std::optional<ObservationNormalizer> normalizer_;  // of inputs()
  RunningNormalizer return_statistics_;

  // Working space, kept between calls.
  ScratchColumns normalized_scratch_;
  ScratchColumns actor_scratch_;
  ScratchColumns critic_scratch_;
  ScratchColumns d_actor_scratch_;
  ScratchColumns d_critic_scratch_;
  absl::Span<const float> head_;
  absl::Span<const float> value_;
  MutableColumnsView d_actor_;
  MutableColumnsView d_critic_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_H_
