// An env that follows a script: at given calls it fails, throws, writes NaN or reports an abnormal
// step, and it logs all calls. For tests of env managers and of code that uses them.
//
// A test can compute its outputs: the observation "obs" float32[3] is {episode, step of the
// episode, last action (-1 after a reset)}, where `episode` counts the resets of its factory from
// 1; the reward is `reward`, and an episode ends after `episode_length` steps.
//
// Ownership: the test and all envs of one factory, also renewed ones, share script and log: "the
// 3rd step" counts over all of them. The log is in memory that forked processes share, so the test
// sees the calls of an env in a child.
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

// The last kKept starts of episodes, in plain memory: each with at most 4 parameters, whose names
// are cut after 23 letters.
class ScriptedEnvStarts {
 public:
  static constexpr int64_t kKept = 128;

  void push_back(const EpisodeStart& start);
  int64_t size() const { return size_; }
  // Returns start `index` of all starts; it must be one of the last kKept.
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

// The calls of the envs of one factory.
struct ScriptedEnvLog {
  int built = 0;
  int alive = 0;
  int64_t resets = 0;  // calls, including failed ones
  int64_t steps = 0;
  ScriptedEnvStarts starts;  // the starts of all resets
};

// The orders that the envs follow.
struct ScriptedEnvOrders {
  // The fault of the n-th call, counted from 1 over all envs of the factory.
  std::map<int64_t, EnvFault> on_build;  // the factory returns the error or throws
  std::map<int64_t, EnvFault> on_reset;
  std::map<int64_t, EnvFault> on_step;
  // The fault of every call that has none in the maps above.
  std::optional<EnvFault> on_every_reset;
  std::optional<EnvFault> on_every_step;

  int64_t episode_length = 5;
  bool truncate = false;  // whether an episode is truncated; else it terminates
  float reward = 1;
  NamedValues info;  // reported at the end of an episode
  int64_t action_count = 2;
  bool can_save = true;
};

struct ScriptedEnvScript : ScriptedEnvOrders {
  ScriptedEnvScript();
  // The copy has its own log, which begins with the content of the copied log.
  ScriptedEnvScript(const ScriptedEnvScript& other);
  ScriptedEnvScript& operator=(const ScriptedEnvScript&) = delete;
  ~ScriptedEnvScript();

  ScriptedEnvLog& log;
  // While set, steps or resets block before they do anything; envs of other scripts are not
  // affected.
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
