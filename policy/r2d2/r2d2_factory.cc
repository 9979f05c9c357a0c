// Registers policy type "r2d2".
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"
#include "ding_worker/policy/r2d2/r2d2.h"
#include "ding_worker/policy/r2d2/r2d2.pb.h"

namespace ding {
namespace {

void AppendProblems(const PolicyConfig& policy, std::vector<std::string>* problems) {
  if (policy.nstep() > 1) {
    problems->push_back(absl::StrCat(
        "nstep is ", policy.nstep(),
        ", must be 1, because it sets what the replay buffer sums; set params.nstep, which is "
        "r2d2's own"));
  }
  if (policy.unroll_len() == 1 && !policy.has_n_episode()) {
    problems->emplace_back(
        "unroll_len is 1, but r2d2 learns from sequences of rows: must be at least 2, as the "
        "unroll_len of the replay buffer, unless whole episodes are collected (n_episode)");
  }
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy, const R2d2Config& config,
                                               const PolicyContext& context) {
  QPolicyMaker maker(policy, config.dqn(), context);
  AppendProblems(policy, maker.problems());
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork());
  R2d2Options options;
  options.dqn = *maker.options();
  options.nstep = config.nstep();
  options.scale.eps =
      config.value_rescale() ? std::optional<double>(config.rescale_eps()) : std::nullopt;
  options.priority_eta = config.priority_eta();
  return R2d2Policy::Create(std::move(network), context.action, options, context.observation);
}

DING_REGISTER(PolicyRegistry(), "r2d2", Create,
              "R2D2: recurrent DQN on sequences; burn-in, value rescaling; discrete actions");

DING_REGISTER(ActorDescriberRegistry(), "r2d2", DescriberOf(DescribeQActor, &R2d2Config::dqn),
              "epsilon-greedy by recurrent Q values");

}  // namespace
}  // namespace ding
