// A disk of the simulation, with the log of one run on it. It may be full for a while, and a power
// loss loses all unsynced commits.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_SIM_DISK_H_
#define DING_WORKER_COORDINATOR_SIMULATION_SIM_DISK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class SimDisk {
 public:
  // With `syncs`, every commit is synced before it returns; without it, every eighth commit is.
  explicit SimDisk(bool syncs) : syncs_(syncs) {}

  // Opens the log for a process, which ends the epoch of the process before.
  std::unique_ptr<Log> OpenLog();
  void set_full(bool full) { full_ = full; }
  // Returns whether commits were lost.
  bool LosePower();
  // The epoch of the process that opened the log last.
  int64_t epoch() const { return epoch_; }
  size_t records() const { return written_.records.size(); }

 private:
  friend class SimLog;
  struct Content {
    std::map<int64_t, std::string> records;
    Log::Snapshot snapshot;
    int64_t next = 1;
  };

  const bool syncs_;
  bool full_ = false;
  int64_t epoch_ = 0;
  int64_t unsynced_ = 0;  // how many commits
  Content written_;
  Content synced_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_SIM_DISK_H_
