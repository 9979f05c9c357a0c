// Implicit Q-learning (Kostrikov et al. 2021, "Offline reinforcement learning with implicit
// Q-learning"): learns from recorded episodes, and evaluates only actions that are in these
// episodes.
//
//     obs ──────────► state value V ◄── expectile of min Q_target(obs, action of the data)
//     next_obs ─────► V ──► target of both critics Q
//     obs ──────────► actor ◄── cloning of the data's actions, weighted by exp(beta (min Q_target - V))
//
//   learn    takes one Adam step for critics, state value, actor and the deviation of the actor on
//            a batch of transitions (policy/continuous/continuous_policy.h,
//            policy/loss/off_policy_loss.h). Further scalars: value_loss, state_value (the mean of
//            V) and mean_weight (of the rows)
//   eval     as policy/continuous/continuous_acting.h
//   collect  acts like eval, to record a trained policy; learning needs no collected rows
//   command  gives the settings of the options' schedules
//
// The actor is a normal distribution around tanh(mean). Its deviation does not depend on the
// observation and is used only for learning; log_std is in [-5, 2].
//
// Saved beside the state of ContinuousLearnMode: "value/<parameter>", "value_optimizer/...",
// "distribution/log_std" and "distribution_optimizer/...".
//
// Ownership: the policy owns networks and optimizers; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    the errors of the modes. A failed call changes nothing.
#ifndef DING_WORKER_POLICY_IQL_IQL_H_
#define DING_WORKER_POLICY_IQL_IQL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/network.h"

namespace ding {

struct IqlOptions {
  ContinuousOptions base;  // critic_adam is also for the state value
  double expectile = 0.7;  // in (0, 1)
  double beta = 3;         // inverse temperature of the weights, at least 0; in units of 1 / return
};

struct IqlNetworks {
  std::unique_ptr<Network> actor;
  // Null without a learn mode.
  std::unique_ptr<CriticEnsemble> critics;
  std::unique_ptr<Network> value;
};

// The output of the network of the state value: "value", one float32.
SpecPtr StateValueOutputs();

// The actor has the outputs of ActorOutputs(kMean), and the state value reads the same fields as
// the actor.
//   kInvalidArgument  a space, a network or an option does not fit
absl::StatusOr<std::unique_ptr<ContinuousPolicy>> CreateIql(IqlNetworks networks, SpecPtr action,
                                                            const IqlOptions& options);

}  // namespace ding

#endif  // DING_WORKER_POLICY_IQL_IQL_H_
