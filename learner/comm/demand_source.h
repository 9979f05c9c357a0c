// The source of batches for a learner's data loader: it demands batches from the coordinator ahead
// of time, and reads the chunks that the answers name from the store. It reports each unusable
// chunk once, so that the coordinator draws no more rows of it.
//
//     Next(): Demand ─► ... ─► Demand          LearnerData ─► one BatchLoader per batch
//                 (kept under way)                               └─► ItemLoader ─► batch
//
// A source of kind kRounds demands the batches of a round, which are send_policy_freq batches,
// after each AskForRound(). When a round is drawn, the collectors continue; they should then act by
// the policy that was just published.
//
// Ownership: the slave and the loader must outlive it, and the results of Next() must not.
// Threads:   one thread calls Next(); any thread may call the functions that Next() returned.
#ifndef DING_WORKER_LEARNER_COMM_DEMAND_SOURCE_H_
#define DING_WORKER_LEARNER_COMM_DEMAND_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/comm/learner_slave.h"
#include "ding_worker/learner/comm/task_learner.h"

namespace ding {

// Returns how the rows of a learner with these options are loaded.
ItemLoaderOptions LoaderOptionsOf(const CommLearnerOptions& options, TaskLearner* learner);

class DemandSource {
 public:
  enum class Kind { kAhead, kRounds };

  // If `on_idle` is set, Next() calls it once per second while no data come, and returns its
  // errors.
  DemandSource(const CommLearnerOptions& options, LearnerSlave* slave, ItemLoader* loader,
               std::function<absl::Status()> on_idle = nullptr, Kind kind = Kind::kAhead);

  // Returns a function that loads the next batch, or nullopt when the task is being closed. It is a
  // BatchSource.
  //   kDeadlineExceeded  no data came within options.data_timeout
  absl::StatusOr<std::optional<BatchLoader>> Next();

  // For kRounds: lets Next() demand a round of rows that were collected by the policies of these
  // train iterations.
  void AskForRound(const std::deque<int64_t>& collect_iters) ABSL_LOCKS_EXCLUDED(mutex_);
  // Wakes a Next() that waits for AskForRound().
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sets the learner's train iteration, which demands contain.
  void set_train_iter(int64_t train_iter) {
    train_iter_.store(train_iter, std::memory_order_relaxed);
  }
  // The number of rows that were left out because the source could not read them.
  int64_t missing_rows() const { return missing_rows_.load(std::memory_order_relaxed); }
  // Why the last of these rows could not be read; OK if there are none.
  absl::Status why_missing() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The kDeadlineExceeded that Next() has returned; OK if it has not.
  absl::Status timeout() const;

 private:
  // One batch of an answer.
  struct Drawn {
    std::string items;
    uint64_t sequence;
    int64_t envstep;
  };

  absl::Status Demand();
  // Sends demands until as many are under way as the options say.
  absl::Status DemandAhead();
  absl::Status WaitForAsk() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Wait();
  absl::StatusOr<TrainData> Load(Drawn* drawn);
  absl::Status Report(const std::vector<UnusableChunk>& unusable) ABSL_LOCKS_EXCLUDED(mutex_);

  const CommLearnerOptions& options_;
  LearnerSlave* const slave_;
  ItemLoader* const loader_;
  const std::function<absl::Status()> on_idle_;
  const Kind kind_;
  const int batches_per_demand_;
  int under_way_ = 0;  // demands without an answer yet
  std::deque<Drawn> drawn_;
  std::atomic<int64_t> train_iter_{0};
  std::atomic<int64_t> missing_rows_{0};
  std::atomic<bool> timed_out_{false};

  mutable Mutex mutex_;
  CondVar asked_changed_;
  bool asked_ ABSL_GUARDED_BY(mutex_) =
      false;  // AskForRound() was called, and the round not demanded yet
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int64_t> collect_iters_ ABSL_GUARDED_BY(mutex_);
  absl::Status why_missing_ ABSL_GUARDED_BY(mutex_);
  int64_t missing_batches_ ABSL_GUARDED_BY(mutex_) = 0;  // in a row for this reason
  std::set<int64_t> reported_ ABSL_GUARDED_BY(mutex_);   // chunks; a bounded number of them
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_DEMAND_SOURCE_H_
