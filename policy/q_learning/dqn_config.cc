#include "ding_worker/policy/q_learning/dqn_config.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/q_learning/q_policy.h"

namespace ding {
namespace {

// Appends problems of the fields of a message; their names begin with a prefix.
class FieldProblems {
 public:
  FieldProblems(absl::string_view prefix, std::vector<std::string>* problems)
      : prefix_(prefix), problems_(*problems) {}

  std::string Name(absl::string_view field) const { return absl::StrCat(prefix_, field); }
  void RequireProbability(double value, absl::string_view field) {
    if (value >= 0 && value <= 1) return;
    problems_.push_back(absl::StrCat(prefix_, field, " is ", value, ", must be in [0, 1]"));
  }
  void RequireFinite(bool in_range, double value, absl::string_view field,
                     absl::string_view range) {
    if (in_range && std::isfinite(value)) return;
    problems_.push_back(
        absl::StrCat(prefix_, field, " is ", value, ", must be finite and ", range));
  }
  void RequireTargetUpdate(const DqnConfig& config) {
    if (config.has_target_update_freq() && config.has_target_update_theta()) {
      problems_.push_back(absl::StrCat(prefix_, "target_update_freq (", config.target_update_freq(),
                                       ") and target_update_theta (", config.target_update_theta(),
                                       ") are both set, expected one of them"));
    } else if (config.has_target_update_theta()) {
      if (!(config.target_update_theta() > 0 && config.target_update_theta() <= 1)) {
        problems_.push_back(absl::StrCat(prefix_, "target_update_theta is ",
                                         config.target_update_theta(), ", must be in (0, 1]"));
      }
    } else if (config.has_target_update_freq() && config.target_update_freq() < 1) {
      problems_.push_back(absl::StrCat(prefix_, "target_update_freq is ",
                                       config.target_update_freq(), ", must be at least 1"));
    }
  }

 private:
  const absl::string_view prefix_;
  std::vector<std::string>& problems_;
};

}  // namespace

void AppendRunProblems(const PolicyConfig& config, absl::string_view algorithm,
                       std::vector<std::string>* problems, TakesSchedules takes_schedules) {
  AppendProblems(config, problems, takes_schedules);
  if (config.unroll_len() <= 1) return;
  problems->push_back(absl::StrCat("unroll_len is ", config.unroll_len(), ", but ", algorithm,
                                   " learns from single rows: must be 1"));
}

void AppendProblems(const DqnConfig& config, absl::string_view prefix,
                    std::vector<std::string>* problems) {
  FieldProblems check(prefix, problems);
  check.RequireFinite(config.learning_rate() >= 0, config.learning_rate(), "learning_rate",
                      "at least 0");
  check.RequireFinite(config.huber_delta() > 0, config.huber_delta(), "huber_delta", "above 0");
  if (config.loss() != DqnConfig::HUBER && config.huber_delta() != DqnConfig().huber_delta()) {
    problems->push_back(absl::StrCat(check.Name("huber_delta"), " is ", config.huber_delta(),
                                     ", which has no effect without loss: HUBER: remove it"));
  }
  check.RequireFinite(config.grad_clip_norm() >= 0, config.grad_clip_norm(), "grad_clip_norm",
                      "at least 0 (0: not clipped)");
  check.RequireFinite(config.lr_decay_env_steps() >= 0, config.lr_decay_env_steps(),
                      "lr_decay_env_steps", "at least 0 (0: the rate stays)");
  AppendProblems(config.eps(), check.Name("eps"), problems);
  check.RequireProbability(config.eps().start(), "eps.start");
  check.RequireProbability(config.eps().end(), "eps.end");
  check.RequireTargetUpdate(config);
}

FieldSchedules QSchedules(const PolicyConfig& config, const DqnConfig& dqn, bool has_eps,
                          std::vector<std::string>* problems) {
  ChangingField rate = {"learning_rate", kLearningRateSetting, dqn.learning_rate()};
  if (dqn.lr_decay_env_steps() > 0) rate.rival = "lr_decay_env_steps";
  std::vector<ChangingField> fields = {rate};
  if (has_eps) {
    ChangingField eps = {kEpsSetting, kEpsSetting, dqn.eps().start(), /*collects=*/true};
    eps.most = 1;
    DqnConfig other = dqn;  // A schedule may begin with eps.start.
    other.mutable_eps()->clear_start();
    if (!IsDefaultEps(other)) eps.rival = "eps (type, end, decay)";
    fields.push_back(eps);
  }
  return CreateFieldSchedules(config, fields, problems);
}

bool IsDefaultEps(const DqnConfig& config) {
  const ScheduleConfig wanted;
  const ScheduleConfig& eps = config.eps();
  return eps.type() == wanted.type() && eps.start() == wanted.start() &&
         eps.end() == wanted.end() && eps.decay() == wanted.decay();
}

absl::StatusOr<std::unique_ptr<Network>> CreateQNetwork(
    const DqnConfig& config, const PolicyContext& context, absl::string_view algorithm,
    absl::string_view prefix, std::vector<std::string>* problems, const QHead& head,
    const NetworkCreator& creator) {
  const absl::StatusOr<int64_t> num_actions = CountActions(*context.action, algorithm);
  if (!num_actions.ok()) problems->emplace_back(num_actions.status().message());
  const auto mask = FindActionMask(*context.observation, *context.action);
  if (!mask.ok()) problems->emplace_back(mask.status().message());
  // An invalid action space counts as one action, so that problems of the network are reported too.
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs,
                        MakeSpec({Box("q", head.OutputShape(num_actions.value_or(1)))}));
  absl::StatusOr<std::unique_ptr<Network>> network =
      creator(config.model(), WithoutActionMask(context.observation), outputs, context.seed);
  if (!network.ok()) {
    problems->push_back(absl::StrCat(prefix, "model: ", network.status().message()));
  }
  return network;
}

DqnOptions DqnOptionsFromConfig(const PolicyConfig& config, const DqnConfig& dqn,
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

absl::StatusOr<ActorDescription> DescribeQActor(const PolicyConfig& policy,
                                                const DqnConfig& config) {
  ActorDescription description;
  DING_RETURN_IF_ERROR(DescribeNetwork(config.model(), &description));
  description.parameters = kModelScope;
  description.head = kQHead;
  const bool scheduled = absl::c_any_of(policy.schedule(), [](const FieldScheduleConfig& schedule) {
    return schedule.field() == kEpsSetting;
  });
  if (!scheduled) description.exploration = ScheduleFromConfig(config.eps());
  return description;
}

}  // namespace ding
