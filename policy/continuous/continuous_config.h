// The common part of the factories of SAC, TD3, DDPG, TD3+BC and IQL: it checks their shared config
// and converts it to options and networks.
//
// The functions collect problems, so that a user sees all of them at once (base/status_macros.h).
#ifndef DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_CONFIG_H_
#define DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_CONFIG_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
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

// Options of an algorithm's critics that ContinuousConfig does not have.
struct CriticConfig {
  int num_critics = 2;
  double dropout = 0;       // as in MlpOptions
  bool layer_norm = false;  // as in MlpOptions
};

// The parts of a policy, made from its configs.
struct ContinuousParts {
  std::unique_ptr<Network> actor;
  std::unique_ptr<CriticEnsemble> critics;  // null without a learn mode
  ContinuousOptions options;
};

// Makes the parts of a policy. `more_fields` are the fields that may change in a run, beside the
// learning rates. An invalid action space counts as one element, so that problems of the networks
// are reported too.
//   kInvalidArgument  lists `problems` and all further problems of configs, networks and spaces
absl::StatusOr<ContinuousParts> MakeContinuousParts(
    const PolicyConfig& policy, const ContinuousConfig& config, const PolicyContext& context,
    ActorHead head, std::vector<std::string> problems,
    const std::vector<ChangingField>& more_fields = {}, const CriticConfig& critics = {});

// Does the same for an algorithm that learns from the transitions of a data set, and has the fields
// `normalize_obs` and `obs_clip`. The actor computes the mean of its actions.
template <typename Config>
absl::StatusOr<ContinuousParts> MakeOfflineParts(const PolicyConfig& policy, const Config& config,
                                                 const PolicyContext& context) {
  std::vector<std::string> problems;
  RequireObsClip(config, &problems);
  absl::StatusOr<ContinuousParts> parts = MakeContinuousParts(
      policy, config.continuous(), context, ActorHead::kMean, std::move(problems));
  if (!parts.ok()) return parts;
  parts->options.learn.supervised = true;
  parts->options.learn.transitions = true;
  if (config.normalize_obs()) parts->options.obs_clip = config.obs_clip();
  return parts;
}

// Describes the actor with outputs `head` for a checkpoint (policy/actor/describe_actor.h).
absl::StatusOr<ActorDescription> DescribeContinuousActor(const ContinuousConfig& config,
                                                         ActorHead head);

// Does the same, with the signature that DescriberOf() takes.
template <ActorHead head>
absl::StatusOr<ActorDescription> DescribeActorWith(const PolicyConfig& /*policy*/,
                                                   const ContinuousConfig& config,
                                                   const Spec& /*action*/) {
  return DescribeContinuousActor(config, head);
}

// Does the same for an algorithm that learns from a data set.
template <typename Config>
absl::StatusOr<ActorDescription> DescribeOfflineActor(const PolicyConfig& /*policy*/,
                                                      const Config& config,
                                                      const Spec& /*action*/) {
  absl::StatusOr<ActorDescription> description =
      DescribeContinuousActor(config.continuous(), ActorHead::kMean);
  if (description.ok() && config.normalize_obs()) description->obs_clip = config.obs_clip();
  return description;
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_CONFIG_H_
