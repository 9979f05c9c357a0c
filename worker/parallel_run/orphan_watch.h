// Ends a worker process whose supervisor has died and that has nothing left to work for, because
// its session is over or has not begun. Such a worker ends by itself as soon as it looks; but it
// may be waiting just then for a connection, for a group of learners or for a user's env, and
// nobody is left who would end it.
//
// Ownership: owns its thread, which the destructor joins.
// Threads:   thread-safe.
#ifndef DING_WORKER_WORKER_PARALLEL_RUN_ORPHAN_WATCH_H_
#define DING_WORKER_WORKER_PARALLEL_RUN_ORPHAN_WATCH_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"

namespace ding {

class OrphanWatch {
 public:
  struct Options {
    // Polled: whether the supervisor is alive, or there never was one.
    std::function<bool()> supervisor_lives;
    // How long the process has to end by itself. Beyond the 5 s that an aggregator gives its
    // learners.
    absl::Duration patience = absl::Seconds(7);
  };

  OrphanWatch() = default;
  OrphanWatch(const OrphanWatch&) = delete;
  OrphanWatch& operator=(const OrphanWatch&) = delete;
  ~OrphanWatch();

  // Starts to watch. To be called once. kResourceExhausted if the system refuses a thread.
  absl::Status Start(Options options);

  // Sets how to ask whether the session that the process works for is open; null: it has none. It
  // is called until the next call of SetSession() and not later.
  void SetSession(std::function<bool()> is_open);

 private:
  void Watch();
  bool IsOrphan();

  Options options_;
  Mutex mutex_;
  std::function<bool()> session_is_open_ ABSL_GUARDED_BY(mutex_);
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_RUN_ORPHAN_WATCH_H_
