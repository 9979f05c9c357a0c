// Bounds the bytes that all sessions of a server hold together: messages that have arrived and that the
// server's user has not received yet, and messages that were sent and that the peer's user has not received yet.
//
//     |<── half: the sessions that ask first ──>|<─ half: max_sessions equal shares ─>|
//
// A session that holds less than its share can always take bytes up to its share. So a session that holds much
// cannot stop the others, and all sessions together never hold more than `bytes`.
//
// Threads: thread-safe.
#ifndef DING_WORKER_INTERACTION_CONTROL_SESSION_BUDGET_H_
#define DING_WORKER_INTERACTION_CONTROL_SESSION_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace ding {

// The budget of a WorkerServer.
inline constexpr int64_t kServerSessionBytes = int64_t{256} << 20;

class SessionBudget {
 public:
  // `max_sessions`, the largest number of sessions at a time, is at least 1.
  SessionBudget(int64_t bytes, int max_sessions)
      : bytes_(bytes), share_(bytes / 2 / max_sessions) {}
  SessionBudget(const SessionBudget&) = delete;
  SessionBudget& operator=(const SessionBudget&) = delete;

  // Takes `bytes` for a session that already holds `held` bytes. Returns false, and takes nothing, if the session
  // may not have them.
  bool Take(int64_t held, int64_t bytes) {
    const int64_t taken = taken_.fetch_add(bytes) + bytes;
    if (taken <= bytes_ / 2 || held + bytes <= share_) return true;
    taken_.fetch_sub(bytes);
    return false;
  }
  // Gives back bytes that a session took.
  void Return(int64_t bytes) { taken_.fetch_sub(bytes); }

  int64_t bytes() const { return bytes_; }
  int64_t taken() const { return taken_.load(); }

 private:
  const int64_t bytes_;
  const int64_t share_;
  std::atomic<int64_t> taken_{0};
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_BUDGET_H_
