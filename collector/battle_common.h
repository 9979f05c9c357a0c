// What the collectors of games share beside CollectCore.
#ifndef DING_WORKER_COLLECTOR_BATTLE_COMMON_H_
#define DING_WORKER_COLLECTOR_BATTLE_COMMON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/battle_collector.h"
#include "ding_worker/collector/collect_rows.h"

namespace ding {

// The players whose data are wanted, in ascending order: `wanted`, or all of `players` if that is
// empty. kInvalidArgument for one that is none of them, or stands there twice.
absl::StatusOr<std::vector<int>> WantedPlayers(absl::Span<const int> wanted, int players);

BattleData ToBattleData(Collected collected);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_BATTLE_COMMON_H_
