// One environment: the class that a user of this project writes. GameSpec() and the functions after
// it are for envs with several players.
//
// An episode must be a function of its seed and its actions: Reset() derives all randomness from
// the seed that it gets, so that a run can be repeated and resumed. The env writes observations
// into a row that the env manager provides, so that a step allocates and copies nothing.
//
// Ownership: an Env belongs to one env manager. A row is valid during the call only.
// Threads:   one call at a time, not always from the same thread.
// Errors:    an error Status or an exception means that the step or reset failed. The manager
//            retries as configured, then reports the env by its number. NaN and infinity in
//            observations and rewards are reported in the same way, but a step is not retried.
//
// Example: examples/custom_env is a complete env in 60 lines.
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
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

struct EnvSpec {
  std::string name;  // "CartPole-v1"
  // One field "obs", or several "obs/<name>"; float64 is refused: convert to float32 in the env. A
  // field "obs/action_mask" (bool, one element per category) says which actions are legal: policies
  // choose legal actions only, and the manager refuses any other action.
  SpecPtr observation;
  SpecPtr action;  // one field "action": Discrete, MultiDiscrete, or Box with bounds
  // Above 1 the env is a game: all players act in every step, and may have different observations
  // and actions. GameSpec() names the fields.
  int players = 1;
  // {}: the reward of a step is one number. {R}: it has R components
  // (StepResult::reward_components), for multi-objective algorithms; others refuse it. The env must
  // have one player.
  Shape reward_shape;
  // Further fields of each step, "info/<name>", of any type and shape, which Step() writes to
  // StepResult::info_row; null: none. They become columns of the collected rows. The last value of
  // an episode, if it is a single number, becomes a metric. In a game all players get the same.
  SpecPtr info;
  // The range of the reward of one step, or of each of its components.
  double reward_low = -std::numeric_limits<double>::infinity();
  double reward_high = std::numeric_limits<double>::infinity();
  // The number of steps after which the env truncates an episode; 0: no limit.
  int64_t max_episode_steps = 0;

  // R of reward_shape {R}; 0 if the reward is one number.
  int64_t reward_components() const { return reward_shape.empty() ? 0 : reward_shape[0]; }
};

// How an episode begins.
struct EpisodeStart {
  uint64_t seed = 0;
  NamedValues params;  // the parameters configured for this env; empty in most runs
};

// The values of EnvSpec::info in one step: the fields one after the other, each row-major.
class InfoRow {
 public:
  // Makes room for the fields of `spec`, filled with zeros; null: there are none.
  void Clear(const SpecPtr& spec);

  const SpecPtr& spec() const { return spec_; }
  // Returns the elements of field `index`. Throws std::invalid_argument unless T is the field's
  // type.
  template <typename T>
  absl::Span<T> field(int index) {
    internal_data::CheckType<T>(*spec_, index);
    return {reinterpret_cast<T*>(bytes().data() + Offset(*spec_, index)),
            static_cast<size_t>(spec_->row_bytes(index)) / sizeof(T)};
  }
  // All fields, for copies. Each begins at a multiple of 8 bytes.
  absl::Span<char> bytes() {
    return {reinterpret_cast<char*>(words_.data()), words_.size() * sizeof(uint64_t)};
  }
  // Where field `index` begins in bytes(), whose size is Offset(spec, spec.size()).
  static int64_t Offset(const Spec& spec, int index);

 private:
  SpecPtr spec_;
  std::vector<uint64_t> words_;
};

// The name in StepResult::info by which an env reports the return of its episode.
inline constexpr char kEpisodeReturn[] = "eval_episode_return";

// How the episode of one player of a game ended, if it did in this step.
enum class PlayerEnd : uint8_t { kNone = 0, kTerminated = 1, kTruncated = 2 };

struct StepResult {
  float reward = 0;  // in a game, the reward of player 0
  // [R], if the spec has a reward_shape {R}; the manager passes it filled with zeros. `reward` must
  // then stay 0.
  std::vector<float> reward_components;
  // In a game, the rewards of players 1, 2, ...; the manager passes it filled with zeros.
  std::vector<float> other_rewards;
  // In a game, the end of each player; the manager passes it filled with kNone. If a player is out
  // before the others, set its end in the step with its last reward and observation. From then on
  // the env must not read its action, and its reward must be 0. When all players are out, the game
  // is over. In the last step of the game, set it for players that end differently from the game.
  std::vector<PlayerEnd> player_ends;
  // The episode ended in a terminal state (the pole fell).
  bool terminated = false;
  // The episode was cut off (time limit): its last observation has a bootstrap value. If both are
  // set, the episode is terminated.
  bool truncated = false;
  // The env noticed that the step went wrong: the manager discards the step and its episode and
  // resets the env.
  bool abnormal = false;
  // Set at the end of an episode: values to average over episodes. "eval_episode_return", if set,
  // replaces the sum of rewards (of player 0, or of all components): an env that shapes its rewards
  // reports the true return here.
  NamedValues info;
  // The values of EnvSpec::info of this step; the manager passes it filled with zeros.
  InfoRow info_row;
  // The returns of the reward components. Set at the end of an episode, by an env that combines
  // its components into one reward.
  std::vector<double> component_returns;
};

class Env {
 public:
  virtual ~Env() = default;

  // Never changes.
  virtual const EnvSpec& spec() const = 0;

  // Begins an episode and writes its first observation to `obs` (spec().observation).
  virtual absl::Status Reset(const EpisodeStart& start, const RowRef& obs) = 0;

  // Takes one step. `action` is a row of spec().action that was checked to be legal. Writes the
  // observation after the step to `obs`, also at the end of an episode. `result` has its defaults.
  virtual absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) = 0;

  // Saves and loads the state within an episode, for exact resume. Optional: without them an env
  // begins a new episode after a resume.
  virtual absl::Status SaveState(StateWriter* writer) const;
  virtual absl::Status LoadState(StateReader* reader);

  // Returns a picture of the current state. Optional.
  virtual absl::StatusOr<Image> Render();
};

// Creates an env; a manager calls it once per env, and again when it renews an env.
using EnvFactory = std::function<absl::StatusOr<std::unique_ptr<Env>>()>;

// Returns the index of the first observation field of `player`; its other fields follow.
int FirstObsField(const EnvSpec& spec, int player);

// Returns the index of the observation field with the action mask of `player`, or -1.
int ActionMaskField(const EnvSpec& spec, int player = 0);

// Returns kInvalidArgument, with what is wrong, if this project does not support the spec.
absl::Status ValidateEnvSpec(const EnvSpec& spec);

// Returns kInternal unless the result of a step has the number of components in the spec's
// reward_shape and, if there are any, `reward` is 0.
absl::Status CheckRewardComponents(const EnvSpec& spec, const StepResult& result);
// Returns kInternal unless the result of a step has an end for each player of a game.
absl::Status CheckPlayerEnds(const EnvSpec& spec, const StepResult& result);
// Returns kInternal, with the field, what was found and what was expected, unless the result of a
// step has the fields of EnvSpec::info.
absl::Status CheckInfoRow(const EnvSpec& spec, const StepResult& result);

// Returns the spec of a game of `players` players with the spaces of `player`. kInvalidArgument if
// `player` is not valid or `players` is below 2.
//
// Games are envs whose players all act in every step. Each player has an observation and an action.
// In most games all players have the same spec, so that one policy can play any of them. In an
// asymmetric game the specs differ, so that each player needs its own policy. In a game of turns, a
// waiting player has exactly one legal action (a mask with a single 1).
//
//     what one player sees      the env's fields, for 2 players
//     obs/board                 obs/0/board, obs/0/action_mask, obs/1/board, obs/1/action_mask
//     obs/action_mask
//     action                    action/0, action/1
//
// The fields of a player are adjacent, so that a player's observation is a view of the env's
// columns, without a copy.
//
// Example (in the constructor of a game):
//   DING_ASSIGN_OR_RETURN(spec_, GameSpec(one_player, /*players=*/2));
//   DING_ASSIGN_OR_RETURN(spec_, GameSpec({pursuer, evader}));  // asymmetric
absl::StatusOr<EnvSpec> GameSpec(const EnvSpec& player, int players);
// Returns the spec of a game of these players. Its name, range of rewards and max_episode_steps
// come from the first player. kInvalidArgument as above.
absl::StatusOr<EnvSpec> GameSpec(const std::vector<EnvSpec>& players);

// Returns the spec of one player of `game`, which must be valid; for a single-player env, its spec.
// Defaults to player 0. In games that pass CheckSamePlayers() all players share it.
EnvSpec PlayerSpec(const EnvSpec& game, int player = 0);

// OK if the players `first`, first + 1, ... have observations and actions of the same names, types
// and shapes, so that one policy can play all of them. Else kInvalidArgument lists the differences.
// Bounds may differ. OK for a single-player env.
absl::Status CheckSamePlayers(const EnvSpec& game, int first = 0);

// Returns the view of a player of the env's observations `obs`. `player_obs`, the observation of
// its PlayerSpec(), must outlive the view; `first_field` is FirstObsField().
inline ColumnsView PlayerObs(const ColumnsView& obs, const Spec* player_obs, int first_field) {
  return obs.Fields(player_obs, first_field);
}

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_H_
