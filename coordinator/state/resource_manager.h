// Knows which workers are free, and chooses the one that gets a task.
//
//     Update ──► free ──Assign──► assigned ──Update──► free ...
//                  └──────Delete──────┴──► not there
//
// Ownership: a value.
// Threads:   thread-safe.
#ifndef DING_WORKER_COORDINATOR_STATE_RESOURCE_MANAGER_H_
#define DING_WORKER_COORDINATOR_STATE_RESOURCE_MANAGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// A worker that was assigned, with its resources.
struct AssignedWorker {
  uint32_t worker = 0;
  Resources resources;
};

class NaiveResourceManager {
 public:
  // Makes the worker free from now on, with these resources.
  void Update(Hello::Role role, uint32_t worker, const Resources& resources)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Assigns a free worker that has all needed resources: of several the one with the most CPUs, and of these the one that
  // has been free for longest. The worker `except` is not assigned. Returns nullopt if there is no such worker.
  std::optional<AssignedWorker> Assign(Hello::Role role, const Resources& needed,
                                       std::optional<uint32_t> except = std::nullopt)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the worker has been assigned and not been updated since.
  bool HaveAssigned(Hello::Role role, uint32_t worker) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes a worker, free or not. Returns false if it was not there.
  bool Delete(Hello::Role role, uint32_t worker) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Resources resources;
    std::optional<int64_t> free_since;  // the number of the update; not set while it is assigned
  };

  mutable Mutex mutex_;
  int64_t updates_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<Hello::Role, uint32_t>, Entry> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_RESOURCE_MANAGER_H_
