// How long a process that runs envs may take for what it is doing, and what is to be done when it takes
// longer.
//
//   Start ──► Watch, when the caller begins to wait ──► Check, while it waits ──► kKill ──► End
//
// The time begins anew with all progress that the process makes. It is measured from the first wait
// that has to sleep: what a process does while nobody waits costs nobody time.
//
// Ownership: keeps no reference.
// Threads:   thread-compatible. Times are of a clock that never jumps.
// Errors:    Check() fails if a process outlives its being killed.
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
  // Zero: no limit. reset_timeout also bounds all calls that have no limit of their own.
  struct Limits {
    absl::Duration connect_timeout;
    absl::Duration step_timeout;
    absl::Duration reset_timeout;
  };

  // The process is started; `progress`: the count that it increases, as it is now.
  void Start(absl::Time now, uint32_t progress);
  // The caller waits for the process from now on, if it did not before.
  void Watch(absl::Time now, uint32_t progress);
  // kKill is said once: kill_cause() says why. `call`: what the process is doing.
  //   kInternal  the process was killed, and is still there
  absl::StatusOr<Verdict> Check(absl::Time now, uint32_t progress, EnvCall call,
                                const Limits& limits);
  // The process has ended.
  void End() { watched_ = false; }

  // Why the process is killed; OK if it is not.
  const absl::Status& kill_cause() const { return kill_cause_; }

 private:
  uint32_t progress_ = 0;  // that was seen last
  absl::Time since_;       // when that was, or when the process was killed
  bool watched_ = false;   // `since_` is when the caller began to wait for what it does now
  absl::Status kill_cause_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_PROCESS_DEADLINE_H_
