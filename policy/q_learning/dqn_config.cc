#include "ding_worker/policy/q_learning/dqn_config.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/q_learning/q_policy.h"

namespace ding {
namespace {

bool IsDefaultEps(const ScheduleConfig& eps) {
  const ScheduleConfig wanted;
  return eps.type() == wanted.type() && eps.start() == wanted.start() &&
         eps.end() == wanted.end() && eps.decay() == wanted.decay();
}

DqnOptions MakeOptions(const PolicyConfig& policy, const DqnConfig& dqn,
                       const PolicyContext& context) {
  DqnOptions options;
  ReadPolicyOptions(policy, context, &options);
  options.adam.lr = dqn.learning_rate();
  options.lr_decay_env_steps = dqn.lr_decay_env_steps();
  options.grad_clip_norm = dqn.grad_clip_norm();
  options.learn_threads = dqn.learn_threads();
  options.loss = {dqn.loss() == DqnConfig::HUBER ? TdLossKind::kHuber : TdLossKind::kMse,
                  static_cast<float>(dqn.huber_delta())};
  options.double_q = dqn.double_dqn();
  options.target_update = dqn.has_target_update_theta() ? TargetUpdate{0, dqn.target_update_theta()}
                                                        : TargetUpdate{dqn.target_update_freq(), 0};
  options.eps = ScheduleFromConfig(dqn.eps());
  return options;
}

}  // namespace

QPolicyMaker::QPolicyMaker(const PolicyConfig& policy, const DqnConfig& dqn,
                           const PolicyContext& context, absl::string_view prefix)
    : policy_(policy),
      dqn_(dqn),
      context_(context),
      prefix_(prefix),
      options_(MakeOptions(policy, dqn, context)) {
  CheckFields();
}

void QPolicyMaker::CheckFields() {
  RequireDefaultUnless(dqn_.loss() == DqnConfig::HUBER, dqn_.huber_delta(),
                       DqnConfig().huber_delta(), absl::StrCat(prefix_, "huber_delta"),
                       "loss: HUBER", &problems_);
}

void QPolicyMaker::RefuseEps(absl::string_view why, absl::string_view remedy) {
  has_eps_ = false;
  if (IsDefaultEps(dqn_.eps())) return;
  problems_.push_back(absl::StrCat(prefix_, "eps (type, start, end, decay) has no effect, because ",
                                   why, ": ", remedy));
}

void QPolicyMaker::CreateSchedules() {
  ChangingField rate = {"learning_rate", kLearningRateSetting, dqn_.learning_rate()};
  if (dqn_.lr_decay_env_steps() > 0) rate.rival = "lr_decay_env_steps";
  std::vector<ChangingField> fields = {rate};
  if (has_eps_) {
    ChangingField eps = {kEpsSetting, kEpsSetting, dqn_.eps().start(), /*collects=*/true};
    eps.most = 1;
    ScheduleConfig other = dqn_.eps();  // A schedule may begin with eps.start.
    other.clear_start();
    if (!IsDefaultEps(other)) eps.rival = "eps (type, end, decay)";
    fields.push_back(eps);
  }
  options_.schedules = CreateFieldSchedules(policy_, fields, &problems_);
}

absl::StatusOr<std::unique_ptr<Network>> QPolicyMaker::CreateNetwork(
    const QHead& head, const NetworkCreator& creator) {
  CreateSchedules();
  const absl::StatusOr<int64_t> num_actions = CountActions(*context_.action, policy_.type());
  if (!num_actions.ok()) problems_.emplace_back(num_actions.status().message());
  const auto mask = FindActionMask(*context_.observation, *context_.action);
  if (!mask.ok()) problems_.emplace_back(mask.status().message());
  // An invalid action space counts as one action, so that problems of the network are reported too.
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs,
                        MakeSpec({Box("q", head.OutputShape(num_actions.value_or(1)))}));
  absl::StatusOr<std::unique_ptr<Network>> network =
      creator(dqn_.model(), WithoutActionMask(context_.observation), outputs, context_.seed);
  if (!network.ok()) {
    problems_.push_back(absl::StrCat(prefix_, "model: ", network.status().message()));
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems_));
  return network;
}

absl::StatusOr<ActorDescription> DescribeQActor(const PolicyConfig& policy, const DqnConfig& config,
                                                const Spec& /*action*/) {
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
