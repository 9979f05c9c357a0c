// The memory that a manager of sub-processes shares with them, and waiting in it.
//
//   asking      parent: writes the request, env.turn = kAsked, process.requests + 1, wakes it
//   answering   child: writes the answer, env.turn = kAnswered, answered + 1; if that reaches
//               wake_at: event + 1, wakes the parent
//
// Whoever waits looks for a while before it sleeps (futex), and says so in `sleeping`, so that
// nobody wakes who is awake. All of it is ordered by sequentially consistent operations: either the
// sleeper sees the new value, or the other side sees that it sleeps.
//
// Ownership: the parent maps it before any child is forked and unmaps it after the last has ended.
#ifndef DING_WORKER_ENV_PROCESS_MEMORY_H_
#define DING_WORKER_ENV_PROCESS_MEMORY_H_

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"

namespace ding {

// Sleeps while *word == value, at most `timeout`; may wake earlier. Across processes.
void FutexWait(std::atomic<uint32_t>* word, uint32_t value, absl::Duration timeout);
void FutexWake(std::atomic<uint32_t>* word);

// Calls `done` until it is true, for as long as sleeping and being woken takes; false if it never
// was. `crowded`: there are more who wait like this than cores, so give way to each other.
template <typename Done>
bool SpinUntil(const Done& done, bool crowded);

class ProcessMemory {
 public:
  enum Turn : uint32_t { kIdle, kAsked, kAnswered };

  struct alignas(64) Manager {
    std::atomic<uint32_t> answered{0};
    std::atomic<uint32_t> wake_at{0};
    std::atomic<uint32_t> sleeping{0};
    std::atomic<uint32_t> event{0};  // what the parent sleeps on
  };
  struct alignas(64) Process {
    std::atomic<uint32_t> requests{0};  // what the child sleeps on
    std::atomic<uint32_t> sleeping{0};
    std::atomic<uint32_t> leave{0};
    // What it is doing: a number that changes with every attempt, the call and the env.
    std::atomic<uint32_t> progress{0};
    std::atomic<uint32_t> call{0};
    std::atomic<int32_t> env_id{-1};
    // Begun at the reset that runs or ran last, those of earlier processes included.
    std::atomic<int32_t> attempts{0};
  };
  struct alignas(64) Env {
    std::atomic<uint32_t> turn{kIdle};
    // Request.
    uint32_t call = 0;
    int32_t attempts_made = 0;
    uint64_t seed = 0;
    // Answer.
    float reward = 0;
    uint8_t terminated = 0;
    uint8_t truncated = 0;
    uint8_t abnormal = 0;
    // Either: bytes of parcel(), 0 if there is none.
    int64_t parcel_size = 0;
  };

  // kUnavailable if the system has not that much.
  static absl::StatusOr<std::unique_ptr<ProcessMemory>> Create(const EnvSpec& spec, int env_num,
                                                               int process_num);
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;
  ~ProcessMemory();

  Manager& manager() { return *manager_; }
  Process& process(int i) { return processes_[i]; }
  Env& env(int i) { return envs_[i]; }
  // Of env i: rewards of players 1, 2, ...
  float* other_rewards(int i) { return other_rewards_ + i * (spec_.players - 1); }
  MutableColumnsView rows() const {
    return {spec_.observation.get(), row_columns_.data(), 0, env_num_};
  }
  MutableColumnsView actions() const {
    return {spec_.action.get(), action_columns_.data(), 0, env_num_};
  }

  // Leaves `bytes` for the other side of env i; false if they are too many.
  bool PutParcel(int i, absl::string_view bytes);
  absl::string_view parcel(int i) const;

  static constexpr int64_t kParcelBytes = int64_t{16} << 20;

 private:
  ProcessMemory(const EnvSpec& spec, int env_num) : spec_(spec), env_num_(env_num) {}

  const EnvSpec spec_;
  const int64_t env_num_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  Manager* manager_ = nullptr;
  Process* processes_ = nullptr;
  Env* envs_ = nullptr;
  float* other_rewards_ = nullptr;
  std::vector<std::byte*> row_columns_;
  std::vector<std::byte*> action_columns_;
  std::byte* parcels_ = nullptr;
};

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

inline constexpr int64_t kSpinNanos = 50'000;
inline constexpr int64_t kCrowdedSpinNanos = 20'000;

template <typename Done>
bool SpinUntil(const Done& done, bool crowded) {
  if (done()) return true;
  const int64_t end = Clock::Real()->MonotonicNanos() + (crowded ? kCrowdedSpinNanos : kSpinNanos);
  do {
    if (crowded) {
      sched_yield();
    } else {
      for (int i = 0; i < 16 && !done(); ++i) Pause();
    }
    if (done()) return true;
  } while (Clock::Real()->MonotonicNanos() < end);
  return false;
}

}  // namespace ding

#endif  // DING_WORKER_ENV_PROCESS_MEMORY_H_
