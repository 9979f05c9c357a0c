// The options of on-policy actor-critic algorithms. PPO and A2C differ in these values only.
//
// Threads: plain data.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_OPTIONS_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ding_worker/data/sequence_samples.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// How an algorithm trains on the samples of a learn call.
struct ActorCriticUpdate {
  // Computes the loss of a minibatch and writes its gradients, as ComputePpoLoss() does.
  using Loss = std::function<ActorCriticLossResult(
      const ActorCriticLossInput&, const ActorCriticLossOptions&, const ActorCriticLossGradient&)>;
  Loss loss;
  ActorCriticLossOptions loss_options;
  std::shared_ptr<LossFunction> own_loss;  // replaces `loss`, which only reports; null: none
  int64_t epochs = 1;                      // at least 1
  // The number of samples in a minibatch: rows, or sequences of unroll_len rows. The last minibatch
  // of an epoch may have fewer samples; 0: all samples.
  int64_t minibatch_size = 0;
  bool normalize_adv = false;  // normalizes the advantages of each minibatch
  double max_kl = 0;  // a learn call ends before a minibatch of larger KL divergence; 0: no limit
  // Not set: the entropy weight is loss_options.entropy_coef. Set: the weight begins at that value,
  // in [kLeastEntropyWeight, kMostEntropyWeight], and adapts so that the entropy becomes
  // target_entropy. After each minibatch its logarithm moves by entropy_weight_rate (target_entropy
  // - entropy). This is gradient descent on the dual of the constraint (Haarnoja et al. 2018b,
  // "Soft actor-critic algorithms and applications", eq. 17, for the temperature).
  std::optional<double> target_entropy;
  double entropy_weight_rate = 0.01;  // above 0
};

struct ActorCriticPolicyOptions {
  std::string name;   // name of the algorithm in messages
  uint64_t seed = 0;  // streams (seed, "policy/collect") and (seed, "policy/shuffle")
  double gamma = 0.99;
  double gae_lambda = 0.95;
  AdamOptions adam;
  double lr_decay_env_steps = 0;  // the rate falls linearly to 0 within these; 0: it is constant
  // The entropy weight moves linearly from update.loss_options.entropy_coef to final_entropy_weight
  // within entropy_decay_env_steps; 0: it is constant.
  double entropy_decay_env_steps = 0;
  double final_entropy_weight = 0;  // at least 0
  FieldSchedules schedules;         // of the settings below; they replace the fields above
  double grad_clip_norm = 0;  // maximal norm of the gradient of all parameters; 0: not clipped
  ActorCriticOptions networks;
  bool freeze_statistics = false;  // whether to keep the observation statistics unchanged
  bool scale_reward = false;
  ActorCriticUpdate update;
  CollectAttributes collect;  // the policy sets on_policy
  LearnAttributes learn;      // the policy sets on_policy and sequences
  // How to treat the rows that are left at the end of a segment if collect.unroll_len is above 1.
  LastSample last_sample = LastSample::kNullPadding;
  PolicyModes modes;
  // Averages gradients with the other learners of a group, which must have equally many
  // minibatches; null: a single learner. It must outlive the policy.
  GradientReducer* reducer = nullptr;
};

// Settings that the command mode gives to the learn mode.
inline constexpr char kSettingLr[] = "lr";
inline constexpr char kSettingEntropyWeight[] = "entropy_weight";
inline constexpr char kSettingClipRatio[] = "clip_ratio";
inline constexpr char kSettingTargetEntropy[] = "target_entropy";

// The bounds of an adapted entropy weight.
inline constexpr double kLeastEntropyWeight = 1e-6;
inline constexpr double kMostEntropyWeight = 1;

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_OPTIONS_H_
