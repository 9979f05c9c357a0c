// A policy that takes random actions: to fill a replay buffer before learning starts, and to test
// and measure envs and workers without a network.
//
// An action is uniform over the action space: each element of a discrete field over its categories,
// each element of a box over [low, high]. A box without finite bounds is refused.
//
// Ownership: RandomPolicy owns its modes; each uses a random stream of its own.
// Threads:   thread-compatible.
// Errors:    kInvalidArgument for an action space that cannot be sampled, naming the field, and for
//            an output that does not have the layout of the action space.
#ifndef DING_WORKER_POLICY_RANDOM_POLICY_H_
#define DING_WORKER_POLICY_RANDOM_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Draws rows of an action space.
class ActionSampler {
 public:
  // `observation` may be null. If it has an action mask, only legal actions are drawn.
  static absl::StatusOr<ActionSampler> Create(SpecPtr action, Rng rng, SpecPtr observation);

  const SpecPtr& spec() const { return spec_; }
  // Fills a row of `out`, which has the layout spec(), per row of `obs`.
  //   kInvalidArgument  `obs` does not have the layout of the observation, or a row has no legal
  //                     action
  absl::Status Sample(const ColumnsView& obs, const MutableColumnsView& out);
  Rng& rng() { return rng_; }
  const Rng& rng() const { return rng_; }

 private:
  ActionSampler(SpecPtr action, Rng rng, SpecPtr observation, std::optional<int> mask_field)
      : spec_(std::move(action)),
        rng_(rng),
        observation_(std::move(observation)),
        mask_field_(mask_field) {}

  SpecPtr spec_;
  Rng rng_;
  SpecPtr observation_;
  std::optional<int> mask_field_;
};

// A random replacement of any policy's collect_mode(). It has no parameters: LoadModel() accepts
// only an empty model.
class RandomCollectMode : public CollectMode {
 public:
  // Draws from the stream (seed, "policy/collect"). `observation` may be null. If it has an action
  // mask, only legal actions are drawn.
  static absl::StatusOr<std::unique_ptr<RandomCollectMode>> Create(SpecPtr action, uint64_t seed,
                                                                   CollectAttributes attributes,
                                                                   SpecPtr observation = nullptr);

  const SpecPtr& output_spec() const override { return sampler_.spec(); }
  CollectAttributes attributes() const override { return attributes_; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status LoadModel(StateReader* reader) override;
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  RandomCollectMode(ActionSampler sampler, CollectAttributes attributes)
      : sampler_(std::move(sampler)), attributes_(attributes) {
    attributes_.reward_components = true;  // it reads no rewards
  }

  ActionSampler sampler_;
  CollectAttributes attributes_;
};

// The options of a policy with collect, eval and command modes, but no learn mode.
struct RandomPolicyOptions {
  SpecPtr action;
  SpecPtr observation;  // may be null; its action mask limits the actions
  uint64_t seed = 0;
  CollectAttributes collect;
  PolicyModes modes;
};
absl::StatusOr<std::unique_ptr<Policy>> CreateRandomPolicy(const RandomPolicyOptions& options);

}  // namespace ding

#endif  // DING_WORKER_POLICY_RANDOM_POLICY_H_
