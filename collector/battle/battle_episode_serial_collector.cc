#include "ding_worker/collector/battle/battle_episode_serial_collector.h"

#include <utility>

#include "absl/memory/memory.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/battle/battle_common.h"

namespace ding {

absl::StatusOr<std::unique_ptr<BattleEpisodeSerialCollector>> BattleEpisodeSerialCollector::Create(
    Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps) {
  CollectCore::Options core_options;
  core_options.common = options;
  core_options.whole_episodes = true;
  core_options.log_samples = false;
  core_options.game = true;
  absl::StatusOr<std::vector<int>> wanted =
      WantedPlayers(options.collect_players, static_cast<int>(policies.size()));
  if (!wanted.ok()) core_options.problems.emplace_back(wanted.status().message());
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CollectCore::Create(core_options, env, std::move(policies), std::move(deps)));
  return absl::WrapUnique(
      new BattleEpisodeSerialCollector(options, *std::move(wanted), std::move(core)));
}

BattleEpisodeSerialCollector::BattleEpisodeSerialCollector(const Options& options,
                                                           std::vector<int> wanted,
                                                           std::unique_ptr<CollectCore> core)
    : wanted_(std::move(wanted)),
      core_(std::move(core)),
      collection_({options.get_train_sample, /*reward_shaping=*/nullptr}, core_.get()) {}

absl::Status BattleEpisodeSerialCollector::ResetEnv(EnvManager* env) {
  return core_->ResetEnv(env);
}

absl::Status BattleEpisodeSerialCollector::ResetPolicies(std::vector<CollectMode*> policies) {
  return core_->ResetPolicies(std::move(policies));
}

absl::Status BattleEpisodeSerialCollector::Reset(std::vector<CollectMode*> policies,
                                                 EnvManager* env) {
  return core_->Reset(std::move(policies), env);
}

absl::Status BattleEpisodeSerialCollector::DropEpisodes(absl::Span<const int> env_ids) {
  return core_->DropEpisodes(env_ids);
}

absl::StatusOr<BattleData> BattleEpisodeSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, collection_.Collect(wanted_, options));
  return ToBattleData(std::move(collected));
}

absl::Status BattleEpisodeSerialCollector::SaveState(StateWriter* writer) const {
  return collection_.SaveState(writer);
}

absl::Status BattleEpisodeSerialCollector::LoadState(StateReader* reader) {
  return collection_.LoadState(reader);
}

}  // namespace ding
