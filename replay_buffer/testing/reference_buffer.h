// A simple model of a buffer of transitions: a deque of rows, successors found by linear search,
// and n-step sums by their formula. A test draws from the buffer under test, and then lets the
// model check every row of the batch by its replay_unique_id.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_BUFFER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"

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

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_REFERENCE_BUFFER_H_
