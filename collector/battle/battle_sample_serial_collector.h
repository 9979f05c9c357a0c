// Collects a given number of samples of each player of a game with two or more players, like
// SampleSerialCollector.
//
// Every vector step makes one row per env and player that has not ended (EnvManager::plays()), until one of the
// collected players has enough samples. drop_extra cuts the rows of each player to the target. on_policy, traj_len_inf and unroll_len of a
// policy apply to the rows of its player.
//
// An abnormal step drops the rows of its episode, of all players, that were not returned yet.
//
// Metrics: those of docs/collector.md, with reward<p>_mean, _std, _max and _min for each player p.
//
// Ownership, threads, errors: as IBattleCollector.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto collector,
//                         BattleSampleSerialCollector::Create({}, &games, {ours, theirs}, deps));
//   CollectOptions options;
//   options.target = 64;
//   DING_ASSIGN_OR_RETURN(const BattleData data, collector->Collect(options));
#ifndef DING_WORKER_COLLECTOR_BATTLE_BATTLE_SAMPLE_SERIAL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_BATTLE_BATTLE_SAMPLE_SERIAL_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/battle_collector.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collect_rows.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class BattleSampleSerialCollector : public IBattleCollector {
 public:
  struct Options : SerialCollectorOptions {
    // The players to collect; empty: all. The rows of the others are dropped.
    std::vector<int> collect_players;
  };

  // Launches `env` if it is not launched yet.
  //   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit
  static absl::StatusOr<std::unique_ptr<BattleSampleSerialCollector>> Create(
      Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps);

  // BattleEpisodeSerialCollector has these declarations, too: a class declares its overrides itself. What both do is
  // written once, in CollectCore.
  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicies(std::vector<CollectMode*> policies) override;
  absl::Status Reset(std::vector<CollectMode*> policies, EnvManager* env) override;
  absl::Status DropEpisodes(absl::Span<const int> env_ids) override;
  absl::StatusOr<BattleData> Collect(const CollectOptions& options) override;

  int64_t envstep() const override { return core_->envstep(); }
  void set_envstep(int64_t envstep) override { core_->set_envstep(envstep); }
  int64_t total_episode_count() const override { return core_->total_episode_count(); }
  std::optional<double> recent_return() const override { return core_->recent_return(); }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  BattleSampleSerialCollector(std::vector<int> wanted, std::unique_ptr<CollectCore> core);

  const std::vector<int> wanted_;
  const std::unique_ptr<CollectCore> core_;
  RowCollection collection_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_BATTLE_BATTLE_SAMPLE_SERIAL_COLLECTOR_H_
