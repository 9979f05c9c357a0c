#include "ding_worker/policy/a2c/a2c.h"

#include <utility>

#include "ding_worker/policy/loss/actor_critic_loss.h"

namespace ding {

absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> CreateA2c(std::unique_ptr<Network> actor,
                                                             std::unique_ptr<Network> critic,
                                                             SpecPtr observation, SpecPtr action,
                                                             const A2cOptions& options) {
  ActorCriticPolicyOptions policy = options.policy;
  policy.name = "a2c";
  policy.update.loss = ComputeA2cLoss;
  policy.update.epochs = 1;
  policy.update.minibatch_size = 0;
  policy.update.normalize_adv = options.normalize_adv;
  return ActorCriticPolicy::Create(std::move(actor), std::move(critic), std::move(observation),
                                   std::move(action), policy);
}

}  // namespace ding
