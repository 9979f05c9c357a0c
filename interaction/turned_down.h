// A Connect() that ran into its deadline, of somebody who answers: with a reason, or by closing, as the
// machine itself does for a port where nobody listens. Who is silent hangs, or is stopped.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_TURNED_DOWN_H_
#define DING_WORKER_INTERACTION_TURNED_DOWN_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace ding {

inline constexpr char kTurnedDownPayload[] = "ding_worker/turned_down";

// `status`, which is an error, marked.
inline absl::Status MarkTurnedDown(absl::Status status) {
  status.SetPayload(kTurnedDownPayload, absl::Cord());
  return status;
}

inline bool IsTurnedDown(const absl::Status& status) {
  return status.GetPayload(kTurnedDownPayload).has_value();
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TURNED_DOWN_H_
