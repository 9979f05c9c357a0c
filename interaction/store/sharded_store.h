// One store over several, of which one may be away: for experience that one server cannot hold.
//
//     data/..., policy/...   spread: each key has an order of the stores, by rendezvous hashing
//     every other key        in the first store, and so is the log
//
//     Put ──► first store in the key's order that takes it      away or full: the next one
//     Get ──► the same, until one has it
//
// A store that returns kUnavailable is away. It is tried again after a second, or twice the time
// that the last try took, by one call at a time; the others go on without it. Values of spread keys
// never change, so a store that comes back with what it had is right about them.
//
// Until a store has been away for kPatience, Get and List of what it may have return kUnavailable.
// After that its spread keys count as lost: Get returns kNotFound, and List leaves them out. Create
// waits for a store that is away kStartPatience; then what it has counts as lost at once. The other
// keys are never lost: their calls return kUnavailable as long as the first store is away.
//
// Delete deletes from all stores; from one that is away when it is back, at most kMaxDeletes keys.
// Clear returns an error if a store is away, and clears the others.
//
// Ownership: owns the stores; the clock is the caller's.
// Threads:   thread-safe.
// Errors:    as the stores below.
#ifndef DING_WORKER_INTERACTION_STORE_SHARDED_STORE_H_
#define DING_WORKER_INTERACTION_STORE_SHARDED_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class ShardedStore : public Store {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(30);
  static constexpr absl::Duration kStartPatience = absl::Seconds(10);
  static constexpr size_t kMaxDeletes = 100000;

  struct Part {
    std::string name;  // decides which keys it gets, so it must be the same in all processes
    std::function<absl::StatusOr<std::unique_ptr<Store>>()> open;
  };

  // Opens at least one of the stores; `parts` has at least two, with different names.
  //   kUnavailable  all are away
  //   others        the error of one of them
  static absl::StatusOr<std::unique_ptr<ShardedStore>> Create(
      const std::string& url, std::vector<Part> parts, const Clock* clock = Clock::Real(),
      absl::Duration start_patience = kStartPatience);

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override;
  absl::Status Get(absl::string_view key, std::string* value) override;
  absl::Status Delete(absl::string_view key) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override;
  absl::Status Clear() override;
  absl::StatusOr<std::unique_ptr<Log>> OpenLog(const LogOptions& options) override;
  const std::string& url() const override { return url_; }

 private:
  using Work = std::function<absl::Status(Store* store)>;

  struct Shard {
    Part part;
    Mutex mutex;
    std::unique_ptr<Store> store ABSL_GUARDED_BY(mutex);  // null until it is opened; then it stays
    absl::Status error ABSL_GUARDED_BY(mutex);            // why it is away; OK: it is not
    bool trying ABSL_GUARDED_BY(mutex) = false;           // a call finds out if it is back
    bool lost_at_start ABSL_GUARDED_BY(mutex) = false;
    int64_t away_since ABSL_GUARDED_BY(mutex) = 0;  // MonotonicNanos()
    int64_t next_try ABSL_GUARDED_BY(mutex) = 0;
    std::vector<std::string> deletes ABSL_GUARDED_BY(mutex);  // keys to delete when it is back
  };

  ShardedStore(const std::string& url, std::vector<Part> parts, const Clock* clock);

  // The stores that may have `key`, the best one first.
  std::vector<Shard*> OrderOf(absl::string_view key) const;
  // Runs `work` with a store, unless it is away.
  absl::Status At(Shard* shard, const Work& work);
  // Whether what the store has counts as lost.
  bool IsLost(Shard* shard) const;
  void DeleteLater(Shard* shard, absl::Span<const std::string> keys);
  void DeleteNow(Shard* shard);

  const std::string url_;
  const Clock* const clock_;
  std::vector<std::unique_ptr<Shard>> shards_;
  bool created_ = false;  // Create() has ended
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_SHARDED_STORE_H_
