// The work of a process that runs envs for a manager: it waits for requests in the shared memory, calls
// its envs and writes their answers there, until the manager tells it to leave.
//
//   manager ──request in ProcessMemory──► RunEnvProcess ──► EnvHost ──► env
//       ◄──────answer, NotifyAnswer()─────────┘
//
// Ownership: the objects to which the options point must outlive RunEnvProcess().
// Threads:   call RunEnvProcess() and LimitMemory() in the child process only, on its one thread.
//            NotifyAnswer() is thread-safe, also across processes.
// Errors:    those of an env are part of its answer. If the process dies, the manager sees its exit
//            code or signal (process_end.h).
#ifndef DING_WORKER_ENV_ENV_PROCESS_H_
#define DING_WORKER_ENV_ENV_PROCESS_H_

#include <cstdint>
#include <vector>

#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process_memory.h"

namespace ding {

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

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_PROCESS_H_
