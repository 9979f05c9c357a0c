// The options and the bounds of a session (session.h).
//
// Threads: thread-compatible.
#ifndef DING_WORKER_INTERACTION_CONTROL_SESSION_OPTIONS_H_
#define DING_WORKER_INTERACTION_CONTROL_SESSION_OPTIONS_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/control/session_budget.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// The largest message of a session: what a connection takes, less the session's own fields.
inline constexpr int64_t kMaxSessionMessageBytes = kMaxMessageBytes - 64;

// The shortest lease that a session may have.
inline constexpr absl::Duration kMinSessionLease = absl::Milliseconds(20);

// Bytes that a peer may have under way: until Admit(), and after it.
inline constexpr int64_t kFirstWindowBytes = int64_t{64} << 10;
inline constexpr int64_t kWindowBytes = int64_t{32} << 20;
inline constexpr int64_t kMaxWindowBytes = int64_t{1} << 40;
// What each message counts for besides its bytes.
inline constexpr int64_t kMessageOverheadBytes = 64;

struct SessionOptions {
  // Without a sign of life for that long, the session is over; at least kMinSessionLease.
  absl::Duration lease = absl::Seconds(5);
  // Messages that may be under way, at least 1. The same on both sides.
  int window = 256;
  // Bytes of messages that this side takes until Admit(), and the most that are under way in either
  // direction after it.
  int64_t first_window_bytes = kFirstWindowBytes;
  int64_t window_bytes = kWindowBytes;
  // The bytes that the sessions of a server share. May be null: no bound for all of them together.
  std::shared_ptr<SessionBudget> budget;
  // The clock that judges the lease. Timeouts go by the machine's clock.
  const Clock* clock = Clock::Real();
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_OPTIONS_H_
