// Algorithms with deterministic actors and continuous actions:
//   TD3     Fujimoto et al. 2018, "Addressing function approximation error in actor-critic methods"
//   DDPG    TD3 with one critic, an actor that learns in every iteration, and no noise in the
//           target (Lillicrap et al. 2016, "Continuous control with deep reinforcement learning")
//   TD3+BC  TD3 that adds a cloning loss of the data's actions to the actor's loss (Fujimoto and Gu
//           2021, "A minimalist approach to offline reinforcement learning")
//
//   collect  takes tanh(mean) + sigma * noise, clipped to [-1, 1]
//   learn    takes one Adam step for the critics, and in every actor_update_freq-th iteration for
//            the actor, on a batch of transitions (policy/continuous/continuous_policy.h). Further
//            scalars of TD3+BC where the actor learns: cloning_loss and lambda
//            (policy/loss/off_policy_loss.h)
//   eval     as policy/continuous/continuous_acting.h
//   command  gives the settings of the options' schedules
//
// Saved beside the state of ContinuousLearnMode: "target_actor/<parameter>".
//
// Ownership: the policy owns networks and optimizers; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    the errors of the modes. A failed call changes nothing.
#ifndef DING_WORKER_POLICY_TD3_TD3_H_
#define DING_WORKER_POLICY_TD3_TD3_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/network.h"

namespace ding {

// The setting that the command mode gives to the collect mode if the noise changes.
inline constexpr char kExplorationNoise[] = "exploration_noise";

struct Td3Options {
  std::string algorithm = "td3";  // in messages
  ContinuousOptions base;
  // Standard deviations in units of half the range of the action, at least 0.
  double exploration_noise = 0.1;
  double target_noise = 0.2;
  double target_noise_clip = 0.5;  // bound of the noise in the target, at least 0
  // TD3+BC: alpha, the weight of the Q values relative to the cloning loss, above 0. Not set: no
  // cloning.
  std::optional<double> cloning_alpha;
};

// `network` has the outputs of ActorOutputs(kMean). `critics` may be null if there is no learn
// mode.
//   kInvalidArgument  a space, a network or an option does not fit
absl::StatusOr<std::unique_ptr<ContinuousPolicy>> CreateTd3(std::unique_ptr<Network> network,
                                                            std::unique_ptr<CriticEnsemble> critics,
                                                            SpecPtr action,
                                                            const Td3Options& options);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TD3_TD3_H_
