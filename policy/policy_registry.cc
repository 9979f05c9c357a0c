#include "ding_worker/policy/policy_registry.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

// Networks with this prefix use libtorch, which most programs do not link.
constexpr char kTorchPrefix[] = "torch_";
constexpr char kNeedsTorch[] =
    " (networks 'torch_...' need a program with libtorch: //worker:serial_torch, which tools/train "
    "runs by itself where a config names one)";

// The fields of PolicyConfig that name losses.
constexpr char kLoss[] = "loss";
constexpr char kActorLoss[] = "actor_loss";

// Whether all modes that see rewards take several components.
bool TakesComponents(Policy* policy) {
  CollectMode* const collect = policy->collect_mode();
  LearnMode* const learn = policy->learn_mode();
  return (collect == nullptr || collect->attributes().reward_components) &&
         (learn == nullptr || learn->attributes().reward_components);
}

// Makes the loss of `config`, which is the field `field`, if it names one.
absl::Status MakeLoss(absl::string_view field, const LossConfig& config,
                      std::shared_ptr<LossFunction>* loss) {
  if (config.type().empty() && !config.has_params()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<LossFunction>> made = LossRegistry().Create(config);
  if (!made.ok()) return Annotate(made.status(), field);
  *loss = *std::move(made);
  return absl::OkStatus();
}

// Refuses a loss that the policy did not take: only the context still holds a reference to it.
absl::Status CheckTakesLoss(absl::string_view field, const std::shared_ptr<LossFunction>& loss,
                            const LossConfig& config, absl::string_view policy) {
  if (loss == nullptr || loss.use_count() > 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(policy, " takes no ", field, " of your own, found '", config.type(),
                   "': remove it, or use a policy that takes one (",
                   field == kActorLoss ? "" : "dqn, ppo, a2c, ", "sac, td3, ddpg)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Policy>> create_policy(const PolicyConfig& config,
                                                      const PolicyContext& context) {
  DING_ASSIGN_OR_RETURN(const PolicyCreator create, PolicyRegistry().Find(config.type()));
  const std::string name = absl::StrCat("policy type '", config.type(), "'");
  std::vector<std::string> problems;
  CheckRanges(config, "", &problems);
  if (!problems.empty()) {
    const absl::Status params = CheckParams(create.check_params, config);
    if (!params.ok()) problems.emplace_back(params.message());
    return ProblemsToStatus(problems, name);
  }
  PolicyContext with_losses = context;
  if (context.modes.learn) {
    DING_RETURN_IF_ERROR(MakeLoss(kLoss, config.loss(), &with_losses.loss));
    DING_RETURN_IF_ERROR(MakeLoss(kActorLoss, config.actor_loss(), &with_losses.actor_loss));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, CallFactory("policy", config.type(), [&] {
                          auto made = create(config, with_losses);
                          if (made.ok()) return made;
                          return decltype(made)(Annotate(made.status(), name));
                        }));
  DING_RETURN_IF_ERROR(CheckTakesLoss(kLoss, with_losses.loss, config.loss(), name));
  DING_RETURN_IF_ERROR(
      CheckTakesLoss(kActorLoss, with_losses.actor_loss, config.actor_loss(), name));
  DING_RETURN_IF_ERROR(CheckTakesReward(absl::StrCat("policy '", config.type(), "'"),
                                        TakesComponents(policy.get()), context.env,
                                        context.reward_shape));
  return policy;
}

absl::StatusOr<std::unique_ptr<Network>> create_network(const NetworkConfig& config,
                                                        const SpecPtr& input,
                                                        const SpecPtr& outputs, uint64_t seed) {
  const absl::Status found = NetworkRegistry().Find(config.type()).status();
  if (!found.ok() && absl::StartsWith(config.type(), kTorchPrefix)) {
    return absl::NotFoundError(absl::StrCat(found.message(), kNeedsTorch));
  }
  return NetworkRegistry().Create(config, input, outputs, seed);
}

}  // namespace ding
