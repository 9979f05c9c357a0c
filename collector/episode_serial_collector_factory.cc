// Registers EpisodeSerialCollector as "episode".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial/episode_serial_collector.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_config.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

constexpr char kName[] = "episode";

absl::StatusOr<std::unique_ptr<ISerialCollector>> CreateEpisodeSerialCollector(
    const SerialCollectorConfig& config, EnvManager* env, CollectMode* policy,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  EpisodeCollectorParams params;
  ReadParams(config, &params, &problems);
  EpisodeSerialCollector::Options options;
  ReadSerialCollectorOptions(config, &options);
  options.get_train_sample = params.get_train_sample();
  if (!params.reward_shaping().empty()) {
    absl::StatusOr<RewardShaping> shaping = FindRewardShaping(params.reward_shaping());
    if (!shaping.ok()) {
      problems.emplace_back(shaping.status().message());
    } else {
      options.reward_shaping = *std::move(shaping);
    }
  }
  DING_RETURN_IF_ERROR(SerialProblemsToStatus(std::move(problems), options.Problems(), deps.name));
  return EpisodeSerialCollector::Create(std::move(options), env, policy, deps);
}

SerialCollectorDescriptor Descriptor() {
  SerialCollectorDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.by_episode = true;
  descriptor.default_config.mutable_params()->PackFrom(EpisodeCollectorParams());
  descriptor.create = CreateEpisodeSerialCollector;
  return descriptor;
}

DING_REGISTER(SerialCollectorRegistry(), kName, Descriptor(),
              "collects n_episode whole episodes; reward_shaping can change their rewards",
              &EpisodeCollectorParams::descriptor);

}  // namespace
}  // namespace ding
