// Lets policies play against each other and gives the data of each player, on the caller's thread:
// what ISerialCollector is to envs for one, this is to games (env/game_spec.h).
//
// Policy p plays player p. One policy may play several players, or all of them (self-play): it is
// asked once per player, and told of seat env * players + player where it would be told of an env.
//
// Ownership, threads: as ISerialCollector.
#ifndef DING_WORKER_COLLECTOR_BATTLE_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_BATTLE_COLLECTOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// How a finished episode went for one player.
struct PlayerEpisode {
  int env_id = 0;
  double episode_return = 0;
  int64_t length = 0;  // steps
  NamedValues info;    // as the env gave it, the same for all players
};

struct BattleData {
  // Of each player; empty for those whose data are not wanted. Rows as of ISerialCollector, with
  // the player's own observation fields, action and reward.
  std::vector<SegmentBatch> players;
  // Of each player: the episodes that finished while this was collected, env by env.
  std::vector<std::vector<PlayerEpisode>> episodes;
};

class IBattleCollector {
 public:
  virtual ~IBattleCollector() = default;

  // As of ISerialCollector; no policies: keeps those that it has.
  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  virtual absl::Status ResetPolicies(std::vector<CollectMode*> policies) = 0;
  virtual absl::Status Reset(std::vector<CollectMode*> policies, EnvManager* env) = 0;
  virtual absl::Status DropEpisodes(absl::Span<const int> env_ids) = 0;

  // Errors as of ISerialCollector::Collect(). The target holds for each player; what it is if the
  // options do not say, player 0's policy says. All policies get the same policy_settings.
  virtual absl::StatusOr<BattleData> Collect(const CollectOptions& options) = 0;

  // Env steps, whatever the number of players.
  virtual int64_t envstep() const = 0;
  virtual void set_envstep(int64_t envstep) = 0;
  virtual int64_t total_episode_count() const = 0;

  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_BATTLE_COLLECTOR_H_
