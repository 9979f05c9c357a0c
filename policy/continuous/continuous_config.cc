#include "ding_worker/policy/continuous/continuous_config.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network_config.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {
namespace {

constexpr char kMlp[] = "mlp";

// Returns the hidden layers of the critics.
absl::StatusOr<MlpOptions> CriticOptions(const ContinuousConfig& config) {
  // Without a section of their own they have the layers of the actor, whatever its type is.
  if (!config.has_critic()) return MlpOptionsWithEncoder(config.model());
  const NetworkConfig& critic = config.critic();
  if (critic.type() != kMlp) {
    return absl::InvalidArgumentError(absl::StrCat("type is '", critic.type(), "', expected '",
                                                   kMlp, "', the only type of critics"));
  }
  DING_RETURN_IF_ERROR(RefuseDevices(critic));
  DING_RETURN_IF_ERROR(RefuseConvolutions(critic));
  DING_RETURN_IF_ERROR(RefuseRecurrence(critic));
  return MlpOptionsWithEncoder(critic);
}

absl::StatusOr<std::unique_ptr<CriticEnsemble>> CreateCritics(const ContinuousConfig& config,
                                                              const PolicyContext& context,
                                                              const FieldSpec& action,
                                                              const CriticConfig& critics) {
  DING_ASSIGN_OR_RETURN(MlpOptions options, CriticOptions(config));
  options.dropout = critics.dropout;
  options.layer_norm = critics.layer_norm;
  return CriticEnsemble::Create(options, context.observation, action, critics.num_critics,
                                Rng::DeriveSeed(context.seed, "policy/critic"));
}

absl::StatusOr<std::unique_ptr<Network>> CreateActorNetwork(const ContinuousConfig& config,
                                                            const PolicyContext& context,
                                                            const FieldSpec& action,
                                                            ActorHead head) {
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs, ActorOutputs(action, head));
  return create_network(config.model(), context.observation, outputs, context.seed);
}

}  // namespace

void AppendProblems(absl::string_view algorithm, const PolicyConfig& policy,
                    const ContinuousConfig& config, std::vector<std::string>* problems,
                    TakesSchedules takes_schedules) {
  AppendProblems(policy, problems, takes_schedules);
  if (policy.unroll_len() > 1) {
    problems->push_back(absl::StrCat("unroll_len is ", policy.unroll_len(), ", but ", algorithm,
                                     " learns from single rows: must be 1"));
  }
  if (config.model().dueling()) {
    problems->push_back(absl::StrCat("model.dueling is set, but ", algorithm,
                                     " has no values of discrete actions: must be false"));
  }
  RequireAtLeastZero(config.actor_learning_rate(), "actor_learning_rate", problems);
  RequireAtLeastZero(config.critic_learning_rate(), "critic_learning_rate", problems);
  RequireAtLeastZero(config.grad_clip_norm(), "grad_clip_norm", problems);
  if (config.learn_threads() < 1 || config.learn_threads() > kMaxLearnThreads) {
    problems->push_back(absl::StrCat("learn_threads is ", config.learn_threads(),
                                     ", must be in 1..", kMaxLearnThreads));
  }
  if (!(config.target_update_theta() > 0 && config.target_update_theta() <= 1)) {
    problems->push_back(absl::StrCat("target_update_theta is ", config.target_update_theta(),
                                     ", must be in (0, 1]"));
  }
}

std::vector<ChangingField> ChangingFields(const ContinuousConfig& config) {
  return {{kActorRate, kActorRate, config.actor_learning_rate()},
          {kCriticRate, kCriticRate, config.critic_learning_rate()}};
}

ContinuousNetworks CreateContinuousNetworks(absl::string_view algorithm,
                                            const ContinuousConfig& config, ActorHead head,
                                            const CriticConfig& critic_config,
                                            const PolicyContext& context,
                                            std::vector<std::string>* problems) {
  const absl::Status scale = ActionScale::Create(*context.action, algorithm).status();
  if (!scale.ok()) problems->emplace_back(scale.message());
  const FieldSpec action = scale.ok() ? context.action->field(0) : Box("action", {1});
  ContinuousNetworks networks;
  auto actor = CreateActorNetwork(config, context, action, head);
  if (actor.ok()) {
    networks.actor = *std::move(actor);
  } else {
    problems->push_back(absl::StrCat("model: ", actor.status().message()));
  }
  if (!context.modes.learn) return networks;
  auto critics = CreateCritics(config, context, action, critic_config);
  if (critics.ok()) {
    networks.critics = *std::move(critics);
  } else {
    problems->push_back(absl::StrCat("critic: ", critics.status().message()));
  }
  return networks;
}

ContinuousOptions ContinuousOptionsFromConfig(const PolicyConfig& policy,
                                              const ContinuousConfig& config,
                                              const PolicyContext& context) {
  ContinuousOptions options;
  options.seed = context.seed;
  options.actor_adam.lr = config.actor_learning_rate();
  options.critic_adam.lr = config.critic_learning_rate();
  options.grad_clip_norm = config.grad_clip_norm();
  options.target_update_theta = config.target_update_theta();
  options.learn_threads = config.learn_threads();
  options.collect = CollectAttributesFromConfig(policy);
  options.learn = LearnAttributesFromConfig(policy);
  options.modes = context.modes;
  options.reducer = context.reducer;
  return options;
}

ContinuousOptions OfflineOptionsFromConfig(const PolicyConfig& policy,
                                           const ContinuousConfig& config,
                                           const PolicyContext& context) {
  ContinuousOptions options = ContinuousOptionsFromConfig(policy, config, context);
  options.learn.supervised = true;
  options.learn.transitions = true;
  return options;
}

absl::StatusOr<ActorDescription> DescribeContinuousActor(const ContinuousConfig& config,
                                                         ActorHead head) {
  ActorDescription description;
  DING_RETURN_IF_ERROR(DescribeNetwork(config.model(), &description));
  description.parameters = "model/actor";
  description.head = head == ActorHead::kNormal ? kTanhNormalHead : kTanhHead;
  return description;
}

}  // namespace ding
