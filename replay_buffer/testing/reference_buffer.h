// A simple model of a buffer of transitions: a deque of rows, successors found by linear search,
// and n-step sums by their formula. A test draws from the buffer under test, and then lets the
// model check every row of the batch by its replay_unique_id.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"

namespace ding {

class ReferenceBuffer {
 public:
  ReferenceBuffer(int64_t capacity_rows, int64_t nstep, double gamma)
      : capacity_rows_(capacity_rows), nstep_(nstep), gamma_(gamma) {}

  void Push(const SegmentBatch& data);
  void Clear() { rows_.clear(); }

  int64_t count() const { return static_cast<int64_t>(rows_.size()); }
  // The id of the newest row.
  int64_t newest_id() const { return next_id_ - 1; }

  // Returns OK if every row of `batch` is a row of the model and has exactly its columns (sums and
  // powers: within a millionth). Otherwise the error says which row and column differ.
  absl::Status Check(const Batch& batch) const;

 private:
  struct Row {
    int64_t id;
    int64_t stream;
    int64_t step;
    bool last_of_segment;
    SegmentEnd end;                    // how its segment ends, if it is the last
    std::vector<std::string> columns;  // bytes, as in the pushed spec
    std::vector<std::string> final_obs;
    float reward;
  };
  struct Expected {
    double reward = 0;
    double discount = 1;
    int64_t n_step = 0;
    std::vector<std::string> next_obs;
  };

  // Returns the next row of the stream if it continues `row`, else null.
  const Row* SuccessorOf(const Row& row) const;
  Expected Window(const Row& row) const;
  absl::Status CheckRow(const Batch& batch, int64_t index) const;

  const int64_t capacity_rows_;
  const int64_t nstep_;
  const double gamma_;
  int64_t next_id_ = 0;
  std::vector<std::string> names_;
  std::deque<Row> rows_;
};

// A simple model of the sequences that a SequenceReplayBuffer can draw: every run of rows since the
// beginning, cut into sequences when it is asked.
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

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_BUFFER_H_
