// The connection of a parallel collector: it sends data and gets policies. The communication layer
// (comm/) implements it; tests have fakes.
//
// Ownership: the link must outlive the collector.
// Threads:   called on the collector's thread.
// Blocking:  a call waits while the other side is slow or not reachable (a full store, a buffer that
//            pushes back), and reports that. Closing the collector's task ends the wait with kCancelled.
#ifndef DING_WORKER_COLLECTOR_PARALLEL_COLLECTOR_LINK_H_
#define DING_WORKER_COLLECTOR_PARALLEL_COLLECTOR_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"

namespace ding {

// A version of the policy's parameters.
struct PolicyUpdate {
  uint64_t version = 0;
  int64_t train_iter = 0;
  std::shared_ptr<StateReader> model;  // written by LearnMode::SaveModel()
};

// The progress of a collector's task, including the data sent with it.
struct CollectorProgress {
  int64_t cur_episode = 0;  // finished episodes
  int64_t cur_sample = 0;   // sent rows
  int64_t cur_step = 0;     // env steps
};

class CollectorLink {
 public:
  virtual ~CollectorLink() = default;

  // Stores `data` and then announces every row as an item of training data, so that announced rows can
  // be read.
  //   kCancelled    the task is being closed; nothing was announced
  //   other codes   the data cannot be delivered and are lost
  virtual absl::Status SendData(const SegmentBatch& data, const CollectorProgress& progress) = 0;

  // Returns the newest version of the policy of `player` (0 in single-player tasks) if it is newer than
  // `version`. Waits for one at most `timeout`; zero does not wait.
  //   kCancelled                       the task is being closed
  //   kInvalidArgument, kDataLoss ...  the policy of a player that does not learn cannot be read; for a
  //                                    player that learns, the call waits for a newer version
  //   kNotFound                        the version that a player must use is deleted
  virtual absl::StatusOr<std::optional<PolicyUpdate>> GetPolicyUpdate(int player, uint64_t version,
                                                                      absl::Duration timeout) = 0;

  // Whether the task is to act at random now, since the run still collects its first rows
  // (policy.random_collect_size). Changes once, from true to false.
  virtual bool acts_at_random() const { return false; }
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_COLLECTOR_LINK_H_
