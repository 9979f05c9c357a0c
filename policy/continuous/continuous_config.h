// The common part of the factories of SAC, TD3, DDPG, TD3+BC and IQL: it checks their shared config and converts it to options and
// networks.
//
// Problems are collected, so that a user sees all of them at once (base/problems.h).
#ifndef DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_CONFIG_H_
#define DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/continuous/continuous.pb.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {

// Appends a problem for each number of the configs that is out of range. `algorithm` is the name of the policy.
// Schedules are a problem, too, unless the algorithm takes them: it then calls CreateFieldSchedules() with
// ChangingFields() and those of its own.
void AppendProblems(absl::string_view algorithm, const PolicyConfig& policy,
                    const ContinuousConfig& config, std::vector<std::string>* problems,
                    TakesSchedules takes_schedules = TakesSchedules::kNo);

// The learning rates of actor and critics.
std::vector<ChangingField> ChangingFields(const ContinuousConfig& config);

struct ContinuousNetworks {
  std::unique_ptr<Network> actor;
  std::unique_ptr<CriticEnsemble> critics;  // null without a learn mode
};

// The critics of an algorithm, beside what ContinuousConfig says.
struct CriticConfig {
  int num_critics = 2;
  double dropout = 0;       // as in MlpOptions
  bool layer_norm = false;  // as in MlpOptions
};

// Creates the networks of `config` for the spaces of `context`; appends problems if it cannot. An invalid action space
// counts as one element, so that problems of the networks are reported too.
ContinuousNetworks CreateContinuousNetworks(absl::string_view algorithm,
                                            const ContinuousConfig& config, ActorHead head,
                                            const CriticConfig& critic_config,
                                            const PolicyContext& context,
                                            std::vector<std::string>* problems);

ContinuousOptions ContinuousOptionsFromConfig(const PolicyConfig& policy,
                                              const ContinuousConfig& config,
                                              const PolicyContext& context);

// Likewise for an algorithm that learns from the transitions of a data set.
ContinuousOptions OfflineOptionsFromConfig(const PolicyConfig& policy,
                                           const ContinuousConfig& config,
                                           const PolicyContext& context);

// Describes the actor, whose outputs `head` says, for a checkpoint (policy/actor/describe_actor.h).
absl::StatusOr<ActorDescription> DescribeContinuousActor(const ContinuousConfig& config,
                                                         ActorHead head);

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_CONFIG_H_
