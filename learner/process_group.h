// A group of processes that train one model together, each with a rank, as a learner sees it.
//
// Threads: thread-compatible; every rank must make the same calls in the same order.
#ifndef DING_WORKER_LEARNER_PROCESS_GROUP_H_
#define DING_WORKER_LEARNER_PROCESS_GROUP_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ding {

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;        // 0 ... world_size() - 1
  virtual int world_size() const = 0;  // at least 1
  // Replaces each value by its mean over all ranks. kUnavailable if a rank is lost.
  virtual absl::Status AllReduceMean(absl::Span<double> values) = 0;
};

// A group of one process.
class SingleProcess : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  absl::Status AllReduceMean(absl::Span<double> /*values*/) override { return absl::OkStatus(); }
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_PROCESS_GROUP_H_
