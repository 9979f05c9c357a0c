// Registers BattleSampleSerialCollector as "sample_1v1".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/battle/battle_sample_serial_collector.h"
#include "ding_worker/collector/battle_collector.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_config.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

constexpr char kName[] = "sample_1v1";

absl::StatusOr<std::unique_ptr<IBattleCollector>> CreateBattleSampleSerialCollector(
    const SerialCollectorConfig& config, EnvManager* env, const std::vector<CollectMode*>& policies,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  BattleSampleCollectorParams params;
  ReadParams(config, &params, &problems);
  BattleSampleSerialCollector::Options options;
  ReadSerialCollectorOptions(config, &options);
  options.collect_players.assign(params.collect_players().begin(), params.collect_players().end());
  DING_RETURN_IF_ERROR(SerialProblemsToStatus(std::move(problems), options.Problems(), deps.name));
  return BattleSampleSerialCollector::Create(std::move(options), env, policies, deps);
}

BattleCollectorDescriptor Descriptor() {
  BattleCollectorDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.default_config.mutable_params()->PackFrom(BattleSampleCollectorParams());
  descriptor.create = CreateBattleSampleSerialCollector;
  return descriptor;
}

DING_REGISTER(BattleCollectorRegistry(), kName, Descriptor(),
              "collects n_sample rows of each player of a game",
              &BattleSampleCollectorParams::descriptor);

}  // namespace
}  // namespace ding
