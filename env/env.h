// One environment: the class that a user of this project writes.
//
// An episode is a function of its seed and its actions: Reset() draws everything random from the
// seed that it is given, so that a run can be repeated and resumed. Observations are written in
// place, into a row that the env manager lends: nothing is allocated or copied per step.
//
// Ownership: an Env belongs to one env manager. Rows are lent for the length of the call.
// Threads:   one call at a time, not always from the same thread.
// Errors:    a Status other than OK, or an exception, means that the step or reset failed; the
//            manager retries as it is configured to, then reports the env by its number. A value
//            that is not finite is reported the same way.
//
// Example: examples/custom_env shows a whole one in 60 lines.
//   absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
//     x_ += action.scalar<int64_t>(0) == 1 ? 0.1f : -0.1f;
//     obs.field<float>(0)[0] = x_;
//     result->reward = -std::abs(x_);
//     result->terminated = std::abs(x_) > 1;
//     return absl::OkStatus();
//   }
#ifndef DING_WORKER_ENV_ENV_H_
#define DING_WORKER_ENV_ENV_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

struct EnvSpec {
  std::string name;  // "CartPole-v1"
  // One field "obs", or several "obs/<name>"; never float64: narrow at the border. A field
  // "obs/action_mask" (bool, one element per category) says which actions are legal: policies obey
  // it, and any other action is an error.
  SpecPtr observation;
  SpecPtr action;  // one field "action": Discrete, MultiDiscrete, or Box with bounds
  // Above 1: a game, whose players all act in every step; its fields are named as
  // env/game_spec.h says.
  int players = 1;
  // Legal rewards of one step.
  double reward_low = -std::numeric_limits<double>::infinity();
  double reward_high = std::numeric_limits<double>::infinity();
  // After so many steps an episode is truncated (by the env itself); 0: no limit.
  int64_t max_episode_steps = 0;
};

// How an episode begins.
struct EpisodeStart {
  uint64_t seed = 0;
  NamedValues params;  // as configured for this env; empty in most runs
};

struct StepResult {
  float reward = 0;  // of a game: of player 0
  // Of a game: the rewards of players 1, 2, ...; arrives with that many zeros.
  std::vector<float> other_rewards;
  // The episode is over and nothing follows (the pole fell).
  bool terminated = false;
  // The episode was cut off (time limit): values may still be bootstrapped from the observation. If
  // both are set, it is terminated.
  bool truncated = false;
  // The step went wrong in a way that the env itself noticed: it is thrown away with its episode,
  // and the env is reset.
  bool abnormal = false;
  // At the end of an episode: values worth averaging over episodes. "eval_episode_return", if set,
  // takes the place of the sum of rewards (an env that shapes its rewards reports the true return
  // here), of a game that of player 0.
  NamedValues info;
};

class Env {
 public:
  virtual ~Env() = default;

  // The same at all times.
  virtual const EnvSpec& spec() const = 0;

  // Begins an episode and writes its first observation to `obs` (spec().observation).
  virtual absl::Status Reset(const EpisodeStart& start, const RowRef& obs) = 0;

  // Takes one step. `action` is a row of spec().action, already checked to be legal. Writes the
  // observation after the step, also at the end of an episode. `result` arrives with its defaults.
  virtual absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) = 0;

  // The middle of an episode, for exact resume. An env that cannot is restarted with a new episode
  // on resume.
  virtual absl::Status SaveState(StateWriter* writer) const;
  virtual absl::Status LoadState(StateReader* reader);

  // The scene as it is now.
  virtual absl::StatusOr<Image> Render();
};

// Makes the envs of a manager; called once per env, and again when one is renewed.
using EnvFactory = std::function<absl::StatusOr<std::unique_ptr<Env>>()>;

// The index of the field that says which actions of `player` are legal, or -1.
int ActionMaskField(const EnvSpec& spec, int player = 0);

// OK if the spec is one that the rest of this project understands; else what is wrong with it.
absl::Status ValidateEnvSpec(const EnvSpec& spec);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_H_
