// Registers the serial collectors: "sample" and "episode", and for games "sample_1v1" and
// "episode_1v1".
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
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

// Creates a collector. `options` have what its params say, and `problems` what is wrong with them;
// the rest is read here.
template <typename Collector, typename Policies>
absl::StatusOr<std::unique_ptr<Collector>> Create(const SerialCollectorConfig& config,
                                                  typename Collector::Options options,
                                                  std::vector<std::string> problems,
                                                  EnvManager* env, const Policies& policies,
                                                  const ComponentDeps& deps) {
  ReadSerialCollectorOptions(config, &options);
  DING_RETURN_IF_ERROR(SerialProblemsToStatus(std::move(problems), options.Problems(), deps.name));
  return Collector::Create(std::move(options), env, policies, deps);
}

absl::StatusOr<std::unique_ptr<ISerialCollector>> CreateSample(const SerialCollectorConfig& config,
                                                               EnvManager* env, CollectMode* policy,
                                                               const ComponentDeps& deps) {
  std::vector<std::string> problems;
  ReadParams(config, /*params=*/nullptr, &problems);
  return Create<SampleSerialCollector>(config, {}, std::move(problems), env, policy, deps);
}

absl::StatusOr<std::unique_ptr<ISerialCollector>> CreateEpisode(const SerialCollectorConfig& config,
                                                                EnvManager* env,
                                                                CollectMode* policy,
                                                                const ComponentDeps& deps) {
  std::vector<std::string> problems;
  EpisodeCollectorParams params;
  ReadParams(config, &params, &problems);
  EpisodeSerialCollector::Options options;
  options.get_train_sample = params.get_train_sample();
  if (!params.reward_shaping().empty()) {
    absl::StatusOr<RewardShaping> shaping = FindRewardShaping(params.reward_shaping());
    if (!shaping.ok()) {
      problems.emplace_back(shaping.status().message());
    } else {
      options.reward_shaping = *std::move(shaping);
    }
  }
  return Create<EpisodeSerialCollector>(config, std::move(options), std::move(problems), env,
                                        policy, deps);
}

absl::StatusOr<std::unique_ptr<IBattleCollector>> CreateBattleSample(
    const SerialCollectorConfig& config, EnvManager* env, const std::vector<CollectMode*>& policies,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  BattleSampleCollectorParams params;
  ReadParams(config, &params, &problems);
  BattleSampleSerialCollector::Options options;
  options.collect_players.assign(params.collect_players().begin(), params.collect_players().end());
  return Create<BattleSampleSerialCollector>(config, std::move(options), std::move(problems), env,
                                             policies, deps);
}

absl::StatusOr<std::unique_ptr<IBattleCollector>> CreateBattleEpisode(
    const SerialCollectorConfig& config, EnvManager* env, const std::vector<CollectMode*>& policies,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  BattleEpisodeCollectorParams params;
  ReadParams(config, &params, &problems);
  BattleEpisodeSerialCollector::Options options;
  options.collect_players.assign(params.collect_players().begin(), params.collect_players().end());
  options.get_train_sample = params.get_train_sample();
  return Create<BattleEpisodeSerialCollector>(config, std::move(options), std::move(problems), env,
                                              policies, deps);
}

DING_REGISTER(SerialCollectorRegistry(), "sample",
              (SerialCollectorDescriptor{CreateSample, /*by_episode=*/false, /*in_parallel=*/true}),
              "collects n_sample rows; the next collect goes on with the episodes");
DING_REGISTER(SerialCollectorRegistry(), "episode",
              (SerialCollectorDescriptor{CreateEpisode, /*by_episode=*/true, /*in_parallel=*/true}),
              "collects n_episode whole episodes; reward_shaping can change their rewards",
              &EpisodeCollectorParams::descriptor);
DING_REGISTER(BattleCollectorRegistry(), "sample_1v1",
              (BattleCollectorDescriptor{CreateBattleSample, /*by_episode=*/false,
                                         /*in_parallel=*/true}),
              "collects n_sample rows of each player of a game",
              &BattleSampleCollectorParams::descriptor);
DING_REGISTER(BattleCollectorRegistry(), "episode_1v1",
              (BattleCollectorDescriptor{CreateBattleEpisode, /*by_episode=*/true,
                                         /*in_parallel=*/true}),
              "collects n_episode whole episodes of a game",
              &BattleEpisodeCollectorParams::descriptor);

}  // namespace
}  // namespace ding
