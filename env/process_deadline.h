// The time limit of a process that runs envs: decides when a process that takes too long must be killed.
//
//   Start ──► Watch, when the caller begins to wait ──► Check, while it waits ──► kKill ──► End
//
// The time begins anew whenever the process makes progress. It is measured from the first wait that has
// to sleep, because a process may take its time while nobody waits for it.
//
// Ownership: keeps no reference.
// Threads:   thread-compatible. All times must come from one clock that never jumps.
// Errors:    Check() fails if the process is still there 5 seconds after it was killed.
#ifndef DING_WORKER_ENV_PROCESS_DEADLINE_H_
#define DING_WORKER_ENV_PROCESS_DEADLINE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/env/env_host.h"

namespace ding {

class ProcessDeadline {
 public:
  enum class Verdict { kInTime, kKill };
  // The limits; zero means none. connect_timeout bounds starting and building an env, reset_timeout all
  // calls that have no limit of their own. A pause before another attempt has no limit.
  struct Limits {
    absl::Duration connect_timeout;
    absl::Duration step_timeout;
    absl::Duration reset_timeout;
  };

  // Notes that the process is started. `progress` is the current value of the count that it increases.
  void Start(absl::Time now, uint32_t progress);
  // Notes that the caller waits for the process from now on, unless it did before.
  void Watch(absl::Time now, uint32_t progress);
  // Returns kKill, once, if the process must be killed; kill_cause() then says why. `call` is what the
  // process is doing.
  //   kInternal  the process was to be killed 5 seconds ago, but is still there
  absl::StatusOr<Verdict> Check(absl::Time now, uint32_t progress, EnvCall call,
                                const Limits& limits);
  // Notes that the process has ended.
  void End() { watched_ = false; }

  // Why the process is killed; OK if it is not.
  const absl::Status& kill_cause() const { return kill_cause_; }

 private:
  uint32_t progress_ = 0;  // the count that was seen last
  absl::Time since_;       // when its time began, or when the process was killed
  bool watched_ = false;   // whether the caller has begun to wait for the process
  absl::Status kill_cause_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_PROCESS_DEADLINE_H_
