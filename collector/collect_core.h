// What all serial collectors are made of: an env manager, a policy for each player, the rows that
// come of them, and statistics. A collector decides which envs act and when it has enough.
//
//     ready_obs ──► rows of player 0 ──► policies[0] ──► action/0 ─┐
//         │    └──► rows of player 1 ──► policies[1] ──► action/1 ─┴─► Step(views of those rows)
//         └── PlayerObs(): views                                            │
//                 rewards, ends, last observations of each player ◄─────────┘
//
// An env for one has one player. Stream of player p in env i is stream_base + i * players + p. In a
// game the policies are told these seats, i * players + p, in the place of env ids, so that one
// policy may play several players.
//
// Ownership, threads: as ISerialCollector.   Errors: name the collector.
#ifndef DING_WORKER_COLLECTOR_COLLECT_CORE_H_
#define DING_WORKER_COLLECTOR_COLLECT_CORE_H_

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
#include "ding_worker/collector/collect_statistics.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/traj_buffer.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// What can be set of every serial collector.
struct SerialCollectorOptions {
  // Train iterations between two log lines, at least 1.
  int64_t collect_print_freq = 100;
  // Abnormal steps of one env, without a row or an episode of it handed over in between, after
  // which Collect() fails; at least 1.
  int max_abnormal = 10;
  // First stream: of env 0, or of player 0 in it. Several collectors that feed one buffer need
  // streams of their own.
  int64_t stream_base = 0;

  // What is wrong with them; empty if nothing is.
  std::vector<std::string> Problems() const;
};

class CollectCore {
 public:
  struct Options {
    SerialCollectorOptions common;
    // Hand rows over by whole episodes, whatever the policies say.
    bool whole_episodes = false;
    bool log_samples = true;
    bool game = false;           // of as many players as there are policies; else an env for one
    bool measure_steps = false;  // for TakeStepTimes()
    std::vector<std::string> problems;  // that the collector has found, to be reported with others
  };
  struct Player {
    CollectMode* policy = nullptr;
    CollectAttributes attributes;
    std::optional<TrajBuffer> traj;
  };
  // Where the time of vector steps went.
  struct StepTimes {
    int64_t steps = 0;
    absl::Duration policy;  // with the copy of the observations
    absl::Duration env;
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  options (all problems at once), env or a policy null or not fitting
  static absl::StatusOr<std::unique_ptr<CollectCore>> Create(Options options, EnvManager* env,
                                                             std::vector<CollectMode*> policies,
                                                             ComponentDeps deps);

  // As of ISerialCollector; no policies: those that there are.
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
  // Those whose episode ended in the last step, some by being abnormal.
  absl::Span<const int> ended_envs() const { return ended_envs_; }
  // Whether some env has not answered yet.
  bool waiting() const;

  // Checks them, and lets rows have them from now on, or not if there are none.
  absl::Status PrepareLevelSeeds(const std::vector<int64_t>& level_seeds);
  // One vector step of these envs; of none, to wait for the answers of others. A failure drops the
  // rows that are under way. The answer holds until the next call of the env manager.
  absl::StatusOr<const Timesteps*> StepEnvs(const ActingEnvs& acting,
                                            const CollectOptions& options);
  // Of the steps since the last call; zeros without Options::measure_steps.
  StepTimes TakeStepTimes() { return std::exchange(step_times_, StepTimes()); }
  // Hands over this player's rows, at most `max_rows`; `now` is what the envs show.
  absl::StatusOr<SegmentBatch> Take(int player, int64_t max_rows, const ReadyObs& now);
  // Takes the data through the policy's GetTrainSample().
  absl::Status MakeTrainSamples(int player, SegmentBatch* data);
  // All envs are in the middle of nothing that is worth keeping: drops every row.
  absl::Status DropAllRows();

  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  CollectCore(Options options, ComponentDeps deps);

  // Works with these from now on: checks that they fit together, launches the env manager if need
  // be, and keeps the rows if they are laid out as before.
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
  // Env ids as player `player`'s policy knows them; valid until the next call.
  absl::Span<const int> SeatsOf(int player, absl::Span<const int> env_ids);
  ReadyObs ViewOf(int player, const ReadyObs& ready) const;
  absl::StatusOr<const Timesteps*> TryStepEnvs(const ActingEnvs& acting,
                                               const CollectOptions& options);
  absl::Status Act(int player, const ActingEnvs& acting, const CollectOptions& options);
  absl::Status Store(int player, const Timesteps& timesteps);
  void DropRowsUnderWay();
  // 0 without Options::measure_steps: most collectors do without reading the clock.
  int64_t StepNanos() const;

  const Options options_;
  const ComponentDeps deps_;
  EnvManager* env_ = nullptr;
  EnvSpec player_spec_;  // what one player sees and does
  std::vector<Player> players_;
  std::optional<CollectStatistics> statistics_;

  std::vector<std::byte*> action_columns_;  // of the step under way, one per player
  std::vector<int> seats_;                  // scratch of SeatsOf()
  std::vector<float> rewards_;              // scratch of Store()
  std::vector<int> ended_envs_;
  StepTimes step_times_;
};

// The policies of a core for one player: none if null.
std::vector<CollectMode*> PoliciesOf(CollectMode* policy);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COLLECT_CORE_H_
