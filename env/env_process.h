// What a process does that runs envs for a manager: waits for requests in the shared memory, calls
// its envs and answers, until it is told to leave or dies.
#ifndef DING_WORKER_ENV_ENV_PROCESS_H_
#define DING_WORKER_ENV_ENV_PROCESS_H_

#include <cstdint>
#include <vector>

#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process_memory.h"

namespace ding {

// Exit codes of its own; others are the env's.
inline constexpr int kMemoryExitCode = 201;

struct EnvProcessOptions {
  int process = 0;           // in `memory`
  std::vector<int> env_ids;  // those that it runs
  const EnvSpec* spec = nullptr;
  const std::vector<EnvFactory>* factories = nullptr;  // of all envs
  const EnvRetryOptions* retry = nullptr;
  ProcessMemory* memory = nullptr;
  int64_t memory_limit_mb = 0;
  bool crowded = false;  // more processes than cores
};

// Returns the exit code.
int RunEnvProcess(const EnvProcessOptions& options);

// Limits what this process may allocate from now on; beyond that it exits with kMemoryExitCode.
void LimitMemory(int64_t megabytes);

// Wakes the parent: `count` more envs have answered.
void NotifyAnswer(ProcessMemory::Manager* manager);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_PROCESS_H_
