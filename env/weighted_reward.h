// An env that makes one reward of the components of another env's reward: their weighted sum. All
// algorithms can learn from it, and no collector, buffer or learner knows that there were components.
//
//   reward = sum over c of weight_c * component_c, in float64, rounded to float32
//
// The return of an episode is the sum of these rewards. StepResult::component_returns has the returns of
// the components.
//
// Ownership: owns the other env.   Threads: as Env.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<Env> env, DeepSea::Create());  // treasure, time
//   DING_ASSIGN_OR_RETURN(env, MakeWeightedReward(std::move(env), {1, 0.1}));
#ifndef DING_WORKER_ENV_WEIGHTED_REWARD_H_
#define DING_WORKER_ENV_WEIGHTED_REWARD_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"

namespace ding {

// kInvalidArgument unless `weights` has a finite number for each component of the reward of `env`.
absl::StatusOr<std::unique_ptr<Env>> MakeWeightedReward(std::unique_ptr<Env> env,
                                                        std::vector<double> weights);

}  // namespace ding

#endif  // DING_WORKER_ENV_WEIGHTED_REWARD_H_
