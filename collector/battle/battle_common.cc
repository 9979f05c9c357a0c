#include "ding_worker/collector/battle/battle_common.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ding {

absl::StatusOr<std::vector<int>> WantedPlayers(absl::Span<const int> wanted, int players) {
  std::vector<int> sorted(wanted.begin(), wanted.end());
  for (int i = 0; wanted.empty() && i < players; ++i) sorted.push_back(i);
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] >= 0 && sorted[i] < players && (i == 0 || sorted[i] != sorted[i - 1])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "collect_players has ", sorted[i], ", expected each of 0..", players - 1, " once at most"));
  }
  return sorted;
}

BattleData ToBattleData(Collected collected) {
  BattleData data;
  data.players = std::move(collected.players);
  data.episodes.resize(data.players.size());
  for (size_t player = 0; player < data.players.size(); ++player) {
    for (const CollectedEpisode& episode : collected.episodes) {
      data.episodes[player].push_back(
          {episode.env_id, episode.returns[player], episode.length, episode.info});
    }
  }
  return data;
}

}  // namespace ding
