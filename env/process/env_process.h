// The main loop of a process that runs envs for a manager (RunEnvProcess): it waits for requests in
// the shared memory (ProcessMemory), calls its envs and writes their answers there, until the
// manager tells it to leave. WhyProcessEnded() says how such a process ended.
//
//   manager ──request in ProcessMemory──► RunEnvProcess ──► EnvHost ──► env
//       ◄──────answer, NotifyAnswer()─────────┘
//
// Ownership: the parent maps the memory before it forks a child and unmaps it after the last child
//            has ended. The objects to which the options point must outlive RunEnvProcess().
// Threads:   call RunEnvProcess() and LimitMemory() in the child process only, on its one thread.
//            The other functions are thread-safe, also across processes.
// Errors:    errors of an env are part of its answer. If the process dies, the manager sees its
//            exit code or signal, which WhyProcessEnded() describes.
#ifndef DING_WORKER_ENV_PROCESS_ENV_PROCESS_H_
#define DING_WORKER_ENV_PROCESS_ENV_PROCESS_H_

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process/fork_server.h"

namespace ding {

// Sleeps while *word == value, at most `timeout`; may wake earlier. Works across processes.
void FutexWait(std::atomic<uint32_t>* word, uint32_t value, absl::Duration timeout);
void FutexWake(std::atomic<uint32_t>* word);

// The default time for which SpinUntil() spins.
inline constexpr int64_t kSpinNanos = 50'000;
inline constexpr int64_t kCrowdedSpinNanos = 20'000;

// Spins until `done` returns true, for about as long as going to sleep and waking up takes; returns
// false if it never did. `crowded`: more threads spin than there are cores, so each yields its
// core. `nanos`: the time to spin.
template <typename Done>
bool SpinUntil(const Done& done, bool crowded, int64_t nanos = 0) {
  if (done()) return true;
  if (nanos == 0) nanos = crowded ? kCrowdedSpinNanos : kSpinNanos;
  const int64_t end = Clock::Real()->MonotonicNanos() + nanos;
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

// The memory that a manager of sub-processes shares with them, and how both sides wait in it.
//
//   asking      the parent writes the request, sets env.turn = kAsked, increments process.requests
//               and wakes the process
//   answering   the child writes the answer, sets env.turn = kAnswered and increments `answered`;
//               when that reaches wake_at, it increments `event` and wakes the parent
//
// A side that waits spins for a while before it sleeps (futex). It sets `sleeping` before it
// sleeps, so that the other side makes no needless system call. All operations are sequentially
// consistent: either the sleeper sees the new value, or the other side sees that it sleeps.
class ProcessMemory {
 public:
  enum Turn : uint32_t { kIdle, kAsked, kAnswered };
  // The preparation of an env's next episode. kPreparing: the step is complete except for its turn,
  // and the env is resetting.
  enum Next : uint32_t { kNotPrepared, kWanted, kPrepared, kPreparing };

  struct alignas(64) Manager {
    std::atomic<uint32_t> answered{0};
    std::atomic<uint32_t> wake_at{0};
    std::atomic<uint32_t> sleeping{0};
    std::atomic<uint32_t> event{0};  // the futex of the parent
  };
  struct alignas(64) Process {
    std::atomic<uint32_t> requests{0};  // the futex of the child
    std::atomic<uint32_t> sleeping{0};
    std::atomic<uint32_t> leave{0};
    // The progress of the process: a counter of attempts, the call and the env.
    std::atomic<uint32_t> progress{0};
    std::atomic<uint32_t> call{0};
    std::atomic<int32_t> env_id{-1};
    // The attempts of the current or last reset, including those of earlier processes.
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
    // Request or answer: the size of message() in bytes, 0 if there is none.
    int64_t message_size = 0;
    // The start of the next episode, sent in advance (EnvWorkers::PrepareReset). If possible, the
    // process resets the env as soon as an episode is over, and writes the observation to
    // next_rows() before it answers the step.
    uint64_t next_seed = 0;
    std::atomic<uint32_t> next{kNotPrepared};
  };

  // kUnavailable if the system has not enough memory.
  static absl::StatusOr<std::unique_ptr<ProcessMemory>> Create(const EnvSpec& spec, int env_num,
                                                               int process_num);
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;
  ~ProcessMemory();

  Manager& manager() { return *manager_; }
  Process& process(int i) { return processes_[i]; }
  Env& env(int i) { return envs_[i]; }
  // The rewards of players 1, 2, ... of env i, and the components of its reward.
  float* other_rewards(int i) { return more_rewards_ + i * MoreRewards(spec_); }
  float* reward_components(int i) { return other_rewards(i) + spec_.players - 1; }
  // In a game, StepResult::player_ends of env i.
  PlayerEnd* player_ends(int i) { return player_ends_ + int64_t{i} * spec_.players; }
  // InfoRow::bytes() of env i.
  char* info(int i) { return info_rows_ + i * info_bytes_; }
  MutableColumnsView rows() const {
    return {spec_.observation.get(), row_columns_.data(), 0, env_num_};
  }
  MutableColumnsView next_rows() const {
    return {spec_.observation.get(), next_columns_.data(), 0, env_num_};
  }
  MutableColumnsView actions() const {
    return {spec_.action.get(), action_columns_.data(), 0, env_num_};
  }

  // For a program that maps the memory itself: the file of the memory (close-on-exec by default),
  // its size, and the offset of `part` in it.
  int fd() const { return fd_; }
  size_t bytes() const { return bytes_; }
  int64_t OffsetOf(const void* part) const { return static_cast<const std::byte*>(part) - memory_; }
  const std::byte* message_area(int i) const { return messages_ + i * kMessageBytes; }

  // Leaves `bytes` for the other side of env i; returns false if they exceed kMessageBytes.
  bool PutMessage(int i, absl::string_view bytes);
  absl::string_view message(int i) const;

  static constexpr int64_t kMessageBytes = int64_t{16} << 20;

 private:
  // The rewards of an env that are not in Env::reward.
  static int64_t MoreRewards(const EnvSpec& spec) {
    return spec.players - 1 + spec.reward_components();
  }

  ProcessMemory(const EnvSpec& spec, int env_num) : spec_(spec), env_num_(env_num) {}

  const EnvSpec spec_;
  const int64_t env_num_;
  int fd_ = -1;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  Manager* manager_ = nullptr;
  Process* processes_ = nullptr;
  Env* envs_ = nullptr;
  float* more_rewards_ = nullptr;     // [env_num, MoreRewards()]
  PlayerEnd* player_ends_ = nullptr;  // [env_num, players]
  int64_t info_bytes_ = 0;            // of an env
  char* info_rows_ = nullptr;         // [env_num, info_bytes_]
  std::vector<std::byte*> row_columns_;
  std::vector<std::byte*> next_columns_;
  std::vector<std::byte*> action_columns_;
  std::byte* messages_ = nullptr;
};

// The exit code of a process that passed its memory limit. Other codes, except 0, come from an env.
inline constexpr int kMemoryExitCode = 201;

struct EnvProcessOptions {
  int process = 0;           // its index in `memory`
  std::vector<int> env_ids;  // the envs that it runs
  const EnvSpec* spec = nullptr;
  const std::vector<EnvFactory>* factories = nullptr;  // of all envs; RunEnvProcess() needs them
  const EnvRetryOptions* retry = nullptr;
  ProcessMemory* memory = nullptr;
  int64_t memory_limit_mb = 0;  // 0: no limit
  bool crowded = false;         // whether these processes and their parent outnumber the cores
};

// Serves requests until the manager ends the process. Returns the exit code of the process.
int RunEnvProcess(const EnvProcessOptions& options);

// Limits how much memory this process may allocate from now on. If C++ code passes the limit, the
// process exits with kMemoryExitCode.
void LimitMemory(int64_t megabytes);

// Counts one more answer, and wakes the parent if it sleeps and as many envs as it waits for have
// answered.
void NotifyAnswer(ProcessMemory::Manager* manager);

// Returns an error that says why `child`, which ran envs, has ended, with the last 5 lines that it
// wrote to stderr. `kill_cause` is why the manager killed it, or OK.
//   kResourceExhausted  the child passed memory_limit_mb
//   kUnavailable        it exited, or something other than the manager killed it
//   other               the code of `kill_cause`
absl::Status WhyProcessEnded(const ForkServer& server, int child, int64_t memory_limit_mb,
                             const absl::Status& kill_cause);

}  // namespace ding

#endif  // DING_WORKER_ENV_PROCESS_ENV_PROCESS_H_
