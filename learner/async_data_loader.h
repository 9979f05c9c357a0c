// Prepares the next batches while the learner trains on this one.
//
//     DataSource ──BatchLoader──► threads ──► ready batches, in the order of the source ──► Next()
//
// The source is asked on a thread of its own, which may wait for whoever draws; what it returns, the
// loading of one batch (reading files, gathering), is run by `num_workers` threads. At most
// max(2 * num_workers, batches_ahead) batches are being asked for, being loaded or ready. Next() is a
// BaseLearner::DataSource.
//
// Ownership: owns its threads, which Close() joins.
// Threads:   Next() belongs to one thread; Close() may be called by any but those of source and
//            loaders.
// Blocking:  Next() waits for a batch; Close() wakes it, and must wake the source too: `cancel`.
//            Close() waits for the loading that is under way.
#ifndef DING_WORKER_LEARNER_ASYNC_DATA_LOADER_H_
#define DING_WORKER_LEARNER_ASYNC_DATA_LOADER_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/learner/train_data.h"

namespace ding {

// Loads one batch.
using BatchLoader = std::function<absl::StatusOr<TrainData>()>;
// The next batch to load; none: there are no more.
using BatchSource = std::function<absl::StatusOr<std::optional<BatchLoader>>()>;

class AsyncDataLoader {
 public:
  struct Options {
    // Threads that load, 0 or more; 0 is 1.
    int num_workers = 0;
    // More than 2 * num_workers of them keep the learner busy while its threads wait for a processor;
    // what it learns from is that much older. 0 or more.
    int batches_ahead = 0;
    // Next() that waits longer fails.
    absl::Duration timeout = absl::Minutes(10);
  };

  // `cancel`, if it is set, makes a `source` that waits return; it is called by Close().
  //   kInvalidArgument  num_workers or batches_ahead < 0, no source, timeout not above zero
  static absl::StatusOr<std::unique_ptr<AsyncDataLoader>> Create(const Options& options,
                                                                 BatchSource source,
                                                                 std::function<void()> cancel);
  virtual ~AsyncDataLoader() = default;  // as Close()

  // The next batch, in the order of the source; none when the source has ended, or after Close().
  //   kDeadlineExceeded  no data within the timeout; a later call may get them
  //   kInternal          source or loader threw an exception
  //   other codes        of the source, or of loading the batch whose turn it is; the loader has
  //                      then ended
  virtual absl::StatusOr<std::optional<TrainData>> Next() = 0;

  // Drops what is not handed out, and joins the threads; may be repeated.
  virtual void Close() = 0;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_ASYNC_DATA_LOADER_H_
