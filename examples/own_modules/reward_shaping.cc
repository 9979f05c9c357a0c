// A function that shapes rewards: "fall_costs" sets the last reward of an episode to -1, so that a pole that
// falls costs something. The collector "episode" calls it (reward_shaping of its params), and the collector
// of this folder. Logged returns stay those of the env.
#include "ding_worker/collector/core/reward_shaping.h"

namespace own {
namespace {

absl::Status FallCosts(int /*env_id*/, const ding::ColumnsView& /*rows*/,
                       absl::Span<float> rewards) {
  rewards.back() = -1;
  return absl::OkStatus();
}

DING_REGISTER(ding::RewardShapingRegistry(), "fall_costs", FallCosts, "the last reward is -1");

}  // namespace
}  // namespace own
