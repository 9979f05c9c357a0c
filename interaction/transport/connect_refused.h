// Marks the error of a Connect() that reached its deadline although somebody answered: with a reason, or by
// closing the connection, as the machine itself does for a port where nobody listens. An error without the
// mark means that nobody answered: the process hangs or is stopped.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_TRANSPORT_CONNECT_REFUSED_H_
#define DING_WORKER_INTERACTION_TRANSPORT_CONNECT_REFUSED_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace ding {

inline constexpr char kConnectRefusedPayload[] = "ding_worker/connect_refused";

// Returns `status` with the mark. `status` must be an error.
inline absl::Status MarkConnectRefused(absl::Status status) {
  status.SetPayload(kConnectRefusedPayload, absl::Cord());
  return status;
}

// Whether `status` has the mark.
inline bool IsConnectRefused(const absl::Status& status) {
  return status.GetPayload(kConnectRefusedPayload).has_value();
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TRANSPORT_CONNECT_REFUSED_H_
