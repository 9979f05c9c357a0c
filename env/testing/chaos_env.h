// An env that crashes its process, hangs, takes memory or burns processor time at a given step, for
// tests of env managers with processes and of programs. (env/testing/scripted_env.h fails in ways
// that its process survives, and keeps a log.)
//
// A test can compute its outputs: "obs" float32[2] is {step of the episode, last action (-1 after a
// reset)}. Its two actions have no effect; the reward is 1.
//
// It is registered as "chaos" with the parameters of env/testing/chaos.proto. The parameters of a
// reset replace numbers of that config: "fault", "at_step", "burn_us", ...
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
