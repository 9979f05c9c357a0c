// Policy type "dual_clip": PPO whose loss of a bad action is bounded, however much likelier the
// action has become (Ye et al. 2020, "Mastering complex control in MOBA games with deep
// reinforcement learning").
//
//   term = -min(r A, clip(r, 1 - clip_ratio, 1 + clip_ratio) A)        if A >= 0
//          -max(min(r A, clip(r, 1 - clip_ratio, 1 + clip_ratio) A), dual_clip A)    if A < 0
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo_factory.h"
#include "dual_clip/dual_clip.pb.h"

namespace dual_clip {
namespace {

// The term of a row, and its derivative by the log-probability: r times that by the ratio r.
ding::PolicyTerm Term(double ratio, double advantage, double ratio_clip, double dual_clip) {
  const ding::PolicyTerm term = ding::PpoTerm(ratio, advantage, ratio_clip);
  const double bound = -dual_clip * advantage;
  return advantage < 0 && term.value > bound ? ding::PolicyTerm{bound, 0} : term;
}

absl::StatusOr<std::unique_ptr<ding::Policy>> Create(const ding::PolicyConfig& policy,
                                                     const DualClipConfig& config,
                                                     const ding::PolicyContext& context) {
  const auto loss = [dual_clip = config.dual_clip()](
                        const ding::ActorCriticLossInput& input,
                        const ding::ActorCriticLossOptions& options,
                        const ding::ActorCriticLossGradient& gradient) {
    return ding::ComputeActorCriticLoss(input, options, gradient, [&](size_t row, double ratio) {
      return Term(ratio, input.advantage[row], options.ratio_clip, dual_clip);
    });
  };
  return ding::CreatePpoPolicy(policy, config.ppo(), context, loss);
}

DING_REGISTER(ding::PolicyRegistry(), "dual_clip", Create,
              "PPO with a dual clip; discrete and continuous actions");
DING_REGISTER(ding::ActorDescriberRegistry(), "dual_clip",
              ding::DescriberOf(ding::DescribePpoActor, &DualClipConfig::ppo), "as ppo");
DING_REGISTER(ding::PolicyDefaultsRegistry(), "dual_clip", "[as ppo: policy.params.ppo]",
              "those of ppo");

}  // namespace
}  // namespace dual_clip
