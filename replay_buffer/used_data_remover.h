// Deletes, behind its owner, the data of rows that left a buffer of metadata: such a buffer holds
// only the ids of what collectors put into a store.
//
// How an id is deleted is said by the owner of the store, who knows where it lives; ids alone are no
// paths. For files below a folder: DeleteFilesIn.
//
// Ownership: a thread of its own, joined by Close() or the destructor.
// Threads:   thread-safe, but for Close(), which belongs to the owner. The deleter is called by
//            several threads at once.
// Errors:    deleting never interrupts training: failures are counted, and come out of Close() as
//            one error.
//
// Example:
//   UsedDataRemover remover(DeleteFilesIn(path_data));
//   remover.Add(evicted.data_id);
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

// Data that is gone already is no error.
using DataDeleter = std::function<absl::Status(const std::string& data_id)>;

// Deletes the file `folder`/`data_id`.
//   kInvalidArgument  an id that is empty, absolute or has a component "..": it came over a wire,
//                     and must not name a file elsewhere
//   kPermissionDenied, ...  could not be deleted
DataDeleter DeleteFilesIn(std::string folder);

class UsedDataRemover {
 public:
  static constexpr size_t kMaxWaiting = 10000;

  explicit UsedDataRemover(DataDeleter deleter, size_t max_waiting = kMaxWaiting);
  UsedDataRemover(const UsedDataRemover&) = delete;
  UsedDataRemover& operator=(const UsedDataRemover&) = delete;
  // As Close(), whose error is lost.
  ~UsedDataRemover();

  // Returns at once, unless `max_waiting` others wait (the store is slower than the buffer), Close()
  // was called, or the system refused the thread: then this call deletes it.
  void Add(std::string data_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Deletes all that waits and ends the thread. The first failure since the last Close(), with how
  // many there were.
  absl::Status Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Since it was made.
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
  std::thread thread_;  // last: it uses the others
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_USED_DATA_REMOVER_H_
