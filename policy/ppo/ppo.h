// PPO (Schulman et al. 2017) with clipped ratios: several epochs of minibatches over the rows that
// the current policy has just collected. policy/actor_critic/actor_critic_policy.h describes
// columns, modes and saved state, policy/loss/actor_critic_loss.h the loss.
//
// Example:
//   PpoOptions options;
//   options.policy.collect.n_sample = 256;
//   options.minibatch_size = 64;
//   DING_ASSIGN_OR_RETURN(auto policy, CreatePpo(std::move(actor), std::move(critic), observation,
//                                                action, options));
#ifndef DING_WORKER_POLICY_PPO_PPO_H_
#define DING_WORKER_POLICY_PPO_PPO_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/network.h"

namespace ding {

struct PpoOptions {
  ActorCriticPolicyOptions policy;  // reads only the coefficients of `update`; empty `name`: "ppo"
  ActorCriticUpdate::Loss loss = ComputePpoLoss;  // for your own algorithm
  int64_t epochs = 10;          // passes over the samples of a learn call, at least 1
  int64_t minibatch_size = 64;  // samples, at least 1
  double ratio_clip = 0.2;      // above 0
  double value_clip = 0;        // 0: the value loss is not clipped
  bool normalize_adv = true;    // normalizes the advantages of each minibatch
  double max_kl = 0;            // a learn call ends above this KL divergence; 0: no limit
  // As in ActorCriticUpdate.
  std::optional<double> target_entropy;
  double entropy_weight_rate = 0.01;
};

// Networks and spaces as for ActorCritic::Create(). If `critic` is null, the actor has the head
// "value".
absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> CreatePpo(std::unique_ptr<Network> actor,
                                                             std::unique_ptr<Network> critic,
                                                             SpecPtr observation, SpecPtr action,
                                                             const PpoOptions& options);

}  // namespace ding

#endif  // DING_WORKER_POLICY_PPO_PPO_H_
