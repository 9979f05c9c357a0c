// What a parallel run cannot do, and which types its config chooses by name.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_TASKS_PARALLEL_PROBLEMS_H_
#define DING_WORKER_WORKER_TASKS_PARALLEL_PROBLEMS_H_

#include <string>
#include <vector>

#include "ding_worker/base/params.h"
#include "ding_worker/env/env.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns one sentence for each thing in the config that a parallel run cannot do, or not as it is
// set; for each type that this program does not have, or that refuses its parameters; and for a
// commander and a collector that are not for the same kind of env. `kind_is_known`: leaves to
// FindPolicyProblems() what depends on the kind of the policy.
std::vector<std::string> FindParallelProblems(const ExperimentConfig& config,
                                              bool kind_is_known = false);

// Returns one sentence for each thing in the config that does not fit the env, or that a parallel
// run of a policy with these attributes does not use. `learn_mode` may be null.
std::vector<std::string> FindPolicyProblems(const ExperimentConfig& config, const EnvSpec& env,
                                            const CollectAttributes& policy, LearnMode* learn_mode);

// The types of the processes of collectors and learners, with their parameters, for
// create_comm_collector() and create_comm_learner(). They refer to `config`.
GivenParams CommCollectorConfig(const ExperimentConfig& config);
GivenParams CommLearnerConfig(const ExperimentConfig& config);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_PARALLEL_PROBLEMS_H_
