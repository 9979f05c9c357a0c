// Says what a buffer of type "sequence" is in a parallel run, whose coordinator holds no rows: each sequence is
// one item (data/items.h), which collectors announce and learners read as a whole. The coordinator's buffer then
// draws items as another one draws rows. Of a buffer of type "episode" each whole episode is one item, which the
// coordinator's buffer of this type draws (replay_buffer/episode_buffer.h).
//
//     config    "sequence" { unroll_len: 20 overlap: 10 priority {} }, replay_buffer_size 100000
//     buffer    "advanced" of 10000 items
//     items     {chunk 7, row 0, length 20}, {chunk 7, row 10, length 20}, ...
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

// How collectors cut their rows into items for such a buffer: one item for each row, unless
// HasItemsOfSequences(). The parameters must be in range (AppendItemBufferProblems).
ItemSequences ItemSequencesOf(const BufferConfig& config);

// Returns the config of the coordinator's buffer. That of a buffer of sequences has type "naive", or "advanced"
// if sequences are drawn by priority. A capacity of n rows becomes n / (unroll_len - overlap) items, at least 1;
// a capacity in bytes stays, and counts items, too. Every other config is returned as it is; type "episode"
// counts the rows of its items.
BufferConfig ItemBufferConfig(const BufferConfig& config);

// Adds a sentence for each setting of policy.other.replay_buffer, and of policy.collect.n_sample, with which a
// parallel run cannot cut its rows into sequences, or has no whole episodes.
void AppendItemBufferProblems(const ExperimentConfig& config, bool plays_games,
                              std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_ITEM_BUFFER_H_
