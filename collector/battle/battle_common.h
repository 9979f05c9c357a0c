// The common part of the collectors of games, besides CollectCore.
#ifndef DING_WORKER_COLLECTOR_BATTLE_BATTLE_COMMON_H_
#define DING_WORKER_COLLECTOR_BATTLE_BATTLE_COMMON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/battle_collector.h"
#include "ding_worker/collector/core/collected.h"

namespace ding {

// Returns the players to collect, in ascending order: `wanted`, or all `players` if it is empty.
// kInvalidArgument for a player that does not exist or occurs twice.
absl::StatusOr<std::vector<int>> WantedPlayers(absl::Span<const int> wanted, int players);

BattleData ToBattleData(Collected collected);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_BATTLE_BATTLE_COMMON_H_
