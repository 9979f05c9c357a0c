#include "ding_worker/collector/battle/battle_sample_serial_collector.h"

#include <utility>

#include "absl/memory/memory.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/battle/battle_common.h"

namespace ding {

absl::StatusOr<std::unique_ptr<BattleSampleSerialCollector>> BattleSampleSerialCollector::Create(
    Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps) {
  CollectCore::Options core_options;
  core_options.common = options;
  core_options.log_samples = false;
  core_options.game = true;
  absl::StatusOr<std::vector<int>> wanted =
      WantedPlayers(options.collect_players, static_cast<int>(policies.size()));
  if (!wanted.ok()) core_options.problems.emplace_back(wanted.status().message());
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CollectCore::Create(core_options, env, std::move(policies), std::move(deps)));
  return absl::WrapUnique(new BattleSampleSerialCollector(*std::move(wanted), std::move(core)));
}

BattleSampleSerialCollector::BattleSampleSerialCollector(std::vector<int> wanted,
                                                         std::unique_ptr<CollectCore> core)
    : wanted_(std::move(wanted)), core_(std::move(core)), collection_(core_.get()) {}

absl::Status BattleSampleSerialCollector::ResetEnv(EnvManager* env) { return core_->ResetEnv(env); }

absl::Status BattleSampleSerialCollector::ResetPolicies(std::vector<CollectMode*> policies) {
  return core_->ResetPolicies(std::move(policies));
}

absl::Status BattleSampleSerialCollector::Reset(std::vector<CollectMode*> policies,
                                                EnvManager* env) {
  return core_->Reset(std::move(policies), env);
}

absl::Status BattleSampleSerialCollector::DropEpisodes(absl::Span<const int> env_ids) {
  return core_->DropEpisodes(env_ids);
}

absl::StatusOr<BattleData> BattleSampleSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, collection_.Collect(wanted_, options));
  return ToBattleData(std::move(collected));
}

absl::Status BattleSampleSerialCollector::SaveState(StateWriter* writer) const {
  return core_->SaveState(writer);
}

absl::Status BattleSampleSerialCollector::LoadState(StateReader* reader) {
  return core_->LoadState(reader);
}

}  // namespace ding
