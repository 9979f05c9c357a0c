// A2C, the synchronous form of A3C (Mnih et al. 2016): one optimizer step on all rows that the
// current policy has just collected. policy/actor_critic/actor_critic_policy.h describes columns,
// modes and saved state, policy/loss/actor_critic_loss.h the loss.
#ifndef DING_WORKER_POLICY_A2C_A2C_H_
#define DING_WORKER_POLICY_A2C_A2C_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/network.h"

namespace ding {

struct A2cOptions {
  ActorCriticPolicyOptions policy;  // `name` is unused; of `update`, only the coefficients are used
  bool normalize_adv = false;
};

// Networks and spaces as for ActorCritic::Create(). If `critic` is null, the actor has the head
// "value".
absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> CreateA2c(std::unique_ptr<Network> actor,
                                                             std::unique_ptr<Network> critic,
                                                             SpecPtr observation, SpecPtr action,
                                                             const A2cOptions& options);

}  // namespace ding

#endif  // DING_WORKER_POLICY_A2C_A2C_H_
