// Registers policy type "dqn".
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/problems.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_mask.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {
namespace {

constexpr char kWhere[] = "policy type 'dqn'";

void RequireProbability(double value, absl::string_view field, std::vector<std::string>* problems) {
  if (value >= 0 && value <= 1) return;
  problems->push_back(absl::StrCat(field, " is ", value, ", must be in [0, 1]"));
}

void RequireFinite(bool in_range, double value, absl::string_view field, absl::string_view range,
                   std::vector<std::string>* problems) {
  if (in_range && std::isfinite(value)) return;
  problems->push_back(absl::StrCat(field, " is ", value, ", must be finite and ", range));
}

void AppendProblems(const DqnConfig& config, std::vector<std::string>* problems) {
  RequireFinite(config.learning_rate() >= 0, config.learning_rate(), "learning_rate", "at least 0",
                problems);
  RequireFinite(config.huber_delta() > 0, config.huber_delta(), "huber_delta", "above 0", problems);
  RequireFinite(config.grad_clip_norm() >= 0, config.grad_clip_norm(), "grad_clip_norm",
                "at least 0 (0: not clipped)", problems);
  RequireFinite(config.lr_decay_env_steps() >= 0, config.lr_decay_env_steps(), "lr_decay_env_steps",
                "at least 0 (0: the rate stays)", problems);
  AppendProblems(config.eps(), "eps", problems);
  RequireProbability(config.eps().start(), "eps.start", problems);
  RequireProbability(config.eps().end(), "eps.end", problems);
  if (config.has_target_update_freq() && config.has_target_update_theta()) {
    problems->push_back(absl::StrCat("target_update_freq (", config.target_update_freq(),
                                     ") and target_update_theta (", config.target_update_theta(),
                                     ") are both set, expected one of them"));
  } else if (config.has_target_update_theta()) {
    if (!(config.target_update_theta() > 0 && config.target_update_theta() <= 1)) {
      problems->push_back(absl::StrCat("target_update_theta is ", config.target_update_theta(),
                                       ", must be in (0, 1]"));
    }
  } else if (config.has_target_update_freq() && config.target_update_freq() < 1) {
    problems->push_back(absl::StrCat("target_update_freq is ", config.target_update_freq(),
                                     ", must be at least 1"));
  }
}

void AppendSpaceProblems(const PolicyContext& context, std::vector<std::string>* problems) {
  const absl::StatusOr<int64_t> num_actions = CountActions(*context.action);
  if (!num_actions.ok()) problems->emplace_back(num_actions.status().message());
  const auto mask = FindActionMask(*context.observation, *context.action);
  if (!mask.ok()) problems->emplace_back(mask.status().message());
}

// Creates the Q network. An invalid action space counts as one action, so that problems of the network
// are reported too.
absl::StatusOr<std::unique_ptr<Network>> CreateQNetwork(const DqnConfig& config,
                                                        const PolicyContext& context,
                                                        std::vector<std::string>* problems) {
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs,
                        MakeSpec({Box("q", {CountActions(*context.action).value_or(1)})}));
  absl::StatusOr<std::unique_ptr<Network>> network =
      create_network(config.model(), WithoutActionMask(context.observation), outputs, context.seed);
  if (!network.ok()) problems->push_back(absl::StrCat("model: ", network.status().message()));
  return network;
}

DqnOptions MakeOptions(const PolicyConfig& config, const DqnConfig& dqn,
                       const PolicyContext& context) {
  DqnOptions options;
  options.seed = context.seed;
  options.adam.lr = dqn.learning_rate();
  options.lr_decay_env_steps = dqn.lr_decay_env_steps();
  options.grad_clip_norm = dqn.grad_clip_norm();
  options.loss = {dqn.loss() == DqnConfig::HUBER ? TdLossKind::kHuber : TdLossKind::kMse,
                  static_cast<float>(dqn.huber_delta())};
  options.double_q = dqn.double_dqn();
  if (dqn.has_target_update_theta()) {
    options.target_update = {0, dqn.target_update_theta()};
  } else if (dqn.has_target_update_freq()) {
    options.target_update = {dqn.target_update_freq(), 0};
  }
  options.eps = ScheduleFromConfig(dqn.eps());
  options.collect = CollectAttributesFromConfig(config);
  options.learn = LearnAttributesFromConfig(config);
  options.modes = context.modes;
  options.reducer = context.reducer;
  return options;
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  DqnConfig dqn;
  DING_RETURN_IF_ERROR(UnpackParams(config, &dqn));
  std::vector<std::string> problems;
  AppendProblems(config, &problems);
  if (config.unroll_len() > 1) {
    problems.push_back(absl::StrCat("unroll_len is ", config.unroll_len(),
                                    ", but dqn learns from single rows: must be 1"));
  }
  AppendProblems(dqn, &problems);
  AppendSpaceProblems(context, &problems);
  absl::StatusOr<std::unique_ptr<Network>> network = CreateQNetwork(dqn, context, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, kWhere));
  return DqnPolicy::Create(*std::move(network), context.action, MakeOptions(config, dqn, context),
                           context.observation);
}

DING_REGISTER(PolicyRegistry(), "dqn", Create,
              "DQN: double, dueling, n-step, priorities; discrete actions");

}  // namespace
}  // namespace ding
