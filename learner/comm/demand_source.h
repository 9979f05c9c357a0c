// Where a learner's data loader gets its batches: demands them from the coordinator ahead of time,
// and reads what the answers name from the store. Chunks that cannot be learned from are reported,
// each once: the coordinator names no more rows of them.
//
//     Next(): Demand ─► ... ─► Demand          LearnerData ─► one BatchLoader per batch
//                 (kept under way)                               └─► ItemLoader ─► batch
//
// A source of rounds (kRounds) demands one batch at a time, when it is asked for: what is drawn lets the
// collectors go on, by the policy that was published before.
//
// Ownership: slave and loader outlive it, and what Next() returned must not outlive it.
// Threads:   Next() belongs to one thread; the loaders run on any.
#ifndef DING_WORKER_LEARNER_COMM_DEMAND_SOURCE_H_
#define DING_WORKER_LEARNER_COMM_DEMAND_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
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
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/comm/learner_slave.h"

namespace ding {

class DemandSource {
 public:
  enum class Kind { kAhead, kRounds };

  // `on_idle`, if there is one, is called by Next() every second without data; an error ends that.
  DemandSource(const CommLearnerOptions& options, LearnerSlave* slave, ItemLoader* loader,
               std::function<absl::Status()> on_idle = nullptr, Kind kind = Kind::kAhead);

  // A BatchSource: the loading of the next batch; none when the task is being closed.
  //   kDeadlineExceeded  no data within options.data_timeout
  absl::StatusOr<std::optional<BatchLoader>> Next();

  // Lets Next() of a source of rounds demand one; the rows are of the policies of these train iterations.
  void AskForRound(const std::deque<int64_t>& collect_iters) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the wait for that.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Stands in demands: of the learner.
  void set_train_iter(int64_t train_iter) {
    train_iter_.store(train_iter, std::memory_order_relaxed);
  }
  // Rows that could not be read and were left out.
  int64_t missing_rows() const { return missing_rows_.load(std::memory_order_relaxed); }
  // Why the last of them were; OK: none were.
  absl::Status why_missing() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The error of Next() if it has failed because there were no data; else OK.
  absl::Status timeout() const;

 private:
  // One batch of an answer.
  struct Drawn {
    std::string items;
    uint64_t sequence;
    int64_t envstep;
  };

  absl::Status Demand();
  // Demands as many as are to be under way.
  absl::Status DemandAhead();
  absl::Status WaitForAsk() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Wait();
  absl::StatusOr<TrainData> Load(const Drawn& drawn);
  absl::Status Report(const std::vector<UnusableChunk>& unusable) ABSL_LOCKS_EXCLUDED(mutex_);
  // One batch of the answer `sequence` is read.
  void CountRead(uint64_t sequence);

  const CommLearnerOptions& options_;
  LearnerSlave* const slave_;
  ItemLoader* const loader_;
  const std::function<absl::Status()> on_idle_;
  const Kind kind_;
  const int batches_per_demand_;
  int under_way_ = 0;  // demands that are not answered
  std::deque<Drawn> drawn_;
  std::atomic<int64_t> train_iter_{0};
  std::atomic<int64_t> missing_rows_{0};
  std::atomic<bool> timed_out_{false};

  mutable Mutex mutex_;
  CondVar asked_changed_;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;  // for a round that is not demanded yet
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int64_t> collect_iters_ ABSL_GUARDED_BY(mutex_);
  absl::Status why_missing_ ABSL_GUARDED_BY(mutex_);
  std::set<int64_t> reported_ ABSL_GUARDED_BY(mutex_);  // chunks, bounded
  // Batches that are not read yet, of the answers that have some.
  std::map<uint64_t, int> unread_ ABSL_GUARDED_BY(mutex_);
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;  // the last answer
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_DEMAND_SOURCE_H_
