// A2C, the synchronous form of A3C (Mnih et al. 2016): one step of the optimizer on all rows that
// the current policy has just collected. Columns, modes and what is saved: policy/actor_critic/
// actor_critic_policy.h; the loss: policy/loss/actor_critic_loss.h.
#ifndef DING_WORKER_POLICY_A2C_A2C_H_
#define DING_WORKER_POLICY_A2C_A2C_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/network.h"

namespace ding {

struct A2cOptions {
  ActorCriticPolicyOptions policy;  // all but name, and of `update` the coefficients only
  bool normalize_adv = false;
};

// The same, as options of the class that does it.
ActorCriticPolicyOptions MakeA2cPolicyOptions(const A2cOptions& options);

// Networks and spaces as of ActorCritic::Create(); a null `critic`: the actor has the head "value".
absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> CreateA2c(std::unique_ptr<Network> actor,
                                                             std::unique_ptr<Network> critic,
                                                             SpecPtr observation, SpecPtr action,
                                                             const A2cOptions& options);

}  // namespace ding

#endif  // DING_WORKER_POLICY_A2C_A2C_H_
