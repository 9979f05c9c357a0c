// An env that does as it is told: fails, throws, breaks its numbers or calls itself abnormal at
// given calls, and notes what was done to it. For tests of env managers and of what stands on them.
//
// What it shows can be computed by a test: the observation "obs" float32[3] is {episode, step of
// the episode, last action (-1 after a reset)}, where episode counts the resets of its factory from
// 1; the reward is `reward`, and an episode ends after `episode_length` steps.
//
// Ownership: script and log are shared by the test and by all envs of one factory, also by renewed
// ones: "the 3rd step" is the third of all of them.
// Threads:   thread-compatible.
//
// Example:
//   auto script = std::make_shared<ScriptedEnvScript>();
//   script->on_step[3] = EnvFault::kThrow;
//   std::vector<EnvFactory> factories = {ScriptedEnvFactory(script)};
//   ...
//   EXPECT_EQ(script->log.built, 2);
#ifndef DING_WORKER_ENV_TESTING_SCRIPTED_ENV_H_
#define DING_WORKER_ENV_TESTING_SCRIPTED_ENV_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ding_worker/data/named_values.h"
#include "ding_worker/env/env.h"

namespace ding {

enum class EnvFault {
  kError,           // returns a Status: "scripted error"
  kThrow,           // throws a std::runtime_error: "scripted exception"
  kThrowOther,      // throws an int
  kNanObservation,  // writes NaN to the second element
  kInfReward,       // steps only
  kAbnormal,        // steps only
};

// What was done to the envs of one factory.
struct ScriptedEnvLog {
  int built = 0;
  int alive = 0;
  int64_t resets = 0;  // calls, also those that failed
  int64_t steps = 0;
  std::vector<EpisodeStart> starts;  // of all resets
};

struct ScriptedEnvScript {
  // Faults of the n-th call, counted from 1 over all envs of the factory.
  std::map<int64_t, EnvFault> on_build;  // the factory returns the error or throws
  std::map<int64_t, EnvFault> on_reset;
  std::map<int64_t, EnvFault> on_step;
  // Faults of every call that has none of its own.
  std::optional<EnvFault> on_every_reset;
  std::optional<EnvFault> on_every_step;

  int64_t episode_length = 5;
  bool truncate = false;  // how an episode ends; else it terminates
  float reward = 1;
  NamedValues info;  // at the end of an episode
  int64_t action_count = 2;
  bool can_save = true;

  ScriptedEnvLog log;
};

EnvFactory ScriptedEnvFactory(std::shared_ptr<ScriptedEnvScript> script);

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_SCRIPTED_ENV_H_
