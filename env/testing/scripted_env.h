// An env that does as it is told: fails, throws, breaks its numbers or calls itself abnormal at
// given calls, and notes what was done to it. For tests of env managers and of what stands on them.
//
// What it shows can be computed by a test: the observation "obs" float32[3] is {episode, step of
// the episode, last action (-1 after a reset)}, where episode counts the resets of its factory from
// 1; the reward is `reward`, and an episode ends after `episode_length` steps.
//
// Ownership: script and log are shared by the test and by all envs of one factory, also by renewed
// ones: "the 3rd step" is the third of all of them. The log lies in memory that forked processes
// share: what an env does in a child is seen here.
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

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

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

// The last kKept episodes that were asked for, in plain memory: with at most 4 parameters, whose
// names are cut off after 23 letters.
class ScriptedEnvStarts {
 public:
  static constexpr int64_t kKept = 128;

  void push_back(const EpisodeStart& start);
  int64_t size() const { return size_; }
  // Start `index` of all that there were; one that is kept.
  EpisodeStart operator[](int64_t index) const;
  EpisodeStart back() const { return (*this)[size_ - 1]; }

 private:
  struct Item {
    uint64_t seed;
    int num_params;
    char names[4][24];
    double values[4];
  };
  int64_t size_ = 0;
  Item items_[kKept];
};

// What was done to the envs of one factory.
struct ScriptedEnvLog {
  int built = 0;
  int alive = 0;
  int64_t resets = 0;  // calls, also those that failed
  int64_t steps = 0;
  ScriptedEnvStarts starts;  // of all resets
};

// What envs are told to do.
struct ScriptedEnvOrders {
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
};

struct ScriptedEnvScript : ScriptedEnvOrders {
  ScriptedEnvScript();
  // With a log of its own that begins as a copy.
  ScriptedEnvScript(const ScriptedEnvScript& other);
  ScriptedEnvScript& operator=(const ScriptedEnvScript&) = delete;
  ~ScriptedEnvScript();

  ScriptedEnvLog& log;
  // While set, steps or resets wait before they do anything; the envs of other scripts go on.
  std::atomic<bool>& hold_steps;
  std::atomic<bool>& hold_resets;

 private:
  struct Shared;
  explicit ScriptedEnvScript(Shared* shared);

  Shared* const shared_;
};

EnvFactory ScriptedEnvFactory(std::shared_ptr<ScriptedEnvScript> script);

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_SCRIPTED_ENV_H_
