// Discrete soft actor-critic (Christodoulou 2019, "Soft actor-critic for discrete action
// settings"): twin critics, a learned temperature, and expectations over the actions in place of
// samples.
//
//     obs ──► actor ──► "logit" [A] ──► softmax over the legal actions
//        ├──► critic 0 ──► "q" [A] ──┐
//        └──► critic 1 ──► "q" [A] ──┴──► minimum
//
//   collect  samples from the softmax
//   eval     takes the most probable action
//   command  gives the settings of the options' schedules
//   learn    takes one Adam step for critics, actor and temperature on a batch of transitions with
//            the columns of data/sample_columns.h: obs, action, reward, next_obs, discount and
//            optionally weight
//
// Losses: policy/loss/off_policy_loss.h. All gradients of an iteration are computed with the
// parameters before it. Illegal actions (policy/action_space.h) have probability 0.
//
// An iteration reports the scalars cur_lr (of the critics), critic_loss, actor_loss, q_value (the
// mean over critics and rows), target_q_value (the mean target), td_error (the mean of |td error|),
// alpha, entropy, and every 10th time grad_norm (the norm of the critics' gradient before
// clipping); and |td error|, averaged over the critics, as priorities if these are configured.
//
// The optional settings kActorRate, kCriticRate, kAlphaRate and kTargetEntropy change the learning
// rates and the target from then on. The learners of a group step by the mean of their rates,
// because these may differ for a moment.
//
// Saved: model "model/actor/<parameter>"; train state "critic/q<k>/<parameter>",
// "target_critic/q<k>/<parameter>", "critic_optimizer/q<k>/...", "actor_optimizer/...",
// "log_alpha", "alpha_optimizer/...", "train_iter"; collect state "rng". Loading a model changes
// the actor only.
//
// Ownership: the policy owns networks and optimizers; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    kInvalidArgument for data of another layout or actions that do not exist; kInternal,
//            with the number of the training iteration, for NaN and infinity in data, loss or
//            gradient. A failed call changes nothing.
#ifndef DING_WORKER_POLICY_DISCRETE_SAC_DISCRETE_SAC_H_
#define DING_WORKER_POLICY_DISCRETE_SAC_DISCRETE_SAC_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// The target entropy of the paper: 0.98 of the logarithm of the number of actions.
double DefaultTargetEntropy(int64_t num_actions);

struct DiscreteSacOptions {
  uint64_t seed = 0;  // the collect mode uses the stream (seed, "policy/collect")
  AdamOptions actor_adam;
  AdamOptions critic_adam;
  double grad_clip_norm = 0;             // maximal norm, of actor and critics each; 0: not clipped
  double target_update_theta = 0.005;    // the targets move by this fraction, in (0, 1]
  double alpha = 1;                      // the temperature, or its initial value; above 0
  bool learn_alpha = true;               // adapts alpha so that the entropy becomes target_entropy
  AdamOptions alpha_adam;                // for log alpha
  std::optional<double> target_entropy;  // in [0, log A]; not set: the default
  // The schedules change the settings of policy/policy_modes.h.
  FieldSchedules schedules;
  CollectAttributes collect;
  LearnAttributes learn;
  PolicyModes modes;
  // Averages gradients with the other learners of a group; null: a single learner. It must outlive
  // the policy.
  GradientReducer* reducer = nullptr;
};

struct DiscreteSacNetworks {
  std::unique_ptr<Network> actor;
  // Null without a learn mode.
  std::unique_ptr<Network> critic0;
  std::unique_ptr<Network> critic1;
};

class DiscreteSacPolicy : public ModelPolicy<ActorCritic> {
 public:
  // All networks read WithoutActionMask(observation). The actor has one output field "logit" [A],
  // and the critics have one output field "q" [A].
  //   kInvalidArgument  a space, a network or an option does not fit; a recurrent network
  static absl::StatusOr<std::unique_ptr<DiscreteSacPolicy>> Create(
      DiscreteSacNetworks networks, SpecPtr observation, SpecPtr action,
      const DiscreteSacOptions& options);

  ActorCritic& actor() { return *model_; }

 private:
  using ModelPolicy::ModelPolicy;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DISCRETE_SAC_DISCRETE_SAC_H_
