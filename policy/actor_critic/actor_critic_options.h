// What an on-policy actor-critic algorithm is made of: PPO and A2C differ in these values only.
//
// Threads: plain data.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_OPTIONS_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_OPTIONS_H_

#include <cstdint>
#include <string>

#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// What one algorithm does with the rows of a learn call.
struct ActorCriticUpdate {
  using Loss = ActorCriticLossResult (*)(const ActorCriticLossInput&, const ActorCriticLossOptions&,
                                         const ActorCriticLossGradient&);
  Loss loss = nullptr;
  ActorCriticLossOptions loss_options;
  int64_t epochs = 1;          // at least 1
  int64_t minibatch_rows = 0;  // the last one of an epoch may have fewer; 0: all rows
  bool normalize_adv = false;  // of each minibatch
  double max_kl = 0;           // ends the call before the first minibatch with more; 0: no limit
};

struct ActorCriticPolicyOptions {
  std::string name;   // of the algorithm, in messages
  uint64_t seed = 0;  // streams (seed, "policy/collect") and (seed, "policy/shuffle")
  double gamma = 0.99;
  double gae_lambda = 0.95;
  AdamOptions adam;
  double lr_decay_env_steps = 0;  // the rate falls linearly to 0 by then; 0: it stays
  // The entropy weight moves linearly from update.loss_options to this one by then; 0: it stays.
  double entropy_decay_env_steps = 0;
  double final_entropy_weight = 0;  // at least 0
  double grad_clip_norm = 0;        // of the gradient of all parameters; 0: not clipped
  ActorCriticOptions networks;
  bool freeze_statistics = false;  // of observations: use them, but do not move them
  bool scale_reward = false;
  ActorCriticUpdate update;
  CollectAttributes collect;  // on_policy is set
  LearnAttributes learn;      // on_policy is set
  PolicyModes modes;
  // Of the learners that step together, with as many minibatches each; null: this one alone. Outlives
  // the policy.
  GradientReducer* reducer = nullptr;
};

// Settings that the command mode gives to the learn mode.
inline constexpr char kSettingLr[] = "lr";
inline constexpr char kSettingEntropyWeight[] = "entropy_weight";

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_OPTIONS_H_
