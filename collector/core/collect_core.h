// The common part of all serial collectors: an env manager, a policy per player, their rows, and
// statistics. A collector decides which envs act and when it has enough rows.
//
//     ready_obs ──► rows of player 0 ──► policies[0] ──► action/0 ─┐
//         │    └──► rows of player 1 ──► policies[1] ──► action/1 ─┴─► Step(views of those rows)
//         └── PlayerObs(): views                                            │
//                 rewards, ends, last observations of each player ◄─────────┘
//
// A single-player env has one player. The stream of player p in env i is stream_base + i * players + p.
// In a game the policies get the seats i * players + p instead of env ids, so that one policy may play
// several players.
//
// Ownership, threads: as ISerialCollector.   Errors: errors name the collector.
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECT_CORE_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECT_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/collect_statistics.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The options of all serial collectors.
struct SerialCollectorOptions {
  // Train iterations between two log lines, at least 1.
  int64_t collect_print_freq = 100;
  // The number of abnormal steps of one env, without a row or episode of it returned in between, after
  // which Collect() fails; at least 1.
  int max_abnormal = 10;
  // The stream of env 0, or of player 0 in it. Collectors that feed one buffer need disjoint streams.
  int64_t stream_base = 0;

  // Returns all problems of the options; empty if there are none.
  std::vector<std::string> Problems() const;
};

class CollectCore {
 public:
  struct Options {
    SerialCollectorOptions common;
    // Whether to return whole episodes only, independent of the policies.
    bool whole_episodes = false;
    bool log_samples = true;
    bool game = false;           // whether the env is a game with a player per policy
    bool measure_steps = false;  // enables TakeStepTimes()
    std::vector<std::string>
        problems;  // problems that the collector has found, to report with others
  };
  struct Player {
    CollectMode* policy = nullptr;
    CollectAttributes attributes;
    std::optional<TrajBuffer> traj;
  };
  // The times of vector steps.
  struct StepTimes {
    int64_t steps = 0;
    absl::Duration policy;  // including the copy of the observations
    absl::Duration env;
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit
  static absl::StatusOr<std::unique_ptr<CollectCore>> Create(Options options, EnvManager* env,
                                                             std::vector<CollectMode*> policies,
                                                             ComponentDeps deps);

  // As in ISerialCollector. Empty `policies` keep the current ones.
  absl::Status ResetEnv(EnvManager* env);
  absl::Status ResetPolicies(std::vector<CollectMode*> policies);
  absl::Status Reset(std::vector<CollectMode*> policies, EnvManager* env);
  absl::Status DropEpisodes(absl::Span<const int> env_ids);

  EnvManager* env() const { return env_; }
  const ComponentDeps& deps() const { return deps_; }
  int player_num() const { return static_cast<int>(players_.size()); }
  Player& player(int index) { return players_[index]; }
  CollectStatistics& statistics() { return *statistics_; }
  const CollectStatistics& statistics() const { return *statistics_; }
  // The envs whose episode ended in the last step, including abnormal ones.
  absl::Span<const int> ended_envs() const { return ended_envs_; }
  // Whether an env has not answered yet.
  bool waiting() const;

  // Checks the level seeds; from then on rows have them, or have none if `level_seeds` is empty.
  absl::Status PrepareLevelSeeds(const std::vector<int64_t>& level_seeds);
  // Steps these envs, or no env to wait for the answers of others. After a failure the rows of the
  // current step are dropped. The result is valid until the next call of the env manager.
  absl::StatusOr<const Timesteps*> StepEnvs(const ActingEnvs& acting,
                                            const CollectOptions& options);
  // Returns the times of the steps since the last call; zeros without Options::measure_steps.
  StepTimes TakeStepTimes() { return std::exchange(step_times_, StepTimes()); }
  // Returns at most `max_rows` rows of this player; `now` has the current observations.
  absl::StatusOr<SegmentBatch> Take(int player, int64_t max_rows, const ReadyObs& now);
  // Passes the data through GetTrainSample() of the policy.
  absl::Status MakeTrainSamples(int player, SegmentBatch* data);
  // Drops all rows, because no running episode is to be continued.
  absl::Status DropAllRows();

  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  CollectCore(Options options, ComponentDeps deps);

  // Uses these from now on: checks that they fit together, launches the env manager if needed, and keeps
  // the rows if their layout is unchanged.
  absl::Status Use(EnvManager* env, const std::vector<CollectMode*>& policies);
  std::vector<CollectMode*> policies() const;
  CollectStatistics FreshStatistics(const EnvManager& env) const;
  absl::StatusOr<TrajBuffer> MakeTrajBuffer(int player, const EnvManager& env,
                                            const EnvSpec& player_spec, const CollectMode& policy,
                                            bool with_level_seed) const;
  void UseTrajBuffer(TrajBuffer fresh, Player* player);
  bool with_level_seed() const;
  void ForgetEpisodes();
  absl::Status ForgetRecurrentState(absl::Span<const int> env_ids);
  // Returns the seats of `player` in these envs; valid until the next call.
  absl::Span<const int> SeatsOf(int player, absl::Span<const int> env_ids);
  ReadyObs ViewOf(int player, const ReadyObs& ready) const;
  absl::StatusOr<const Timesteps*> TryStepEnvs(const ActingEnvs& acting,
                                               const CollectOptions& options);
  absl::Status Act(int player, const ActingEnvs& acting, const CollectOptions& options);
  absl::Status Store(int player, const Timesteps& timesteps);
  void DropRowsUnderWay();
  // Returns 0 without Options::measure_steps, because most collectors need not read the clock.
  int64_t StepNanos() const;

  const Options options_;
  const ComponentDeps deps_;
  EnvManager* env_ = nullptr;
  EnvSpec player_spec_;  // the spec of one player
  std::vector<Player> players_;
  std::optional<CollectStatistics> statistics_;

  std::vector<std::byte*> action_columns_;  // of the current step, one per player
  std::vector<int> seats_;                  // scratch of SeatsOf()
  std::vector<float> rewards_;              // scratch of Store()
  std::vector<int> ended_envs_;
  StepTimes step_times_;
};

// Returns the policies of a core with one player; empty if `policy` is null.
std::vector<CollectMode*> PoliciesOf(CollectMode* policy);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_CORE_H_
