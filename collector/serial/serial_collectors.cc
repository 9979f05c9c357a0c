#include "ding_worker/collector/serial/serial_collectors.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Returns the players to collect, in ascending order: `wanted`, or all `players` if it is empty.
// kInvalidArgument for a player that does not exist or occurs twice.
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

// Returns the options of the core of a collector; a game adds its own.
CollectCore::Options CoreOptions(const SerialCollectorOptions& common, bool by_episode) {
  CollectCore::Options options;
  options.common = common;
  options.whole_episodes = by_episode;
  options.log_samples = !by_episode;
  return options;
}

// Creates the core of a collector of games, and fills in the players of its loop.
absl::StatusOr<std::unique_ptr<CollectCore>> CreateBattleCore(
    CollectCore::Options options, absl::Span<const int> collect_players, EnvManager* env,
    std::vector<CollectMode*> policies, ComponentDeps deps, CollectLoop::Options* loop) {
  options.game = true;
  options.log_samples = false;
  absl::StatusOr<std::vector<int>> wanted =
      WantedPlayers(collect_players, static_cast<int>(policies.size()));
  if (wanted.ok()) {
    loop->players = *std::move(wanted);
  } else {
    options.problems.emplace_back(wanted.status().message());
  }
  return CollectCore::Create(std::move(options), env, std::move(policies), std::move(deps));
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

}  // namespace

absl::StatusOr<std::unique_ptr<SampleSerialCollector>> SampleSerialCollector::Create(
    Options options, EnvManager* env, CollectMode* policy, ComponentDeps deps) {
  CollectCore::Options core_options = CoreOptions(options, /*by_episode=*/false);
  core_options.maxlen = options.traj_len;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CollectCore::Create(std::move(core_options), env, PoliciesOf(policy), std::move(deps)));
  return absl::WrapUnique(new SampleSerialCollector(std::move(core)));
}

absl::StatusOr<SegmentBatch> SampleSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, loop_.Collect(options));
  return std::move(collected.players[0]);
}

absl::StatusOr<std::unique_ptr<EpisodeSerialCollector>> EpisodeSerialCollector::Create(
    Options options, EnvManager* env, CollectMode* policy, ComponentDeps deps) {
  CollectLoop::Options loop;
  loop.by_episode = true;
  loop.get_train_sample = options.get_train_sample;
  loop.reward_shaping = std::move(options.reward_shaping);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<CollectCore> core,
                        CollectCore::Create(CoreOptions(options, loop.by_episode), env,
                                            PoliciesOf(policy), std::move(deps)));
  return absl::WrapUnique(new EpisodeSerialCollector(std::move(loop), std::move(core)));
}

absl::StatusOr<SegmentBatch> EpisodeSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, loop_.Collect(options));
  return std::move(collected.players[0]);
}

absl::StatusOr<std::unique_ptr<BattleSampleSerialCollector>> BattleSampleSerialCollector::Create(
    Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps) {
  CollectLoop::Options loop;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CreateBattleCore(CoreOptions(options, loop.by_episode), options.collect_players, env,
                       std::move(policies), std::move(deps), &loop));
  return absl::WrapUnique(new BattleSampleSerialCollector(std::move(loop), std::move(core)));
}

absl::StatusOr<BattleData> BattleSampleSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, loop_.Collect(options));
  return ToBattleData(std::move(collected));
}

absl::StatusOr<std::unique_ptr<BattleEpisodeSerialCollector>> BattleEpisodeSerialCollector::Create(
    Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps) {
  CollectLoop::Options loop;
  loop.by_episode = true;
  loop.get_train_sample = options.get_train_sample;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CreateBattleCore(CoreOptions(options, loop.by_episode), options.collect_players, env,
                       std::move(policies), std::move(deps), &loop));
  return absl::WrapUnique(new BattleEpisodeSerialCollector(std::move(loop), std::move(core)));
}

absl::StatusOr<BattleData> BattleEpisodeSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, loop_.Collect(options));
  return ToBattleData(std::move(collected));
}

}  // namespace ding
