// An env that takes its process down with it, hangs, eats memory or burns time, at a given step:
// for tests of what runs envs in processes of their own, and of programs.
// (env/testing/scripted_env.h fails in ways that a process survives, and keeps a log that only one
// process can read.)
//
// What it shows can be computed by a test: "obs" float32[2] is {step of the episode, last action
// (-1 after a reset)}. Two actions, which do nothing; the reward is 1.
//
// Registered as "chaos", with the parameters of env/testing/chaos.proto. A reset can say otherwise,
// with the names of the numbers there: "fault", "at_step", "burn_us", ...
//
// Threads: as Env.
//
// Example:
//   ChaosConfig config;
//   config.set_fault(ChaosConfig::SEGFAULT);
//   config.set_at_step(3);
//   config.set_last_words("the bridge is out");
//   DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Env> env, CreateChaosEnv(config));
#ifndef DING_WORKER_ENV_TESTING_CHAOS_ENV_H_
#define DING_WORKER_ENV_TESTING_CHAOS_ENV_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/chaos.pb.h"

namespace ding {

// kInvalidArgument names a value that is out of range.
absl::StatusOr<std::unique_ptr<Env>> CreateChaosEnv(const ChaosConfig& config);

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_CHAOS_ENV_H_
