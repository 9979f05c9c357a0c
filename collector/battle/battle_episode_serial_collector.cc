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
  const bool running = env != nullptr && !env->closed();
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CollectCore::Create(core_options, env, std::move(policies), std::move(deps)));
  auto collector = absl::WrapUnique(
      new BattleEpisodeSerialCollector(options, *std::move(wanted), std::move(core)));
  collector->collection_.NoteAllEnvs(running);
  return collector;
}

BattleEpisodeSerialCollector::BattleEpisodeSerialCollector(const Options& options,
                                                           std::vector<int> wanted,
                                                           std::unique_ptr<CollectCore> core)
    : wanted_(std::move(wanted)),
      core_(std::move(core)),
      collection_({options.get_train_sample, /*reward_shaping=*/nullptr}, core_.get()) {}

absl::Status BattleEpisodeSerialCollector::ResetEnv(EnvManager* env) {
  const bool running = env != nullptr && !env->closed();
  DING_RETURN_IF_ERROR(core_->ResetEnv(env));
  collection_.NoteAllEnvs(running);
  return absl::OkStatus();
}

absl::Status BattleEpisodeSerialCollector::ResetPolicies(std::vector<CollectMode*> policies) {
  return core_->ResetPolicies(std::move(policies));
}

absl::Status BattleEpisodeSerialCollector::Reset(std::vector<CollectMode*> policies,
                                                 EnvManager* env) {
  const bool running = env != nullptr && !env->closed();
  DING_RETURN_IF_ERROR(core_->Reset(std::move(policies), env));
  collection_.NoteAllEnvs(running);
  return absl::OkStatus();
}

absl::Status BattleEpisodeSerialCollector::DropEpisodes(absl::Span<const int> env_ids) {
  DING_RETURN_IF_ERROR(core_->DropEpisodes(env_ids));
  collection_.NoteFresh(env_ids);
  return absl::OkStatus();
}

absl::StatusOr<BattleData> BattleEpisodeSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, collection_.Collect(wanted_, options));
  return ToBattleData(std::move(collected));
}

absl::Status BattleEpisodeSerialCollector::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(core_->SaveState(writer));
  return collection_.SaveState(writer);
}

absl::Status BattleEpisodeSerialCollector::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(std::vector<int> unfinished, collection_.ReadState(reader));
  DING_RETURN_IF_ERROR(core_->LoadState(reader));
  collection_.set_unfinished(std::move(unfinished));
  return absl::OkStatus();
}

}  // namespace ding
