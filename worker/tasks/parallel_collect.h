// What each collector of a parallel run collects, and how its rows become items. The keys of
// policy.collect mean what they mean in a serial run: the amount counts all envs and collectors
// together, and each collector hands over its share at a time.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_TASKS_PARALLEL_COLLECT_H_
#define DING_WORKER_WORKER_TASKS_PARALLEL_COLLECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/data/items.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// How many samples or episodes, of n_sample or n_episode, a collector hands over together.
int64_t ShareOfCollector(const ExperimentConfig& config);

// The configs of a collector's policy and of the collector, for what one collector does.
PolicyConfig MakeCollectorPolicyConfig(const ExperimentConfig& config);
ParallelCollectorConfig MakeCollectorConfig(const ExperimentConfig& config);

// Appends a sentence for each setting of policy.collect that a parallel run refuses.
void AppendCollectProblems(const ExperimentConfig& config, std::vector<std::string>* problems);

// The coordinator replaces the buffer of `config` by a buffer of items. The type of the buffer says
// which one (ItemBuffer in replay_buffer/buffer_registry.h).

// Whether its items are sequences of rows, or whole episodes.
bool HasItemsOfSequences(const BufferConfig& config);

// How collectors cut their rows into its items: one item for each row, unless
// HasItemsOfSequences().
ItemSequences ItemSequencesOf(const BufferConfig& config);

// Returns the config of the coordinator's buffer: `config` itself, unless HasItemsOfSequences().
BufferConfig ItemBufferConfig(const BufferConfig& config);

// Appends a sentence for each setting of policy.other.replay_buffer, and of
// policy.collect.n_sample, with which a parallel run cannot cut its rows into sequences, or has no
// whole episodes.
void AppendItemBufferProblems(const ExperimentConfig& config, bool plays_games,
                              std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_PARALLEL_COLLECT_H_
