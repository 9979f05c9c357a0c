// Finds out, before anything is collected, whether the env has what a replay buffer of type "hindsight" needs.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_RUN_GOAL_PROBLEMS_H_
#define DING_WORKER_WORKER_RUN_GOAL_PROBLEMS_H_

#include <string>
#include <vector>

#include "ding_worker/env/env.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns a sentence for each thing that does not fit: a buffer of type "hindsight" needs an env whose observations have
// both goals (data/goal_fields.h) and whose reward is one number; and it must reward as the compute_reward() of a Python env
// does. Any other buffer fits. Call it when the env manager of the config exists, which has asked the env then.
std::vector<std::string> FindGoalProblems(const ExperimentConfig& config, const EnvSpec& env);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_GOAL_PROBLEMS_H_
