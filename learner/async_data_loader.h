// Prepares the next batches in threads while the learner trains.
//
//     DataSource ──BatchLoader──► threads ──► ready batches, in the order of the source ──► Next()
//
// One thread calls the source, which may block. The source returns functions that each load one
// batch (read files, gather rows), and `num_workers` threads run these. At most max(2 *
// num_workers, batches_ahead) batches are requested, being loaded or ready. Next() is a
// BaseLearner::DataSource.
//
// Ownership: owns its threads, which Close() joins.
// Threads:   one thread may call Next(); any thread may call Close(), except from the source or a
//            loader.
// Blocking:  Next() waits for a batch. Close() wakes Next(), wakes the source by `cancel`, and
//            waits until the batches that are being loaded are finished.
#ifndef DING_WORKER_LEARNER_ASYNC_DATA_LOADER_H_
#define DING_WORKER_LEARNER_ASYNC_DATA_LOADER_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/learner/learner.h"

namespace ding {

// Loads one batch.
using BatchLoader = std::function<absl::StatusOr<TrainData>()>;
// Returns the next batch to load; nullopt when there are no more.
using BatchSource = std::function<absl::StatusOr<std::optional<BatchLoader>>()>;

class AsyncDataLoader {
 public:
  struct Options {
    // The number of threads that load, 0 or more; 0 means 1.
    int num_workers = 0;
    // The number of batches to prepare, if it is above 2 * num_workers; 0 or more. With more
    // batches the learner waits less often, but learns from older data.
    int batches_ahead = 0;
    // Next() fails when it waits longer.
    absl::Duration timeout = absl::Minutes(10);
  };

  // Close() calls `cancel`, if it is set, which must make a blocked `source` return.
  //   kInvalidArgument  num_workers or batches_ahead below 0, no source, timeout not above 0
  static absl::StatusOr<std::unique_ptr<AsyncDataLoader>> Create(const Options& options,
                                                                 BatchSource source,
                                                                 std::function<void()> cancel);
  virtual ~AsyncDataLoader() = default;  // calls Close()

  // Returns the next batch in the order of the source; nullopt when the source has ended, or after
  // Close().
  //   kDeadlineExceeded  no batch within the timeout; a later call may return it
  //   kInternal          the source or a loader threw an exception
  //   other codes        errors of the source or of loading this batch; the loader has then ended
  virtual absl::StatusOr<std::optional<TrainData>> Next() = 0;

  // Drops the batches that Next() has not returned and joins the threads. Idempotent.
  virtual void Close() = 0;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_ASYNC_DATA_LOADER_H_
