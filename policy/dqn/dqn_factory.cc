// Registers policy type "dqn".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"
#include "ding_worker/policy/q_learning/q_policy.h"

namespace ding {
namespace {

constexpr char kWhere[] = "policy type 'dqn'";

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  DqnConfig dqn;
  DING_RETURN_IF_ERROR(UnpackParams(config, &dqn));
  std::vector<std::string> problems;
  AppendRunProblems(config, "dqn", &problems, TakesSchedules::kYes);
  AppendProblems(dqn, "", &problems);
  DqnOptions options = DqnOptionsFromConfig(config, dqn, context);
  options.schedules = QSchedules(config, dqn, /*has_eps=*/true, &problems);
  absl::StatusOr<std::unique_ptr<Network>> network =
      CreateQNetwork(dqn, context, "dqn", "", &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, kWhere));
  return DqnPolicy::Create(*std::move(network), context.action, options, context.observation);
}

DING_REGISTER(PolicyRegistry(), "dqn", Create,
              "DQN: double, dueling, n-step, priorities; discrete actions", &DqnConfig::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& config, const Spec& /*action*/) {
  DqnConfig dqn;
  DING_RETURN_IF_ERROR(UnpackParams(config, &dqn));
  return DescribeQActor(config, dqn);
}

DING_REGISTER(ActorDescriberRegistry(), "dqn", Describe, "epsilon-greedy by Q values");

}  // namespace
}  // namespace ding
