// The collect mode of on-policy actor-critic algorithms: it samples actions and computes advantages
// and returns. actor_critic_policy.h describes the columns, the saved state and the errors.
//
// Ownership: `options` and `networks` must outlive the mode.
// Threads:   thread-compatible; it shares `networks` with the other modes.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_COLLECT_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_COLLECT_H_

#include <memory>

#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/policy.h"

namespace ding {

std::unique_ptr<CollectMode> MakeActorCriticCollect(const ActorCriticPolicyOptions& options,
                                                    ActorCritic* networks);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_COLLECT_H_
