// Starts Python interpreters that run envs for the managers with sub-processes. An interpreter runs
// env_process.py, which this program carries, in the place of RunEnvProcess():
//
//     manager ──request in ProcessMemory, futex──► env_process.py ──► reset(), step() of its envs
//         ◄──rows (numpy views of the same memory), answer, futex──┘
//
// Ownership: values; a process gets copies.
// Threads:   thread-safe; the function that RunPython() returns is called in a forked process only.
// Errors:    the message of an error in the env's code is its Python traceback.
#ifndef DING_WORKER_ENV_GYMNASIUM_PYTHON_PROGRAM_H_
#define DING_WORKER_ENV_GYMNASIUM_PYTHON_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/process/env_process_pool.h"

namespace ding {

// The interface of the env's class.
enum class PythonInterface {
  kGymnasium,   // one player
  kPettingZoo,  // PettingZoo's ParallelEnv: a game of at least 2 players
};

// An env of Python whose spec is known.
struct PythonEnv {
  GymnasiumConfig config;
  PythonInterface interface = PythonInterface::kGymnasium;
  EnvConfig around;  // its use, and its wrappers
  EnvSpec spec;
  std::string layout;  // JSON of env_process.py: its spaces, which must not change
  std::vector<GoalReward> goal_rewards;  // what its compute_reward() says, without wrappers
};

// kInvalidArgument with all problems of the config that can be found without Python.
absl::Status CheckGymnasiumConfig(const GymnasiumConfig& config, PythonInterface interface);

// Builds the env in a process of its own, which then ends, resets it, and returns its spec. Equal
// configs are probed once per process. From `around` it reads the use, and the fields that wrappers
// leave out: these may have spaces that this project does not know.
//   kInvalidArgument     the config, or a space that this project does not support
//   kNotFound            there is no such module or class
//   kFailedPrecondition  the interpreter has no numpy or gymnasium
//   kDeadlineExceeded    the env was not built within `timeout`
//   kUnavailable         there is no such interpreter, its process died before, or the system
//                        refuses processes
//   kInternal            the env's code failed; with the traceback
absl::StatusOr<PythonEnv> ProbePythonEnv(const GymnasiumConfig& config, PythonInterface interface,
                                         const EnvConfig& around, absl::Duration timeout);

// Replaces a process by the interpreter, which runs the envs of this process. `notify_each`: the
// interpreter wakes the manager after each answer, and not only when all asked envs have answered.
EnvProcessPool::Run RunPython(const PythonEnv& env, bool notify_each);

}  // namespace ding

#endif  // DING_WORKER_ENV_GYMNASIUM_PYTHON_PROGRAM_H_
