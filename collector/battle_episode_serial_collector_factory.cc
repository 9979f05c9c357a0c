// Registers BattleEpisodeSerialCollector as "episode_1v1".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/battle/battle_episode_serial_collector.h"
#include "ding_worker/collector/battle_collector.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_config.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

constexpr char kName[] = "episode_1v1";

absl::StatusOr<std::unique_ptr<IBattleCollector>> CreateBattleEpisodeSerialCollector(
    const SerialCollectorConfig& config, EnvManager* env, const std::vector<CollectMode*>& policies,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  BattleEpisodeCollectorParams params;
  ReadParams(config, &params, &problems);
  BattleEpisodeSerialCollector::Options options;
  ReadSerialCollectorOptions(config, &options);
  options.collect_players.assign(params.collect_players().begin(), params.collect_players().end());
  options.get_train_sample = params.get_train_sample();
  DING_RETURN_IF_ERROR(SerialProblemsToStatus(std::move(problems), options.Problems(), deps.name));
  return BattleEpisodeSerialCollector::Create(std::move(options), env, policies, deps);
}

// The other factories of collectors have descriptors like this one, each for other parameters and another class.
BattleCollectorDescriptor Descriptor() {
  BattleCollectorDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.by_episode = true;
  descriptor.default_config.mutable_params()->PackFrom(BattleEpisodeCollectorParams());
  descriptor.create = CreateBattleEpisodeSerialCollector;
  return descriptor;
}

DING_REGISTER(BattleCollectorRegistry(), kName, Descriptor(),
              "collects n_episode whole episodes of a game",
              &BattleEpisodeCollectorParams::descriptor);

}  // namespace
}  // namespace ding
