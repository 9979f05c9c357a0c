#include "ding_worker/policy/ppo/ppo.h"

#include <utility>

namespace ding {

absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> CreatePpo(std::unique_ptr<Network> actor,
                                                             std::unique_ptr<Network> critic,
                                                             SpecPtr observation, SpecPtr action,
                                                             const PpoOptions& options) {
  ActorCriticPolicyOptions policy = options.policy;
  if (policy.name.empty()) policy.name = "ppo";
  policy.update.loss = options.loss;
  policy.update.loss_options.ratio_clip = options.ratio_clip;
  policy.update.loss_options.value_clip = options.value_clip;
  policy.update.epochs = options.epochs;
  policy.update.minibatch_size = options.minibatch_size;
  policy.update.normalize_adv = options.normalize_adv;
  policy.update.max_kl = options.max_kl;
  policy.update.target_entropy = options.target_entropy;
  policy.update.entropy_weight_rate = options.entropy_weight_rate;
  return ActorCriticPolicy::Create(std::move(actor), std::move(critic), std::move(observation),
                                   std::move(action), policy);
}

}  // namespace ding
