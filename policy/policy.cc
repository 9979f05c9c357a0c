#include "ding_worker/policy/policy.h"

#include "absl/strings/str_cat.h"

namespace ding {

absl::Status CheckTakesReward(absl::string_view policy, bool takes_components,
                              absl::string_view env, const Shape& reward_shape) {
  if (reward_shape.empty() || takes_components) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      policy, " learns from one reward per step, but the reward of env '", env, "' is float32",
      ShapeString(reward_shape),
      ": set env.reward_weights (MakeWeightedReward()) to make one of its ", reward_shape[0],
      " components, or take a policy whose attributes say reward_components"));
}

}  // namespace ding
