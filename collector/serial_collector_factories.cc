// Registers the serial collectors: "sample" and "episode", and for games "sample_1v1" and
// "episode_1v1".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

template <typename Options>
void ReadRewardShaping(const std::string& name, Options* options) {
  if (name.empty()) return;
  absl::StatusOr<RewardShaping> shaping = FindRewardShaping(name);
  if (!shaping.ok()) {
    options->problems.emplace_back(shaping.status().message());
  } else {
    options->reward_shaping = *std::move(shaping);
  }
}

absl::StatusOr<std::unique_ptr<ISerialCollector>> CreateSample(const SerialCollectorConfig& config,
                                                               const SampleCollectorParams& params,
                                                               EnvManager* env, CollectMode* policy,
                                                               const ComponentDeps& deps) {
  SampleSerialCollector::Options options;
  ReadSerialCollectorOptions(config, &options);
  ReadRewardShaping(params.reward_shaping(), &options);
  return SampleSerialCollector::Create(std::move(options), env, policy, deps);
}

absl::StatusOr<std::unique_ptr<ISerialCollector>> CreateEpisode(
    const SerialCollectorConfig& config, const EpisodeCollectorParams& params, EnvManager* env,
    CollectMode* policy, const ComponentDeps& deps) {
  EpisodeSerialCollector::Options options;
  ReadSerialCollectorOptions(config, &options);
  options.get_train_sample = params.get_train_sample();
  ReadRewardShaping(params.reward_shaping(), &options);
  return EpisodeSerialCollector::Create(std::move(options), env, policy, deps);
}

absl::StatusOr<std::unique_ptr<IBattleCollector>> CreateBattleSample(
    const SerialCollectorConfig& config, const BattleSampleCollectorParams& params, EnvManager* env,
    const std::vector<CollectMode*>& policies, const ComponentDeps& deps) {
  BattleSampleSerialCollector::Options options;
  ReadSerialCollectorOptions(config, &options);
  options.collect_players.assign(params.collect_players().begin(), params.collect_players().end());
  return BattleSampleSerialCollector::Create(std::move(options), env, policies, deps);
}

absl::StatusOr<std::unique_ptr<IBattleCollector>> CreateBattleEpisode(
    const SerialCollectorConfig& config, const BattleEpisodeCollectorParams& params,
    EnvManager* env, const std::vector<CollectMode*>& policies, const ComponentDeps& deps) {
  BattleEpisodeSerialCollector::Options options;
  ReadSerialCollectorOptions(config, &options);
  options.collect_players.assign(params.collect_players().begin(), params.collect_players().end());
  options.get_train_sample = params.get_train_sample();
  return BattleEpisodeSerialCollector::Create(std::move(options), env, policies, deps);
}

DING_REGISTER(SerialCollectorRegistry(), "sample",
              (SerialCollectorDescriptor{CreateSample, /*by_episode=*/false, /*in_parallel=*/true}),
              "collects n_sample rows; the next collect goes on with the episodes");
DING_REGISTER(SerialCollectorRegistry(), "episode",
              (SerialCollectorDescriptor{CreateEpisode, /*by_episode=*/true, /*in_parallel=*/true}),
              "collects n_episode whole episodes; reward_shaping can change their rewards");
DING_REGISTER(BattleCollectorRegistry(), "sample_1v1",
              (BattleCollectorDescriptor{CreateBattleSample, /*by_episode=*/false,
                                         /*in_parallel=*/true}),
              "collects n_sample rows of each player of a game");
DING_REGISTER(BattleCollectorRegistry(), "episode_1v1",
              (BattleCollectorDescriptor{CreateBattleEpisode, /*by_episode=*/true,
                                         /*in_parallel=*/true}),
              "collects n_episode whole episodes of a game");

}  // namespace
}  // namespace ding
