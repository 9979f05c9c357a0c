// The counterpart of ISerialCollector for games (env/game_spec.h): policies play against each other on
// the caller's thread, and it returns the data of each player.
//
// Policy p plays player p. One policy may play several players, or all of them (self-play): it is called
// once per player and gets seats env * players + player instead of env ids.
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

// The result of a finished episode for one player.
struct PlayerEpisode {
  int env_id = 0;
  double episode_return = 0;
  int64_t length = 0;  // in steps
  NamedValues info;    // StepResult::info, equal for all players
};

struct BattleData {
  // The data of each player; empty for players that are not collected. Rows are as in ISerialCollector,
  // with the observation fields, action and reward of the player.
  std::vector<SegmentBatch> players;
  // For each player, the episodes that finished during this Collect(), env by env.
  std::vector<std::vector<PlayerEpisode>> episodes;
};

class IBattleCollector {
 public:
  virtual ~IBattleCollector() = default;

  // As in ISerialCollector. Empty `policies` keep the current ones.
  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  virtual absl::Status ResetPolicies(std::vector<CollectMode*> policies) = 0;
  virtual absl::Status Reset(std::vector<CollectMode*> policies, EnvManager* env) = 0;
  virtual absl::Status DropEpisodes(absl::Span<const int> env_ids) = 0;

  // Errors as for ISerialCollector::Collect(). The target applies to each player; its default is that of
  // the policy of player 0. All policies get the same policy_settings.
  virtual absl::StatusOr<BattleData> Collect(const CollectOptions& options) = 0;

  // The number of env steps, independent of the number of players.
  virtual int64_t envstep() const = 0;
  virtual void set_envstep(int64_t envstep) = 0;
  virtual int64_t total_episode_count() const = 0;
  // As in ISerialCollector, of the first player.
  virtual std::optional<double> recent_return() const { return std::nullopt; }

  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_BATTLE_COLLECTOR_H_
