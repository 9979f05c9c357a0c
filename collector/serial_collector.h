// Collects data with a policy and an env manager on the caller's thread: ISerialCollector in envs
// for one player, IBattleCollector in games (env/env.h).
//
// Ownership: a collector owns neither policy nor env manager. They must outlive it, or be replaced
//            by ResetPolicy() and ResetEnv() before they are destroyed.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COLLECTOR_SERIAL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_SERIAL_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

struct CollectOptions {
  // The number of samples (CollectAttributes::unroll_len; with 1 it is the number of rows), or of
  // episodes for an episode collector; the default is the policy's value.
  std::optional<int64_t> target;
  // The train iterations of the acting parameters, stored in the rows as `collect_iter`.
  int64_t train_iter = 0;
  // Whether to return exactly the target and drop the extra rows of the last vector step. It has no
  // effect for episode collectors, which never have extra episodes. With an unroll_len above 1 it
  // has none, either: all rows are returned.
  bool drop_extra = true;
  // Whether to log finished episodes (false while a random policy collects).
  bool record_episodes = true;
  // Whether to draw actions uniformly from the action space (RandomCollectMode) instead of asking
  // the policy. GetTrainSample() of the policy is called as usual. kInvalidArgument if the policy
  // stores other outputs than the action.
  bool random_collect = false;
  // Settings of the forward pass of the policy: "eps", ...
  NamedValues policy_settings;
  // Tensors for the forward pass, for policies that take some (CollectMode::ForwardWith); others
  // refuse them. Random actions ignore both.
  TensorMap policy_tensors;
  // The level seed of each env, stored in the rows as `level_seed`; empty: not stored.
  std::vector<int64_t> level_seeds;
  // If set, it is called between two vector steps. If it returns true, Collect() fails with
  // kCancelled, as it fails after an error of an env.
  std::function<bool()> cancelled;
};

class ISerialCollector {
 public:
  virtual ~ISerialCollector() = default;

  // Uses `env` from now on and launches it if needed; null: begins new episodes in the current
  // envs. Drops partial trajectories and recurrent state.
  //   kInvalidArgument  the actions of policy and envs differ
  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  // Uses `policy` from now on; null: keeps the current one. Drops its recurrent state.
  //   kInvalidArgument  the actions of policy and envs differ
  virtual absl::Status ResetPolicy(CollectMode* policy) = 0;
  // Does both, drops partial trajectories and statistics, and sets envstep() to 0.
  virtual absl::Status Reset(CollectMode* policy, EnvManager* env) = 0;

  // Drops the partial trajectories and the recurrent state of these envs and does not link their
  // next rows to earlier ones. Call it after LoadState() for the envs that EnvManager::LoadState()
  // restarted.
  virtual absl::Status DropEpisodes(absl::Span<const int> env_ids) = 0;

  // Acts until the target is reached and returns the training data, after GetTrainSample() of the
  // policy. Rows have the observation fields, the output fields of the policy (first `action`),
  // `reward` [] float32 and `collect_iter` [] int64.
  //   kInvalidArgument     no target, or one below 1
  //   kFailedPrecondition  no env is ready, for instance because all are done
  //   kResourceExhausted   an env was abnormal too often
  //   other codes          an env or the policy failed; the error names it. Call ResetEnv(nullptr);
  //                        the next Collect() returns the rows made so far. An episode collector
  //                        drops them and resets the envs itself
  virtual absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) = 0;

  // The number of env steps so far.
  virtual int64_t envstep() const = 0;
  virtual void set_envstep(int64_t envstep) = 0;
  virtual int64_t total_episode_count() const = 0;
  // The mean return of the last episodes, for people who watch the run; nullopt if it is not known.
  virtual std::optional<double> recent_return() const { return std::nullopt; }

  // Logs the episodes that were not logged yet, and flushes the metrics. Afterwards Collect()
  // returns kFailedPrecondition. A further call does nothing. The env manager stays open: its owner
  // closes it.
  virtual absl::Status Close() { return absl::OkStatus(); }

  // Save and load partial trajectories, counters and statistics, but not env manager and policy.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

// The result of a finished episode for one player.
struct PlayerEpisode {
  int env_id = 0;
  double episode_return = 0;
  int64_t length = 0;  // in steps
  NamedValues info;    // StepResult::info, equal for all players
};

struct BattleData {
  // The data of each player; empty for players that are not collected. Rows are as in
  // ISerialCollector, with the observation fields, action and reward of the player.
  std::vector<SegmentBatch> players;
  // For each player, the episodes that finished during this Collect(), env by env.
  std::vector<std::vector<PlayerEpisode>> episodes;
};

// Policy p plays player p. One policy may play several players, or all of them (self-play): it is
// called once per player and gets seats env * players + player instead of env ids.
class IBattleCollector {
 public:
  virtual ~IBattleCollector() = default;

  // As in ISerialCollector. Empty `policies` keep the current ones.
  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  virtual absl::Status ResetPolicies(std::vector<CollectMode*> policies) = 0;
  virtual absl::Status Reset(std::vector<CollectMode*> policies, EnvManager* env) = 0;
  virtual absl::Status DropEpisodes(absl::Span<const int> env_ids) = 0;

  // Errors as for ISerialCollector::Collect(). The target applies to each player; the default is
  // the value of player 0's policy. All policies get the same policy_settings.
  virtual absl::StatusOr<BattleData> Collect(const CollectOptions& options) = 0;

  // The number of env steps, independent of the number of players.
  virtual int64_t envstep() const = 0;
  virtual void set_envstep(int64_t envstep) = 0;
  virtual int64_t total_episode_count() const = 0;
  // As in ISerialCollector, of the first player.
  virtual std::optional<double> recent_return() const { return std::nullopt; }
  // As in ISerialCollector.
  virtual absl::Status Close() { return absl::OkStatus(); }

  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_COLLECTOR_H_
