// A learner worker without a policy, for tests of a coordinator: it demands batches of two rows,
// reads their chunks, sends the received priorities back, and is done after more than kMaxBatches
// batches.
//
// Ownership, threads: as BaseCommLearner.
#ifndef DING_WORKER_LEARNER_TESTING_NAIVE_LEARNER_H_
#define DING_WORKER_LEARNER_TESTING_NAIVE_LEARNER_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/learner_slave.h"

namespace ding {

class NaiveLearner {
 public:
  static constexpr int64_t kBatchSize = 2;
  static constexpr int64_t kMaxBatches = 5;  // the task is done with the batch after these

  NaiveLearner(WorkerSession* session, Store* store);

  absl::StatusOr<EndRun> Run();
  void Close();

  // The numbers of rows whose chunk could be read, and of rows whose chunk could not be read.
  int64_t read_rows() const { return read_rows_.load(); }
  int64_t missing_rows() const { return missing_rows_.load(); }

 private:
  void RunTask();
  absl::Status Learn();
  // Reads the chunks of one batch, and adds its priorities to `info`.
  absl::Status LearnFrom(absl::string_view items, LearnerInfo* info);

  WorkerSession* const session_;
  Store* const store_;
  LearnerSlave slave_;
  std::atomic<int64_t> read_rows_{0};
  std::atomic<int64_t> missing_rows_{0};
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_TESTING_NAIVE_LEARNER_H_
