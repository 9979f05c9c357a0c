// IMPALA (Espeholt et al. 2018): an actor-critic that learns from sequences of rows that an older
// policy has collected, from a replay buffer or from collectors that lag behind. V-trace
// (data/returns.h) corrects for the difference of the policies.
//
//   collect  samples actions. The output has "action" (and "raw_action" if it is continuous) and
//            "log_prob". It is not on-policy: the rows go to a replay buffer of sequences
//   eval     takes the most probable action
//   learn    takes one optimizer step on B sequences of T rows, by the loss of
//            policy/loss/actor_critic_loss.h. The current networks compute the values and ratios.
//            V(next_obs) is computed only at the ends of episodes and sequences. Columns
//            (data/sample_columns.h): obs, action, reward, discount, next_obs and "log_prob".
//            "mask" and "is_first" are read if they exist. "n_step" must be 1, "burn_in" 0, and
//            there must be no "weight"
//   command  gives the settings "lr" and "entropy_weight", as in PPO and A2C
//            (actor_critic_policy.h)
//
// A step reports the scalars cur_lr, total_loss, policy_loss, value_loss, entropy, mean_ratio (pi
// to mu), clip_fraction (ratios above rho_bar), approx_kl and grad_norm.
//
// With normalize_obs the learner adds the observations of a batch to the statistics after its step.
//
// Saved: the model as in ActorCritic; train state "optimizer/..."; collect state "rng".
//
// Ownership: the policy owns networks and optimizer; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    kInvalidArgument for data of another layout and settings out of range; kInternal for
//            NaN and infinity in data, loss or gradient. A failed call leaves the policy as it was
//            before.
//
// Example:
//   ImpalaOptions options;
//   options.policy.learn.batch_size = 16;  // sequences
//   DING_ASSIGN_OR_RETURN(auto policy, ImpalaPolicy::Create(std::move(actor), std::move(critic),
//                                                           observation, action, options));
#ifndef DING_WORKER_POLICY_IMPALA_IMPALA_H_
#define DING_WORKER_POLICY_IMPALA_IMPALA_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {

struct ImpalaOptions {
  // `name`, `gamma` and `scale_reward` are not read: the buffer has put gamma into the column
  // "discount". `gae_lambda` is the lambda of V-trace. Of `update` only the coefficients of value
  // and entropy are read.
  ActorCriticPolicyOptions policy;
  double rho_bar = 1;   // clips the ratios of the targets (data/returns.h), above 0
  double c_bar = 1;     // clips the traces, above 0
  bool v_trace = true;  // false: all ratios count as 1
};

class ImpalaPolicy : public ModelPolicy<ActorCritic> {
 public:
  // Networks and spaces as for ActorCritic::Create(). The networks must not be recurrent.
  //   kInvalidArgument  spaces, networks or options that do not fit
  static absl::StatusOr<std::unique_ptr<ImpalaPolicy>> Create(std::unique_ptr<Network> actor,
                                                              std::unique_ptr<Network> critic,
                                                              SpecPtr observation, SpecPtr action,
                                                              const ImpalaOptions& options);

  ActorCritic& actor_critic() { return *model_; }

 private:
  ImpalaPolicy(std::unique_ptr<ActorCritic> networks, const ImpalaOptions& options)
      : ModelPolicy(std::move(networks)), options_(options) {}

  const ImpalaOptions options_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_IMPALA_IMPALA_H_
