// The bytes that all sessions of a server may hold together: messages that came and were not received
// by the server's user, and messages that were sent and not received by the peer's user.
//
//     |<──────── half: whoever comes first ────────>|<─ half: max_sessions equal shares ─>|
//
// A session that holds less than its share always gets more. So one that holds much cannot keep the
// others from going on, and all together never hold more than `bytes`.
//
// Threads: thread-safe.
#ifndef DING_WORKER_INTERACTION_SESSION_BUDGET_H_
#define DING_WORKER_INTERACTION_SESSION_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace ding {

// The budget of a WorkerServer.
inline constexpr int64_t kServerSessionBytes = int64_t{256} << 20;

class SessionBudget {
 public:
  SessionBudget(int64_t bytes, int max_sessions)
      : bytes_(bytes), share_(bytes / 2 / max_sessions) {}
  SessionBudget(const SessionBudget&) = delete;
  SessionBudget& operator=(const SessionBudget&) = delete;

  // For a session that holds `held` bytes; false: it does not get `bytes` more.
  bool Take(int64_t held, int64_t bytes) {
    const int64_t taken = taken_.fetch_add(bytes) + bytes;
    if (taken <= bytes_ / 2 || held + bytes <= share_) return true;
    taken_.fetch_sub(bytes);
    return false;
  }
  void Return(int64_t bytes) { taken_.fetch_sub(bytes); }

  int64_t bytes() const { return bytes_; }
  int64_t taken() const { return taken_.load(); }

 private:
  const int64_t bytes_;
  const int64_t share_;
  std::atomic<int64_t> taken_{0};
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_SESSION_BUDGET_H_
