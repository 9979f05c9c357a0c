// How an ActorCritic acts: the eval mode, and the collect mode of off-policy algorithms.
//
// Ownership: the networks must outlive the modes.
// Threads:   thread-compatible.
// Errors:    the errors of ActorCritic, prefixed by the name of the algorithm.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_ACTING_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_ACTING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/recurrent_states.h"

namespace ding {

// Returns kInvalidArgument unless `out` has the layout of `expected` and a row per row of `obs`.
absl::Status CheckOutput(const Spec& expected, const ColumnsView& obs,
                         const MutableColumnsView& out);

// Takes the most probable action. Keeps its own recurrent states.
class GreedyEval : public EvalMode {
 public:
  // `name` is the name of the algorithm.
  GreedyEval(std::string name, ActorCritic* networks);

  const SpecPtr& output_spec() const override { return networks_.action(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status Reset(absl::Span<const int> env_ids) override;
  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }

 private:
  absl::Status Choose(const ColumnsView& obs, absl::Span<const int> env_ids,
                      const MutableColumnsView& out);

  const std::string name_;
  ActorCritic& networks_;
  std::optional<RecurrentStates> states_;  // of recurrent networks
};

// Samples from the distribution of the actor, for off-policy algorithms: it keeps no recurrent
// states.
//
// Saved: "rng".
class SampleCollect : public CollectMode {
 public:
  // `name` is the name of the algorithm. The random stream is (seed, "policy/collect"). With
  // `with_log_prob` the output has the column "log_prob", too.
  SampleCollect(std::string name, ActorCritic* networks, const CollectAttributes& attributes,
                uint64_t seed, bool with_log_prob = false);

  const SpecPtr& output_spec() const override { return output_; }
  CollectAttributes attributes() const override { return attributes_; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  absl::Status Sample(const ColumnsView& obs, const MutableColumnsView& out);

  const std::string name_;
  ActorCritic& networks_;
  const CollectAttributes attributes_;
  Rng rng_;
  const bool with_log_prob_;
  SpecPtr output_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_ACTING_H_
