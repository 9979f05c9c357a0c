// What the coordinator of a parallel run has in the place of a buffer (ItemBuffer in replay_buffer/buffer_registry.h): the type
// of the buffer says it.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_ITEM_BUFFER_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_ITEM_BUFFER_H_

#include <string>
#include <vector>

#include "ding_worker/data/items.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Whether the items of such a buffer are sequences of rows, or whole episodes.
bool HasItemsOfSequences(const BufferConfig& config);

// How collectors cut their rows into items for such a buffer: one item for each row, unless HasItemsOfSequences().
ItemSequences ItemSequencesOf(const BufferConfig& config);

// Returns the config of the coordinator's buffer: `config` itself, unless HasItemsOfSequences().
BufferConfig ItemBufferConfig(const BufferConfig& config);

// Adds a sentence for each setting of policy.other.replay_buffer, and of policy.collect.n_sample, with which a
// parallel run cannot cut its rows into sequences, or has no whole episodes.
void AppendItemBufferProblems(const ExperimentConfig& config, bool plays_games,
                              std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_ITEM_BUFFER_H_
