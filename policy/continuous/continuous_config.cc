#include "ding_worker/policy/continuous/continuous_config.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/describe_actor.h"
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

void AppendProblems(const PolicyConfig& policy, const ContinuousConfig& config,
                    std::vector<std::string>* problems) {
  RequireSingleRows(policy, problems);
  if (config.model().dueling()) {
    problems->push_back(absl::StrCat("model.dueling is set, but ", policy.type(),
                                     " has no values of discrete actions: must be false"));
  }
}

ContinuousOptions MakeOptions(const PolicyConfig& policy, const ContinuousConfig& config,
                              const PolicyContext& context) {
  ContinuousOptions options;
  ReadPolicyOptions(policy, context, &options);
  options.actor_adam.lr = config.actor_learning_rate();
  options.critic_adam.lr = config.critic_learning_rate();
  options.grad_clip_norm = config.grad_clip_norm();
  options.target_update_theta = config.target_update_theta();
  options.learn_threads = config.learn_threads();
  return options;
}

// Returns what has been made, or null after appending the problem of `field`.
template <typename Made>
std::unique_ptr<Made> MadeOrProblem(absl::StatusOr<std::unique_ptr<Made>> made,
                                    absl::string_view field, std::vector<std::string>* problems) {
  if (made.ok()) return *std::move(made);
  problems->push_back(absl::StrCat(field, ": ", made.status().message()));
  return nullptr;
}

}  // namespace

absl::StatusOr<ContinuousParts> MakeContinuousParts(const PolicyConfig& policy,
                                                    const ContinuousConfig& config,
                                                    const PolicyContext& context, ActorHead head,
                                                    std::vector<std::string> problems,
                                                    const std::vector<ChangingField>& more_fields,
                                                    const CriticConfig& critics) {
  AppendProblems(policy, config, &problems);
  ContinuousParts parts;
  parts.options = MakeOptions(policy, config, context);
  std::vector<ChangingField> fields = {{kActorRate, kActorRate, config.actor_learning_rate()},
                                       {kCriticRate, kCriticRate, config.critic_learning_rate()}};
  fields.insert(fields.end(), more_fields.begin(), more_fields.end());
  parts.options.schedules = CreateFieldSchedules(policy, fields, &problems);
  const absl::Status scale = ActionScale::Create(*context.action, policy.type()).status();
  if (!scale.ok()) problems.emplace_back(scale.message());
  const FieldSpec action = scale.ok() ? context.action->field(0) : Box("action", {1});
  parts.actor =
      MadeOrProblem(CreateActorNetwork(config, context, action, head), "model", &problems);
  if (context.modes.learn) {
    parts.critics =
        MadeOrProblem(CreateCritics(config, context, action, critics), "critic", &problems);
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
  return parts;
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
