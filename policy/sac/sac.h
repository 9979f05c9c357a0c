// Soft actor-critic with a learned temperature (Haarnoja et al. 2018b, "Soft actor-critic
// algorithms and applications"). The options also give:
//   REDQ  more than two critics, a random subset of them in the target, and an actor that learns
//         less often than the critics (Chen et al. 2021, "Randomized ensembled double Q-learning")
//   DroQ  dropout and layer normalization in the critics; the actor maximizes their mean (Hiraoka
//         et al. 2022, "Dropout Q-functions for doubly efficient reinforcement learning")
//
//   collect  draws from the squashed normal distribution of the actor
//            (policy/continuous/continuous_actor.h)
//   learn    takes one Adam step for critics, actor and temperature on a batch of transitions
//            (policy/continuous/continuous_policy.h). Further scalars: alpha; entropy, in
//            iterations in which the actor learns
//   eval     as policy/continuous/continuous_acting.h
//   command  gives the settings of the options' schedules
//
// Saved beside the state of ContinuousLearnMode: "log_alpha" and "alpha_optimizer/...".
//
// Ownership: the policy owns networks and optimizers; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    the errors of the modes. A failed call changes nothing.
#ifndef DING_WORKER_POLICY_SAC_SAC_H_
#define DING_WORKER_POLICY_SAC_SAC_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"

namespace ding {

// A cost that replaces log pi(a | s) in the entropy term, which the temperature weights; for your
// own algorithm.
struct EntropyCost {
  double value = 0;
  double slope = 0;  // d value / d log_prob
};
using EntropyCostFunction = std::function<EntropyCost(double log_prob)>;

struct SacOptions {
  std::string algorithm = "sac";  // in messages
  ContinuousOptions base;
  // Not set: the cost is log_prob itself. The learned temperature keeps the mean of -cost at
  // target_entropy.
  EntropyCostFunction entropy_cost;
  double alpha = 1;         // the temperature, or its initial value; above 0
  bool learn_alpha = true;  // adapts alpha so that the entropy becomes target_entropy
  AdamOptions alpha_adam;   // for log alpha
  // The entropy of actions in [-1, 1]; not set: minus the number of elements of an action.
  std::optional<double> target_entropy;
  // The number of critics whose minimum is the bootstrap value, drawn anew in every iteration; 0:
  // all critics.
  int target_subset = 0;
  CriticReduction actor_reduction = CriticReduction::kMin;
};

// `network` has the outputs of ActorOutputs(kNormal). `critics` may be null if there is no learn
// mode.
//   kInvalidArgument  a space, a network or an option does not fit
absl::StatusOr<std::unique_ptr<ContinuousPolicy>> CreateSac(std::unique_ptr<Network> network,
                                                            std::unique_ptr<CriticEnsemble> critics,
                                                            SpecPtr action,
                                                            const SacOptions& options);

}  // namespace ding

#endif  // DING_WORKER_POLICY_SAC_SAC_H_
