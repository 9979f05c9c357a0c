#include "ding_worker/policy/actor_critic/actor_critic_policy.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/actor_critic/actor_critic_acting.h"
#include "ding_worker/policy/actor_critic/actor_critic_modes.h"
#include "ding_worker/policy/schedule.h"

namespace ding {
namespace {

class ActorCriticCommand : public CommandMode {
 public:
  explicit ActorCriticCommand(const ActorCriticPolicyOptions& options) : options_(options) {}

  NamedValues GetSettingCollect(const NamedValues& /*info*/) override { return {}; }
  NamedValues GetSettingLearn(const NamedValues& info) override {
    const double env_step = info.GetOr(kEnvStepProgress, 0);
    NamedValues settings;
    if (options_.lr_decay_env_steps > 0) {
      const Schedule schedule = {ScheduleKind::kLinear, options_.adam.lr, 0,
                                 options_.lr_decay_env_steps};
      settings.Set(kSettingLr, schedule.At(env_step));
    }
    if (options_.entropy_decay_env_steps > 0) {
      const Schedule schedule = {ScheduleKind::kLinear, options_.update.loss_options.entropy_coef,
                                 options_.final_entropy_weight, options_.entropy_decay_env_steps};
      settings.Set(kSettingEntropyWeight, schedule.At(env_step));
    }
    options_.schedules.AddLearnSettings(info, &settings);
    return settings;
  }

 private:
  const ActorCriticPolicyOptions& options_;
};

}  // namespace

std::unique_ptr<CommandMode> MakeActorCriticCommand(const ActorCriticPolicyOptions& options) {
  return std::make_unique<ActorCriticCommand>(options);
}

absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> ActorCriticPolicy::Create(
    std::unique_ptr<Network> actor, std::unique_ptr<Network> critic, SpecPtr observation,
    SpecPtr action, const ActorCriticPolicyOptions& options) {
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<ActorCritic> model,
      ActorCritic::Create(std::move(actor), std::move(critic), std::move(observation),
                          std::move(action), options.networks));
  ActorCritic* const networks = model.get();
  auto policy = absl::WrapUnique(new ActorCriticPolicy(std::move(model), options));
  const ActorCriticPolicyOptions& kept = policy->options_;
  if (networks->state_size() > 0 && kept.collect.unroll_len <= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("unroll_len is ", kept.collect.unroll_len, ", but the network is recurrent (",
                     networks->info(),
                     ") and learns from samples of several rows, through which its gradient flows: "
                     "set unroll_len to 2 or more, such as 16"));
  }
  const bool keeps_statistics =
      kept.scale_reward || (networks->normalizes() && !kept.freeze_statistics);
  if (keeps_statistics && kept.modes.learn != kept.modes.collect && kept.collect.unroll_len > 1 &&
      kept.last_sample == LastSample::kLast) {
    return absl::InvalidArgumentError(
        "last_sample LAST repeats rows, which would be counted twice in the statistics of "
        "normalized observations or scaled rewards: expected NULL_PADDING or DROP");
  }
  if (kept.modes.learn) {
    DING_ASSIGN_OR_RETURN(policy->learn_, MakeActorCriticLearn(kept, networks));
  }
  if (kept.modes.collect) policy->collect_ = MakeActorCriticCollect(kept, networks);
  if (kept.modes.eval) policy->eval_ = std::make_unique<GreedyEval>(kept.name, networks);
  if (kept.modes.command) policy->command_ = MakeActorCriticCommand(kept);
  return policy;
}

}  // namespace ding
