// Steps several envs together and hands their observations out as columns.
//
// The manager owns one block with a row per env. An env writes each observation straight into its
// row, and ready_obs() is a view of those rows. When an episode ends, its last observation is set
// aside (Timesteps::final_obs), the env is reset, and the row holds the first observation of the
// next episode:
//
//     ready_obs() ──► policy ──► Step(actions) ──► Timesteps { reward, ends, final_obs }
//         ▲                          │
//         └── rows written in place ─┘
//
// A manager with wait_num does not wait for all envs. Step() asks those that it is given and returns
// when wait_num of the envs that are at work have answered. Those that have not are outstanding:
// they are not in ready_obs(), cannot be stepped, and answer in a later call, also in one that
// steps none. Timesteps::env_ids says who answered. An env whose episode ended may be outstanding
// in kReset; it then answers by being ready again, without a row in Timesteps. Reset() and
// LoadState() wait for the envs that they concern, and drop their answers.
//
// Life of an env:
//     kVoid ──Launch──► kRun ──episode over──► kReset ──► kRun ...  ──episode_num reached──► kDone
//                         │        └─ auto_reset off ──► kNeedReset ──Reset──► kRun
//                         └─ failed beyond max_retry ──► kError
//
// Ownership: the manager owns its envs. Views hold until the next call of a method that is not
//            const.
// Threads:   thread-compatible: one caller at a time; what threads there are inside is the
//            implementation's business.
// Errors:    name the env by its number. After a failed Step the env is in kError and can be Reset;
//            after a failed reset the manager is closed.
#ifndef DING_WORKER_ENV_ENV_MANAGER_H_
#define DING_WORKER_ENV_ENV_MANAGER_H_

#include <cstdint>
#include <optional>
#include <vector>

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
  kInit = 1,
  kRun = 2,
  kReset = 3,
  kDone = 4,
  kError = 5,
  kNeedReset = 6,
};

absl::string_view EnvStateName(EnvState state);

// Observations to act upon: row i belongs to env_ids[i]. In increasing order of env.
struct ReadyObs {
  absl::Span<const int> env_ids;
  ColumnsView obs;  // [env_ids.size(), ...]
};

// An episode that ended with this step.
struct FinishedEpisode {
  int row = 0;                        // in Timesteps
  double episode_return = 0;          // sum of rewards, or the env's own "eval_episode_return"
  std::vector<double> other_returns;  // of a game: of players 1, 2, ...
  int64_t length = 0;                 // steps
  NamedValues info;                   // as the env gave it
};

// Why a step is abnormal, where the env did not call it so itself: it failed and was renewed, its
// process died or did not answer in time.
struct AbnormalCause {
  int row = 0;         // in Timesteps
  absl::Status cause;  // names the env
};

// What N steps gave; all spans have N elements, in the order of the env ids that were stepped. From
// a manager that does not wait for all envs: of those that answered, by increasing id.
struct Timesteps {
  absl::Span<const int> env_ids;
  absl::Span<const float> reward;         // of a game: of player 0
  absl::Span<const float> other_rewards;  // [N, players - 1], of players 1, 2, ... of a game
  absl::Span<const uint8_t> terminated;
  absl::Span<const uint8_t> truncated;
  // The step is void: do not count it, drop the episode so far. The env has been reset.
  absl::Span<const uint8_t> abnormal;
  absl::Span<const AbnormalCause> causes;      // of some of the abnormal steps
  absl::Span<const FinishedEpisode> finished;  // in the order of `row`
  ColumnsView final_obs;  // [finished.size(), ...]: the last observation of each
};

struct EnvReset {
  int env_id = 0;
  // Replaces the env's stored parameters for this and all later resets; none keeps them.
  std::optional<NamedValues> params;
};

class EnvManager {
 public:
  virtual ~EnvManager() = default;

  virtual int env_num() const = 0;
  // Of the envs, which are all of one kind. Known before Launch().
  virtual const EnvSpec& env_spec() const = 0;

  // Env i is seeded with seeds[i], or with seed + i. With `dynamic`, every episode of an env has a
  // seed of its own that follows from it; without, every episode of that env starts from the same
  // seed. Takes effect at the next reset.
  virtual absl::Status Seed(absl::Span<const uint64_t> seeds, bool dynamic) = 0;
  absl::Status Seed(uint64_t seed, bool dynamic);

  // Builds the envs and resets them all. kFailedPrecondition if launched already.
  virtual absl::Status Launch() = 0;
  // Ends the current episodes of all envs, or of those named, and begins new ones; the counts of
  // episodes begin anew when all are reset.
  virtual absl::Status Reset() = 0;
  virtual absl::Status Reset(absl::Span<const EnvReset> envs) = 0;

  // The envs in kRun that are not outstanding. Empty when all are done or outstanding; in the latter
  // case (an env is in kRun or kReset) a Step() of no envs waits for some.
  virtual ReadyObs ready_obs() = 0;
  // Steps those envs; row i of `actions`, whose first fields are the env's actions (one, or one per
  // player), is for env_ids[i].
  // Every env must be ready and stand once in the list, every action be legal: else
  // kInvalidArgument or kFailedPrecondition, and nothing was stepped.
  virtual absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                                const ColumnsView& actions) = 0;

  virtual EnvState env_state(int env_id) const = 0;
  // All envs are kDone.
  virtual bool done() const = 0;
  virtual bool closed() const = 0;
  virtual absl::StatusOr<Image> Render(int env_id) = 0;

  // Seeds, counts, observations and the envs' own states. An env that cannot save itself, or that was
  // outstanding, begins a new episode on load; its number is then in `restarted`.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader, std::vector<int>* restarted) = 0;

  // Ends all envs. Idempotent; Launch() may follow.
  virtual void Close() = 0;
};

// OK if the first fields of `actions` are the env's actions and every element is legal: a category in
// range, or finite and within its bounds. Else InvalidArgument naming the env, the value and the
// legal ones.
absl::Status CheckActions(const EnvSpec& spec, absl::Span<const int> env_ids,
                          const ColumnsView& actions);
// The same of what the masks say, where there are any: `masks` has their fields in the observation
// (ActionMaskField() of each player), row i of `obs` is what env i shows.
absl::Status CheckActionMasks(const EnvSpec& spec, absl::Span<const int> masks,
                              absl::Span<const int> env_ids, const ColumnsView& actions,
                              const ColumnsView& obs);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_MANAGER_H_
