// The eval mode of an ActorCritic: it takes the most probable action. It keeps recurrent states of its own.
//
// Ownership: the networks must outlive it.
// Threads:   thread-compatible.
// Errors:    those of ActorCritic, prefixed by the name of the algorithm.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_GREEDY_EVAL_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_GREEDY_EVAL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
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

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_GREEDY_EVAL_H_
