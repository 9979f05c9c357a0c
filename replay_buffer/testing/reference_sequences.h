// A simple model of the sequences that a SequenceReplayBuffer can draw: every run of rows since the
// beginning, cut into sequences when it is asked.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_SEQUENCES_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_SEQUENCES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"

namespace ding {

class ReferenceSequences {
 public:
  explicit ReferenceSequences(const SequenceReplayBuffer::Options& options) : options_(options) {}

  void Push(const SegmentBatch& data);
  void Clear() { begin_id_ = next_id_; }
  // The first rows of episodes.
  const std::set<int64_t>& first_rows() const { return first_rows_; }
  // The ids of the rows, without padding, of each sequence, by first rows.
  std::vector<std::vector<int64_t>> All() const;

 private:
  struct Run {
    std::vector<int64_t> ids;
    bool whole;  // from the beginning of an episode
    bool over;   // nothing follows
    bool ended;  // with the episode
  };
  struct Newest {
    size_t run;
    int64_t next_step;
    bool ended;
    int64_t last_id;
  };

  const SequenceReplayBuffer::Options options_;
  int64_t next_id_ = 0;
  int64_t begin_id_ = 0;
  std::vector<Run> runs_;
  std::map<int64_t, Newest> newest_;
  std::set<int64_t> first_rows_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_SEQUENCES_H_
