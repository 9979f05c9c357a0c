// Deletes data in the background after its rows have left a buffer of metadata. Such a buffer holds
// only the ids of data that collectors have put into a store.
//
// The owner of the store provides the function that deletes the data of an id, because only the
// owner knows where it lies. DeleteFilesIn() is this function for files in a folder.
//
// Ownership: owns a thread, which Close() or the destructor joins.
// Threads:   thread-safe, except for Close(), which only the owner calls. Several threads may call
//            the deleter at once.
// Errors:    a failure to delete never interrupts training: failures are counted, and Close()
//            returns them as one error.
//
// Example:
//   UsedDataRemover remover(DeleteFilesIn(path_data));
//   remover.Add(data_id);  // for each id that left the buffer
//   DING_RETURN_IF_ERROR(remover.Close());
#ifndef DING_WORKER_REPLAY_BUFFER_USED_DATA_REMOVER_H_
#define DING_WORKER_REPLAY_BUFFER_USED_DATA_REMOVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "ding_worker/base/mutex.h"

namespace ding {

// Deletes the data of an id. Returns OK if the data is already gone.
using DataDeleter = std::function<absl::Status(const std::string& data_id)>;

// Deletes the file `folder`/`data_id`.
//   kInvalidArgument  the id is empty, absolute or has a component "..": ids come over a network
//                     and must not name files elsewhere
//   kPermissionDenied, ...  the file could not be deleted
DataDeleter DeleteFilesIn(std::string folder);

class UsedDataRemover {
 public:
  static constexpr size_t kMaxWaiting = 10000;

  explicit UsedDataRemover(DataDeleter deleter, size_t max_waiting = kMaxWaiting);
  UsedDataRemover(const UsedDataRemover&) = delete;
  UsedDataRemover& operator=(const UsedDataRemover&) = delete;
  // Calls Close() and drops its error.
  ~UsedDataRemover();

  // Queues the data for deletion and returns at once. The call deletes the data itself if
  // `max_waiting` ids already wait (the store is slower than the buffer), after Close(), or if the
  // thread could not be started.
  void Add(std::string data_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Deletes all data that waits and ends the thread. Returns the first failure since the last
  // Close(), with the number of failures.
  absl::Status Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // The numbers of ids that were deleted, or could not be, since the remover was created.
  int64_t deleted() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t failed() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Delete(const std::string& data_id) ABSL_LOCKS_EXCLUDED(mutex_);

  const DataDeleter deleter_;
  const size_t max_waiting_;
  mutable Mutex mutex_;
  CondVar changed_;  // waiting_ or closing_
  std::deque<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t deleted_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t failed_since_close_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_USED_DATA_REMOVER_H_
