// Registers policy type "impala".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/actor_critic/actor_critic_config.h"
#include "ding_worker/policy/impala/impala.h"
#include "ding_worker/policy/impala/impala.pb.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/schedule.h"

namespace ding {
namespace {

constexpr char kName[] = "impala";
constexpr char kWhere[] = "policy type 'impala'";

void AppendProblems(const PolicyConfig& config, const ImpalaConfig& impala,
                    std::vector<std::string>* problems) {
  AppendProblems(config, problems, TakesSchedules::kYes);
  if (config.nstep() > 1) {
    problems->push_back(
        absl::StrCat("nstep is ", config.nstep(),
                     ", but impala sums the rewards of a sequence itself: must be 1"));
  }
  if (config.priority()) {
    problems->push_back("priority is set, but impala learns from all sequences alike");
  }
  AppendProblems(impala.actor_critic(), problems);
  if (impala.actor_critic().scale_reward()) {
    problems->push_back(
        "scale_reward is set, but impala learns from the rewards of several collectors, which "
        "would "
        "scale them differently: must be false");
  }
  RequireAboveZero(impala.rho_bar(), "rho_bar", problems);
  RequireAboveZero(impala.c_bar(), "c_bar", problems);
  if (!impala.v_trace() && !(impala.rho_bar() == 1 && impala.c_bar() == 1)) {
    problems->push_back(
        absl::StrCat("v_trace is false, so that no ratio is clipped, but rho_bar is ",
                     impala.rho_bar(), " and c_bar is ", impala.c_bar(), ": both must be 1"));
  }
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  ImpalaConfig impala;
  DING_RETURN_IF_ERROR(UnpackParams(config, &impala));
  std::vector<std::string> problems;
  AppendProblems(config, impala, &problems);
  FieldSchedules schedules =
      CreateFieldSchedules(config, ChangingFields(impala.actor_critic()), &problems);
  ActorCriticNetworks networks =
      CreateActorCriticNetworks(impala.actor_critic(), context, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, kWhere));
  ImpalaOptions options;
  options.policy = ActorCriticOptionsFromConfig(kName, config, impala.actor_critic(), context);
  options.policy.schedules = std::move(schedules);
  options.rho_bar = impala.rho_bar();
  options.c_bar = impala.c_bar();
  options.v_trace = impala.v_trace();
  absl::StatusOr<std::unique_ptr<Policy>> made =
      ImpalaPolicy::Create(std::move(networks.actor), std::move(networks.critic),
                           context.observation, context.action, options);
  if (!made.ok()) return Annotate(made.status(), kWhere);
  return made;
}

DING_REGISTER(PolicyRegistry(), kName, Create,
              "IMPALA: V-trace on sequences of a replay buffer; discrete and continuous actions",
              &ImpalaConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& config, const Spec& action) {
  ImpalaConfig impala;
  DING_RETURN_IF_ERROR(UnpackParams(config, &impala));
  return DescribeActorCriticActor(impala.actor_critic(), action);
}

DING_REGISTER(ActorDescriberRegistry(), kName, Describe, "the actor of an actor-critic");

}  // namespace
}  // namespace ding
