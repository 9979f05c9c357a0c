// A Connect() that ran into its deadline, of somebody who answers: with a reason, or by closing, as the
// machine itself does for a port where nobody listens. Who is silent hangs, or is stopped.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_CONNECT_REFUSED_H_
#define DING_WORKER_INTERACTION_CONNECT_REFUSED_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace ding {

inline constexpr char kConnectRefusedPayload[] = "ding_worker/connect_refused";

// `status`, which is an error, marked.
inline absl::Status MarkConnectRefused(absl::Status status) {
  status.SetPayload(kConnectRefusedPayload, absl::Cord());
  return status;
}

inline bool IsConnectRefused(const absl::Status& status) {
  return status.GetPayload(kConnectRefusedPayload).has_value();
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONNECT_REFUSED_H_
