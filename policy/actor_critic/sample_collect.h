// The collect mode of an off-policy ActorCritic: it samples from the distribution of the actor, and keeps no recurrent
// states.
//
// Saved: "rng".
//
// Ownership: the networks must outlive it.
// Threads:   thread-compatible.
// Errors:    those of ActorCritic, prefixed by the name of the algorithm.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_SAMPLE_COLLECT_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_SAMPLE_COLLECT_H_

#include <cstdint>
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

namespace ding {

class SampleCollect : public CollectMode {
 public:
  // `name` is the name of the algorithm. The random stream is (seed, "policy/collect").
  SampleCollect(std::string name, ActorCritic* networks, const CollectAttributes& attributes,
                uint64_t seed);

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
  SpecPtr output_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_SAMPLE_COLLECT_H_
