#include "ding_worker/collector/core/reward_shaping.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<RewardShaping>& RewardShapingRegistry() {
  static auto* const registry = new Registry<RewardShaping>("reward shaping");
  return *registry;
}

absl::StatusOr<RewardShaping> FindRewardShaping(absl::string_view name) {
  DING_ASSIGN_OR_RETURN(RewardShaping shaping, RewardShapingRegistry().Find(name));
  if (shaping != nullptr) return shaping;
  return absl::InternalError(absl::StrCat(
      "reward shaping '", name, "' is an empty function, expected one that can be called"));
}

}  // namespace ding
