// Steps several envs together and returns their observations as columns.
//
// The manager owns one block with a row per env. An env writes each observation into its row, and
// ready_obs() is a view of these rows. When an episode ends, the manager copies its last
// observation to Timesteps::final_obs and resets the env, so that the row holds the first
// observation of the next episode:
//
//     ready_obs() ──► policy ──► Step(actions) ──► Timesteps { reward, ends, final_obs }
//         ▲                          │
//         └── rows written in place ─┘
//
// A manager with wait_num does not wait for all envs. Step() starts the given envs and returns when
// wait_num of the busy envs have answered. The others are outstanding: they are not in ready_obs(),
// cannot be stepped, and answer in a later call, which may be a Step() of no envs.
// Timesteps::env_ids lists the envs that answered. An env whose episode ended may be outstanding in
// kReset; it then becomes ready without a row in Timesteps. Reset() and LoadState() wait for their
// envs and drop the answers.
//
// Life of an env:
//     kVoid ──Launch──► kRun ──episode over──► kReset ──► kRun ...  ──episode_num reached──► kDone
//                         │        └─ auto_reset off ──► kNeedReset ──Reset──► kRun
//                         └─ failed beyond max_retry ──► kError
//
// Ownership: the manager owns its envs. Views are valid until the next call of a non-const method.
// Threads:   thread-compatible: one caller at a time. An implementation may use threads internally.
// Errors:    an error names the env by its number. After a failed Step() that env is in kError and
//            can be reset; after a failed reset the manager is closed.
#ifndef DING_WORKER_ENV_ENV_MANAGER_H_
#define DING_WORKER_ENV_ENV_MANAGER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

enum class EnvState : uint8_t {
  kVoid = 0,  // not launched, or closed
  kInit = 1,  // for managers that build envs after Launch() returned; ours do not
  kRun = 2,
  kReset = 3,
  kDone = 4,
  kError = 5,
  kNeedReset = 6,
};

absl::string_view EnvStateName(EnvState state);

// Observations of the envs that can be stepped: row i belongs to env_ids[i], which increase.
struct ReadyObs {
  absl::Span<const int> env_ids;
  ColumnsView obs;  // [env_ids.size(), ...]
};

// An episode that ended in this step.
struct FinishedEpisode {
  int row = 0;  // its row in Timesteps
  // The sum of rewards (of all their components), or the env's own "eval_episode_return".
  double episode_return = 0;
  std::vector<double> other_returns;  // in a game, the returns of players 1, 2, ...
  int64_t length = 0;                 // in steps
  // StepResult::info of the last step, and the single numbers of EnvSpec::info, by the env's names.
  NamedValues info;
  // The returns of the components, if the reward has components, even if `reward_weights` combines
  // them.
  std::vector<double> component_returns;
};

// A player of a game that ended in this step: before the game, or in its last step differently from
// the game (StepResult::player_ends).
struct EndedPlayer {
  int row = 0;  // its row in Timesteps
  int player = 0;
  bool terminated = false;  // else truncated
};

// Why a step is abnormal, if the env did not report it itself: the env failed and was renewed, or
// its process died or did not answer in time.
struct AbnormalCause {
  int row = 0;         // its row in Timesteps
  absl::Status cause;  // names the env
};

// The results of N steps. The spans per env have N elements, in the order in which Step() got the
// env ids. A manager that does not wait for all envs returns the envs that answered, by increasing
// id.
struct Timesteps {
  absl::Span<const int> env_ids;
  // In a game, of player 0. If the reward has several components, their sum.
  absl::Span<const float> reward;
  absl::Span<const float> reward_components;  // [N, R]: if the reward has R components; else empty
  absl::Span<const float> other_rewards;      // [N, players - 1]: in a game, of players 1, 2, ...
  ColumnsView info;                           // [N, ...]: the fields of EnvSpec::info
  absl::Span<const uint8_t> terminated;
  absl::Span<const uint8_t> truncated;
  // 1: the step is void. Drop it and the episode so far; the env has been reset.
  absl::Span<const uint8_t> abnormal;
  absl::Span<const AbnormalCause> causes;      // for those abnormal steps whose cause is known
  absl::Span<const FinishedEpisode> finished;  // by increasing `row`
  ColumnsView final_obs;  // [finished.size(), ...]: the last observation of each finished episode
  absl::Span<const EndedPlayer> ended_players;  // in a game, by increasing `row` and `player`
  // [ended_players.size(), ...]: the observation, of all players, after this step
  ColumnsView ended_obs;
};

struct EnvReset {
  int env_id = 0;
  // If set, replaces the env's stored parameters for this and all later resets.
  std::optional<NamedValues> params;
};

class EnvManager {
 public:
  virtual ~EnvManager() = default;

  virtual int env_num() const = 0;
  // The spec that all envs share. It is known before Launch().
  virtual const EnvSpec& env_spec() const = 0;

  // Seeds env i with seeds[i], or with seed + i. If `dynamic`, each episode of an env starts from a
  // seed of its own that is derived from the env's seed; otherwise all episodes of an env start
  // from the same seed. Takes effect at the next reset.
  virtual absl::Status Seed(absl::Span<const uint64_t> seeds, bool dynamic) = 0;
  absl::Status Seed(uint64_t seed, bool dynamic);

  // Builds all envs and resets them. kFailedPrecondition if they are launched already.
  virtual absl::Status Launch() = 0;
  // Ends the current episodes of all envs, or of the given envs, and begins new ones. A reset of
  // all envs also sets their counts of episodes to 0.
  virtual absl::Status Reset() = 0;
  virtual absl::Status Reset(absl::Span<const EnvReset> envs) = 0;

  // Returns the envs in kRun that are not outstanding. It is empty when all envs are done or
  // outstanding; if an env is in kRun or kReset, a Step() of no envs waits for some.
  virtual ReadyObs ready_obs() = 0;
  // Steps the envs `env_ids` with the rows of `actions`: row i is for env_ids[i], and the first
  // fields are the env's actions (one, or one per player). kInvalidArgument or kFailedPrecondition,
  // and no env was stepped, if an env is not ready, an id occurs twice or an action is illegal.
  virtual absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                                const ColumnsView& actions) = 0;

  // Whether this player takes part in the running episode of the env. A player of a game that has
  // ended takes part again from the next episode on; until then Step() accepts any action for it.
  // False if there is no such env or player.
  virtual bool plays(int /*env_id*/, int /*player*/) const { return true; }

  virtual EnvState env_state(int env_id) const = 0;
  // Whether all envs are in kDone.
  virtual bool done() const = 0;
  virtual bool closed() const = 0;
  virtual absl::StatusOr<Image> Render(int env_id) = 0;
  // From the next episodes on, Step() calls function(env_id) when an episode has ended, before the
  // env begins the next one, so that Render(env_id) shows the end. It is not called for void
  // episodes. Null (the default): nothing is called. If the function throws, the step returns an
  // error. Calls from the function that would change the envs return kFailedPrecondition; if it
  // calls Close(), the step returns kFailedPrecondition. A manager that cannot call the function
  // ignores it.
  virtual void set_on_episode_end(std::function<void(int env_id)> /*function*/) {}

  // Saves and loads seeds, counts, observations and the states of the envs. An env that cannot save
  // its state, or that was outstanding, begins a new episode on load; `restarted` lists these envs.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader, std::vector<int>* restarted) = 0;

  // Statistics over all envs with which observations are normalized (wrapper
  // normalize_observation). A policy needs the statistics of its training: every checkpoint has
  // them, and evaluating envs load them. Most envs have none.
  virtual bool has_statistics() const { return false; }
  virtual absl::Status SaveStatistics(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadStatistics(StateReader* /*reader*/) { return absl::OkStatus(); }

  // Destroys all envs. Idempotent; Launch() may follow.
  virtual void Close() = 0;
};

// Whether a player acts in an env (EnvManager::plays()). Actions of players that do not act are not
// checked.
using PlaysFn = absl::FunctionRef<bool(int env_id, int player)>;
inline bool AllPlay(int /*env_id*/, int /*player*/) { return true; }
// Checks that the first fields of `actions` are the env's actions and that every element is legal:
// a category in range, or a finite number within its bounds. kInvalidArgument names the env, the
// value and the legal values.
absl::Status CheckActions(const EnvSpec& spec, absl::Span<const int> env_ids,
                          const ColumnsView& actions, PlaysFn plays = AllPlay);
// Checks that the action masks allow the actions; kInvalidArgument as above. masks[p] is the index
// of the mask of player p in the observation, or -1 (ActionMaskField()). Row i of `obs` belongs to
// env i.
absl::Status CheckActionMasks(const EnvSpec& spec, absl::Span<const int> masks,
                              absl::Span<const int> env_ids, const ColumnsView& actions,
                              const ColumnsView& obs, PlaysFn plays = AllPlay);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_MANAGER_H_
