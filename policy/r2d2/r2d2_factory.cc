// Registers policy type "r2d2".
#include <cmath>
#include <memory>
#include <optional>
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
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"
#include "ding_worker/policy/r2d2/r2d2.h"
#include "ding_worker/policy/r2d2/r2d2.pb.h"
#include "ding_worker/policy/schedule.h"

namespace ding {
namespace {

constexpr char kWhere[] = "policy type 'r2d2'";
constexpr char kDqnPrefix[] = "dqn.";

void AppendRunProblems(const PolicyConfig& config, std::vector<std::string>* problems) {
  AppendProblems(config, problems, TakesSchedules::kYes);
  if (config.nstep() > 1) {
    problems->push_back(absl::StrCat(
        "nstep is ", config.nstep(),
        ", must be 1, because it sets what the replay buffer sums; set params.nstep, which is "
        "r2d2's own"));
  }
  if (config.unroll_len() == 1 && !config.has_n_episode()) {
    problems->emplace_back(
        "unroll_len is 1, but r2d2 learns from sequences of rows: must be at least 2, as the "
        "unroll_len of the replay buffer, unless whole episodes are collected (n_episode)");
  }
}

void AppendProblems(const R2d2Config& config, std::vector<std::string>* problems) {
  AppendProblems(config.dqn(), kDqnPrefix, problems);
  if (config.nstep() < 1) {
    problems->push_back(absl::StrCat("params.nstep is ", config.nstep(), ", must be at least 1"));
  }
  if (!(config.rescale_eps() >= 0 && std::isfinite(config.rescale_eps()))) {
    problems->push_back(
        absl::StrCat("rescale_eps is ", config.rescale_eps(), ", must be finite and at least 0"));
  }
  if (!(config.priority_eta() >= 0 && config.priority_eta() <= 1)) {
    problems->push_back(
        absl::StrCat("priority_eta is ", config.priority_eta(), ", must be in [0, 1]"));
  }
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  R2d2Config r2d2;
  DING_RETURN_IF_ERROR(UnpackParams(config, &r2d2));
  std::vector<std::string> problems;
  AppendRunProblems(config, &problems);
  AppendProblems(r2d2, &problems);
  FieldSchedules schedules = QSchedules(config, r2d2.dqn(), /*has_eps=*/true, &problems);
  absl::StatusOr<std::unique_ptr<Network>> network =
      CreateQNetwork(r2d2.dqn(), context, "r2d2", kDqnPrefix, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, kWhere));
  R2d2Options options;
  options.dqn = DqnOptionsFromConfig(config, r2d2.dqn(), context);
  options.dqn.schedules = std::move(schedules);
  options.nstep = r2d2.nstep();
  options.scale.eps =
      r2d2.value_rescale() ? std::optional<double>(r2d2.rescale_eps()) : std::nullopt;
  options.priority_eta = r2d2.priority_eta();
  return R2d2Policy::Create(*std::move(network), context.action, options, context.observation);
}

DING_REGISTER(PolicyRegistry(), "r2d2", Create,
              "R2D2: recurrent DQN on sequences; burn-in, value rescaling; discrete actions",
              &R2d2Config::descriptor);

absl::StatusOr<ActorDescription> Describe(const PolicyConfig& config, const Spec& /*action*/) {
  R2d2Config r2d2;
  DING_RETURN_IF_ERROR(UnpackParams(config, &r2d2));
  return DescribeQActor(config, r2d2.dqn());
}

DING_REGISTER(ActorDescriberRegistry(), "r2d2", Describe, "epsilon-greedy by recurrent Q values");

}  // namespace
}  // namespace ding
