// The policy of on-policy actor-critic algorithms. PPO and A2C (policy/ppo, policy/a2c) create it
// with their loss and their number of epochs and minibatches.
//
//   collect  samples actions. The output has "action" (and "raw_action" if it is continuous),
//            "logit" or "mean", "log_prob" and "value". GetTrainSample() adds the columns "adv" and
//            "return": generalized advantages (data/returns.h), with the bootstrap value
//            V(final_obs) where a segment was cut or truncated and 0 where the episode terminated.
//            Optionally it also
//              - divides the rewards by the running deviation of the return
//                (data/running_normalizer.h)
//              - normalizes the observations by the statistics with which the policy acted on these
//                rows, and then adds the rows to the statistics
//            A policy without a learn mode, in another process than the learner, leaves the
//            statistics as they are: it adds the columns from which the learner computes them,
//            "raw/<input>" and "raw_return", and uses the statistics of the model that it loads. A
//            learn mode without a collect mode adds each row that it learns from to the statistics,
//            once (data/running_normalizer.h), after its steps; in a group, it adds the rows of all
//            learners. If unroll_len T is above 1, GetTrainSample() cuts the segments into samples
//            [N * T] of T rows (data/sequence_samples.h), with column "mask"
//   eval     takes the most probable action; the statistics do not change
//   learn    trains on samples of GetTrainSample(): `epochs` passes, in minibatches in random
//            order. Padding is ignored
//   command  gives the learn mode the settings "lr", "entropy_weight", "clip_ratio" and
//            "target_entropy" if they change. They depend only on the progress of the run, so a
//            resumed run needs no state for them
//
// Recurrent networks need T above 1. Collect and eval mode keep a recurrent state for each env,
// which Reset() makes 0. The output of the collect mode then has "rnn_state" [S], the state before
// the row. The learn mode computes each sample from the state of its first row on (backpropagation
// through time), and GetTrainSample() computes V(final_obs) from the state after the segment's last
// row.
//
// A learning iteration is a minibatch. It reports the scalars cur_lr, total_loss, policy_loss,
// value_loss, entropy, approx_kl, clip_fraction and grad_norm, and two scalars that are equal for
// all minibatches of a call: adv_std and explained_var (the share of the variance of the returns
// that the critic of the acting policy explains). If the entropy weight is adapted
// (ActorCriticUpdate::target_entropy), it also reports entropy_weight.
//
// Saved: the model as in ActorCritic; train state "optimizer/...", "rng" (for the order of
// samples), and "log_entropy_weight" if the weight is adapted; collect state "rng",
// "reward_scaler/..." if rewards are scaled, "rnn_states/..." of recurrent networks.
//
// Ownership: the policy owns networks and optimizer; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    kInvalidArgument for data of another layout, actions that do not exist, and rows
//            without a legal action; kInternal for NaN and infinity in data, loss or gradient.
//            A failed call leaves the policy as it was before, even if some minibatches had
//            succeeded.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_POLICY_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_POLICY_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {

// Creates the command mode described above. `options` must outlive it.
std::unique_ptr<CommandMode> MakeActorCriticCommand(const ActorCriticPolicyOptions& options);

class ActorCriticPolicy : public ModelPolicy<ActorCritic> {
 public:
  // Networks and spaces as for ActorCritic::Create().
  //   kInvalidArgument  also if a network is recurrent and unroll_len is 1
  static absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> Create(
      std::unique_ptr<Network> actor, std::unique_ptr<Network> critic, SpecPtr observation,
      SpecPtr action, const ActorCriticPolicyOptions& options);

  ActorCritic& actor_critic() { return *model_; }

 private:
  ActorCriticPolicy(std::unique_ptr<ActorCritic> networks, const ActorCriticPolicyOptions& options)
      : ModelPolicy(std::move(networks)), options_(options) {}

  const ActorCriticPolicyOptions options_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_POLICY_H_
