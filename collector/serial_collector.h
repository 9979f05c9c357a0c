// Turns a policy and an env manager into data, on the caller's thread.
//
// Ownership: collector, policy and env manager are owned by whoever composes them; ResetEnv() and
//            ResetPolicy() exchange them. They must outlive the collector or be exchanged before
//            they go.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COLLECTOR_SERIAL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_SERIAL_COLLECTOR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

struct CollectOptions {
  // Rows (or, of an episode collector, episodes) wanted; not set: what the policy says.
  std::optional<int64_t> target;
  // Train iterations of the parameters that act; stands in the rows as `collect_iter`.
  int64_t train_iter = 0;
  // Return exactly the target: rows beyond it, which the last vector step brought, are dropped.
  // There are no episodes beyond it.
  bool drop_extra = true;
  // Whether finished episodes count for the log (false while a random policy collects).
  bool record_episodes = true;
  // For the policy's forward pass: "eps", ...
  NamedValues policy_settings;
  // Seed of the level that each env plays, stored in the rows as `level_seed`; empty: not stored.
  std::vector<int64_t> level_seeds;
};

class ISerialCollector {
 public:
  virtual ~ISerialCollector() = default;

  // Takes `env` from now on and launches it if it is not launched; null: begins new episodes in the
  // env it has. Partial trajectories and recurrent state are forgotten either way.
  //   kInvalidArgument  the policy's actions are not those of the envs
  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  // Takes `policy` from now on; null: keeps the one it has. Its recurrent state is forgotten either
  // way.
  //   kInvalidArgument  its actions are not those of the envs
  virtual absl::Status ResetPolicy(CollectMode* policy) = 0;
  // Both, and forgets partial trajectories and statistics; envstep() begins at 0.
  virtual absl::Status Reset(CollectMode* policy, EnvManager* env) = 0;

  // The running episodes of these envs are gone: forgets their partial trajectories and the
  // policy's recurrent state, and does not link the rows that follow to those before. For the envs
  // that EnvManager::LoadState() had to restart, after LoadState().
  virtual absl::Status DropEpisodes(absl::Span<const int> env_ids) = 0;

  // Acts until the target is reached and returns the training data (after the policy's
  // GetTrainSample). Rows have the observation fields, then what the policy writes (first
  // `action`), `reward` [] float32, `collect_iter` [] int64.
  //   kInvalidArgument     no target, or one below 1
  //   kFailedPrecondition  no env is ready: all are done, say
  //   kResourceExhausted   an env kept being abnormal
  //   other codes          an env or the policy failed; the message names it. Rows that were
  //                        gathered before stay for the next Collect(), and the envs need ResetEnv(nullptr);
  //                        a collector of episodes drops them and resets the envs by itself
  virtual absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) = 0;

  // Env steps collected so far; set on resume.
  virtual int64_t envstep() const = 0;
  virtual void set_envstep(int64_t envstep) = 0;
  virtual int64_t total_episode_count() const = 0;

  // Partial trajectories, counters and statistics; env manager and policy save themselves.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_COLLECTOR_H_
