// On-policy actor-critic algorithms: what PPO and A2C have in common, which is all but the loss and
// how often it is used. Create them by policy/ppo and policy/a2c.
//
//   collect  samples; the output has "action" (and "raw_action" if it is continuous), "logit" or
//            "mean", "log_prob" and "value". GetTrainSample() adds the columns "adv" and "return":
//            generalized advantages (data/returns.h), with V(final_obs) where a segment was cut or
//            truncated and 0 where the episode terminated. If asked to, it also
//              - divides the rewards by the running deviation of the return
//                (policy/reward_scaler.h)
//              - replaces the observations by normalized ones, by the statistics with which these
//                rows were acted on; only then the rows go into the statistics
//   eval     the most probable action; statistics stand still
//   learn    on rows of GetTrainSample(): `epochs` times all rows, in minibatches of a random order
//   command  settings "lr" and "entropy_weight" for learn mode, if they decay: functions of info
//            "envstep" alone, so that a resumed run needs no state for them
//
// A learning iteration is a minibatch. It reports the scalars cur_lr, total_loss, policy_loss,
// value_loss, entropy, approx_kl, clip_fraction, grad_norm, and once a call the same for all:
// adv_std, explained_var (variance explained, of the returns, by the critic that acted).
//
// Saved: model as ActorCritic says; train state "optimizer/...", "rng" (of the order of rows);
// collect state "rng", and "reward_scaler/..." if rewards are scaled.
//
// Ownership: the policy owns networks and optimizer; its modes share them.
// Threads:   one thread at a time, whichever mode.
// Errors:    kInvalidArgument for data of another layout, actions that do not exist, and rows
//            without a legal action; kInternal for NaN and infinity in data, loss or gradient. A failed
//            call leaves everything as it was before it, also if minibatches were learned already.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_POLICY_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_POLICY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class ActorCriticPolicy : public Policy {
 public:
  // Networks and spaces as ActorCritic::Create() says.
  static absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> Create(
      std::unique_ptr<Network> actor, std::unique_ptr<Network> critic, SpecPtr observation,
      SpecPtr action, const ActorCriticPolicyOptions& options);
  ~ActorCriticPolicy() override;

  CollectMode* collect_mode() override;
  LearnMode* learn_mode() override;
  EvalMode* eval_mode() override;
  CommandMode* command_mode() override;

  ActorCritic& actor_critic() { return *actor_critic_; }

 private:
  explicit ActorCriticPolicy(const ActorCriticPolicyOptions& options);

  const ActorCriticPolicyOptions options_;
  std::unique_ptr<ActorCritic> actor_critic_;
  std::unique_ptr<CollectMode> collect_;
  std::unique_ptr<LearnMode> learn_;
  std::unique_ptr<EvalMode> eval_;
  std::unique_ptr<CommandMode> command_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_POLICY_H_
