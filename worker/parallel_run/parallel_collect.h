// What the collectors of a parallel run take from policy.collect. Its keys mean what they mean in a serial run: the amount is
// that of all envs and collectors together, of which each collector hands over its share at a time.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_COLLECT_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_COLLECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// How many samples or episodes, of n_sample or n_episode, a collector hands over together.
int64_t ShareOfCollector(const ExperimentConfig& config);

// The configs of a collector's policy and of the collector, for what one collector does.
PolicyConfig MakeCollectorPolicyConfig(const ExperimentConfig& config);
ParallelCollectorConfig MakeCollectorConfig(const ExperimentConfig& config);

// Appends a sentence for each setting of policy.collect that a parallel run refuses.
void AppendCollectProblems(const ExperimentConfig& config, std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_PARALLEL_COLLECT_H_
