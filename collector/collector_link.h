// What a parallel collector is connected to: where its data go, and where its policies come from.
// The communication layer (comm/) injects it; a test may be one.
//
// Ownership: owned by whoever made it; outlives the collector.
// Threads:   called on the collector's thread.
// Blocking:  a call waits while the other side is slow or away (a full store, a buffer that pushes
//            back), and says so to whoever watches the run. Closing the collector's task wakes it
//            with kCancelled.
#ifndef DING_WORKER_COLLECTOR_COLLECTOR_LINK_H_
#define DING_WORKER_COLLECTOR_COLLECTOR_LINK_H_

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
  std::shared_ptr<StateReader> model;  // as LearnMode::SaveModel() wrote it
};

// How far a collector's task is, with the data that this comes with.
struct CollectorProgress {
  int64_t cur_episode = 0;  // finished ones
  int64_t cur_sample = 0;   // rows handed over
  int64_t cur_step = 0;     // env steps
};

class CollectorLink {
 public:
  virtual ~CollectorLink() = default;

  // Stores `data`, and then announces every row of it as an item of training data: what is
  // announced can be read.
  //   kCancelled    the task is being closed; nothing was announced
  //   other codes   the data cannot be delivered; they are lost with this call
  virtual absl::Status SendData(const SegmentBatch& data, const CollectorProgress& progress) = 0;

  // The newest version of the policy of `player`, 0 of a task for one, if it is newer than
  // `version`. Waits for one at most `timeout` (zero: takes what is there).
  //   kCancelled    the task is being closed
  //   kInvalidArgument, kDataLoss ...  what was published cannot be read, of a player that does not
  //                 learn; of one that learns, a newer version is waited for
  //   kNotFound     a version that a player was to play by is gone
  virtual absl::StatusOr<std::optional<PolicyUpdate>> GetPolicyUpdate(int player, uint64_t version,
                                                                      absl::Duration timeout) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COLLECTOR_LINK_H_
