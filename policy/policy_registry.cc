#include "ding_worker/policy/policy_registry.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

// Networks with this prefix use libtorch, which most programs do not link.
constexpr char kTorchPrefix[] = "torch_";
constexpr char kNeedsTorch[] =
    " (networks 'torch_...' need a program with libtorch: //worker:serial_torch, which tools/train "
    "runs by itself where a config names one)";

// Whether all modes that see rewards take several components.
bool TakesComponents(Policy* policy) {
  CollectMode* const collect = policy->collect_mode();
  LearnMode* const learn = policy->learn_mode();
  return (collect == nullptr || collect->attributes().reward_components) &&
         (learn == nullptr || learn->attributes().reward_components);
}

}  // namespace

Registry<PolicyCreator>& PolicyRegistry() {
  static auto* const registry = new Registry<PolicyCreator>("policy");
  return *registry;
}

Registry<NetworkCreator>& NetworkRegistry() {
  static auto* const registry = new Registry<NetworkCreator>("network");
  return *registry;
}

absl::StatusOr<std::unique_ptr<Policy>> create_policy(const PolicyConfig& config,
                                                      const PolicyContext& context) {
  DING_ASSIGN_OR_RETURN(const PolicyCreator create, PolicyRegistry().Find(config.type()));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, CallFactory("policy", config.type(), [&] {
                          return create(config, context);
                        }));
  DING_RETURN_IF_ERROR(CheckTakesReward(absl::StrCat("policy '", config.type(), "'"),
                                        TakesComponents(policy.get()), context.env,
                                        context.reward_shape));
  return policy;
}

absl::StatusOr<std::unique_ptr<Network>> create_network(const NetworkConfig& config,
                                                        const SpecPtr& input,
                                                        const SpecPtr& outputs, uint64_t seed) {
  const absl::StatusOr<NetworkCreator> create = NetworkRegistry().Find(config.type());
  if (!create.ok() && absl::StartsWith(config.type(), kTorchPrefix)) {
    return absl::NotFoundError(absl::StrCat(create.status().message(), kNeedsTorch));
  }
  DING_RETURN_IF_ERROR(create.status());
  return CallFactory("network", config.type(),
                     [&] { return (*create)(config, input, outputs, seed); });
}

}  // namespace ding
