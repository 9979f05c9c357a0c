#include "ding_worker/collector/core/reward_shaping.h"

namespace ding {

Registry<RewardShaping>& RewardShapingRegistry() {
  static auto* const registry = new Registry<RewardShaping>("reward shaping");
  return *registry;
}

}  // namespace ding
