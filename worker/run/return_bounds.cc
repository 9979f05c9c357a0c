#include "ding_worker/worker/run/return_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace ding {
namespace {

// The bound of a sum of 1 to `steps` rewards; `steps` 0 stands for any number of them. `away` says
// whether more rewards move the sum away from 0.
double BoundOfSum(double reward, int64_t steps, bool away) {
  if (!away) return reward;
  return steps > 0 ? reward * static_cast<double>(steps)
                   : std::copysign(std::numeric_limits<double>::infinity(), reward);
}

}  // namespace

ReturnBounds BoundsOfReturns(const EnvSpec& env) {
  ReturnBounds bounds;
  // The return is the sum of the components, if there are several; the bounds are those of each.
  const auto components = static_cast<double>(std::max<int64_t>(1, env.reward_components()));
  bounds.low =
      BoundOfSum(components * env.reward_low, env.max_episode_steps, /*away=*/env.reward_low < 0);
  bounds.high =
      BoundOfSum(components * env.reward_high, env.max_episode_steps, /*away=*/env.reward_high > 0);
  return bounds;
}

ReturnBounds EitherOf(const ReturnBounds& a, const ReturnBounds& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

}  // namespace ding
