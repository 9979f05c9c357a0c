// The building block of serial collectors: it steps an env manager with one policy per player,
// stores the rows, and counts steps, episodes and samples. A collector decides which envs act and
// when it has enough.
//
//     ready_obs ──► rows of player 0 ──► policies[0] ──► action/0 ─┐
//         │    └──► rows of player 1 ──► policies[1] ──► action/1 ─┴─► Step(views of those rows)
//         └── PlayerObs(): views                                            │
//                 rewards, ends, last observations of each player ◄─────────┘
//
// A single-player env has one player, 0. The stream of player p in env i is stream_base + i *
// players + p. In a game the policies get the seats i * players + p instead of env ids, so that one
// policy may play several players. A player that ends before its game (EnvManager::plays()) has no
// rows until the next game. Its last row is terminated, or truncated with its last observation.
//
// A collector of your own creates a core, inherits from CoreCollector (or BattleCoreCollector) and
// writes Collect(): steps, until it has enough; TakeTrainSamples(); FinishCollect(). CollectLoop
// (serial/serial_collectors.h) is such a loop, ready to use. docs/reference/collector_core.md has a
// whole collector.
//
// Ownership: as ISerialCollector: the core owns neither envs nor policies, and these must outlive
// it.
// Threads: thread-compatible: one caller at a time, envs and policies are called on its thread.
// Errors:    errors of Create() and of the ISerialCollector functions name the collector. Errors of
//            the steps of a collect do not: Collect() returns them with Annotate(status,
//            core->deps().name). A failed step drops the rows of the episodes whose envs had not
//            answered; the other rows stay.
//
// Example:
//   absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override {
//     const Timer timer(core()->deps().clock);
//     while (core()->ready_rows(0) < 64) {
//       DING_RETURN_IF_ERROR(core()->StepReadyEnvs(options).status());
//     }
//     absl::StatusOr<SegmentBatch> data = core()->TakeTrainSamples(0);
//     core()->FinishCollect(options, timer.Seconds());
//     return data;
//   }
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECT_CORE_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECT_CORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/collector/core/collect_statistics.h"
#include "ding_worker/collector/core/player_rows.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// The options of all serial collectors.
struct SerialCollectorOptions {
  // Train iterations between two log lines, at least 1.
  int64_t collect_print_freq = 100;
  // Collect() fails after this many abnormal steps of one env, if the env gave no row or episode to
  // return in between; at least 1.
  int max_abnormal = 10;
  // The stream of env 0, or of player 0 in it. Collectors that feed one buffer need disjoint
  // streams.
  int64_t stream_base = 0;
  // Problems that the caller found, for instance in the params. Create() reports them with its own.
  std::vector<std::string> problems;
};

class CollectCore {
 public:
  struct Options {
    SerialCollectorOptions common;
    // Whether to return rows of complete episodes only. A policy with traj_len_inf gets only these
    // in any case.
    bool whole_episodes = false;
    // The most rows of a running episode to hold, at least 1. See TrajBuffer.
    std::optional<int64_t> maxlen;
    bool game = false;  // whether the env is a game with a player per policy
    // true: logs metrics of the returned samples; false: of the time. docs/reference/collector.md
    // lists both.
    bool log_samples = true;
    bool measure_steps = false;  // enables TakeStepTimes()
    // The two halves of a vector step, for a collector that replaces them; each is called once for
    // all its envs. Empty: Forward() of the policy, and Step() of the env manager. The result of
    // `env_step` is valid until the next call of `env_step`.
    std::function<absl::Status(CollectMode* policy, const ColumnsView& obs,
                               absl::Span<const int> env_ids, const NamedValues& settings,
                               const MutableColumnsView& out)>
        policy_inference;
    std::function<absl::StatusOr<const Timesteps*>(absl::Span<const int> env_ids,
                                                   const ColumnsView& actions)>
        env_step;
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

  // The numbers of env steps and of returned samples so far.
  int64_t envstep() const { return statistics_->envstep(); }
  int64_t total_train_sample_count() const { return statistics_->total_train_sample_count(); }
  EnvManager* env() const { return env_; }
  const ComponentDeps& deps() const { return deps_; }
  int player_num() const { return static_cast<int>(players_.size()); }
  // Here and below, `player` is from 0 to player_num() - 1. Any other is kInvalidArgument, or ends
  // the program where no status is returned.
  const CollectAttributes& attributes(int player) const {
    DING_CHECK(CheckPlayer(player).ok()) << CheckPlayer(player).message();
    return players_[player].attributes;
  }

  // A collector of your own calls the functions from here to FinishCollect() in Collect(), in this
  // order.
  //
  // Call this one before the steps. Checks the level seeds and stores them in the rows from then
  // on. Without a call, or with empty `level_seeds`, rows have no level seeds.
  absl::Status PrepareLevelSeeds(const std::vector<int64_t>& level_seeds);
  // Steps all ready envs and returns the answers of the envs, valid until the next call of the env
  // manager. If no env is ready and no answer is pending, waits for an env, so that a caller may
  // simply repeat the call:
  //   kFailedPrecondition  no env can become ready, or none did within a minute
  //   kResourceExhausted   an env was abnormal too often
  //   other codes          an env or a policy failed
  absl::StatusOr<const Timesteps*> StepReadyEnvs(const CollectOptions& options);
  // Changes the rewards of player 0 in the last finished episode of this env. Only with
  // whole_episodes.
  absl::Status ReshapeRewards(int env_id, const RewardShaping& shaping);
  // The number of rows of this player that Take() can return.
  int64_t ready_rows(int player) const { return RowsOf(player).ready_rows(); }
  // The number of complete samples (CollectAttributes::unroll_len) among these ready rows.
  int64_t ready_samples(int player) const { return RowsOf(player).ready_samples(); }
  // Returns the training data of all ready rows of this player: Take(), DropHeldRowsIfOnPolicy(),
  // MakeTrainSamples().
  absl::StatusOr<SegmentBatch> TakeTrainSamples(int player);
  // Ends a collect that took `seconds`: logs the metrics if they are due.
  void FinishCollect(const CollectOptions& options, double seconds);

  // The next functions are for loops that choose the acting envs or the returned rows, as
  // CollectLoop and ParallelCollectorCore do.
  //
  // Makes room for `rows` ready rows of each player, so that steps need not copy them.
  absl::Status Reserve(int64_t rows);
  // Like StepReadyEnvs(), for some of the ready envs. If `acting` is empty, it waits for an env for
  // which `may_act` returns true.
  absl::StatusOr<const Timesteps*> StepEnvs(const ActingEnvs& acting, const CollectOptions& options,
                                            absl::FunctionRef<bool(int env_id)> may_act);
  // Returns the times of the steps since the last call; zeros without Options::measure_steps.
  StepTimes TakeStepTimes() { return std::exchange(step_times_, StepTimes()); }
  // The envs that may be in the middle of an episode: envs that have acted in it, and all envs of a
  // manager that was already running when the core got it. The second function begins new episodes
  // in them.
  std::vector<int> unfinished_envs() const;
  absl::Status RestartUnfinishedEnvs();
  // Returns at most `max_rows` ready rows of this player and drops the others (TrajBuffer::Take()
  // says which). `now` is env()->ready_obs(); it may be empty if all these rows are of episodes
  // that ended.
  absl::StatusOr<SegmentBatch> Take(int player, int64_t max_rows, const ReadyObs& now);
  // At the end of a collect: drops the rows of this player that wait for the end of their episode,
  // if its policy is on-policy.
  void DropHeldRowsIfOnPolicy(int player);
  // Passes the data through GetTrainSample() of the policy.
  absl::Status MakeTrainSamples(int player, SegmentBatch* data);
  // Drops all rows. The running episodes must not continue: reset their envs.
  absl::Status DropAllRows();
  // Returns the episodes that finished since the last call, env by env; call it after Take(), which
  // counts their rows. Keeps them for the log if `record`.
  std::vector<CollectedEpisode> TakeFinishedEpisodes(bool record);

 private:
  template <typename Interface>
  friend class OverCore;
  friend class CoreCollector;
  friend class BattleCoreCollector;

  struct Player {
    CollectMode* policy = nullptr;
    CollectAttributes attributes;
    PlayerActs acts;                      // of the current step, in a game
    std::unique_ptr<CollectMode> random;  // null before the first random_collect
  };
  // For OverCore and its derived classes: the functions of ISerialCollector. Empty `policies` keep
  // the current ones. The state includes which envs are in the middle of an episode. After Close()
  // steps are refused.
  absl::Status ResetEnv(EnvManager* env);
  absl::Status ResetPolicies(std::vector<CollectMode*> policies);
  absl::Status Reset(std::vector<CollectMode*> policies, EnvManager* env);
  absl::Status DropEpisodes(absl::Span<const int> env_ids);
  void set_envstep(int64_t envstep) { statistics_->set_envstep(envstep); }
  int64_t total_episode_count() const { return statistics_->total_episode_count(); }
  std::optional<double> recent_return() const { return statistics_->recent_return(); }
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);
  absl::Status Close();

  CollectCore(Options options, ComponentDeps deps)
      : options_(std::move(options)),
        deps_(std::move(deps)),
        rows_({options_.common.stream_base, options_.whole_episodes, options_.maxlen}) {}

  absl::Status CheckPlayer(int player) const;
  const TrajBuffer& RowsOf(int player) const {
    DING_CHECK(CheckPlayer(player).ok()) << CheckPlayer(player).message();
    return rows_.of(player);
  }
  // Uses this env manager and these policies from now on: checks that they fit together, launches
  // the env manager if needed, and keeps the rows if their layout is unchanged.
  absl::Status Use(EnvManager* env, const std::vector<CollectMode*>& policies);
  std::vector<CollectMode*> policies() const;
  CollectStatistics FreshStatistics(const EnvManager& env) const;
  // Notes that all envs begin new episodes or, if `unfinished`, may be in the middle of one.
  void ForgetEpisodes(bool unfinished);
  // Whether an env has not answered yet.
  bool waiting() const;
  absl::StatusOr<std::vector<uint8_t>> LoadUnfinished(StateReader* reader) const;
  absl::Status ForgetRecurrentState(absl::Span<const int> env_ids);
  // Returns the seats of `player` in these envs; valid until the next call.
  absl::Span<const int> SeatsOf(int player, absl::Span<const int> env_ids) {
    return GameSeats(player, player_num(), env_ids, &seats_);
  }
  ReadyObs ViewOf(int player, const ReadyObs& ready) const;
  absl::StatusOr<const Timesteps*> TryStepEnvs(const ActingEnvs& acting,
                                               const CollectOptions& options,
                                               absl::FunctionRef<bool(int env_id)> may_act);
  // The policy of this player, or a random one.
  absl::StatusOr<CollectMode*> ActingPolicy(int player, const CollectOptions& options);
  absl::Status Act(int player, const ActingEnvs& acting, const CollectOptions& options);
  void DropRowsUnderWay();
  // Returns 0 without Options::measure_steps, because most collectors need not read the clock.
  int64_t StepNanos() const;

  const Options options_;
  const ComponentDeps deps_;
  EnvManager* env_ = nullptr;
  std::vector<Player> players_;
  PlayerRows rows_;
  std::optional<CollectStatistics> statistics_;

  std::vector<std::byte*> action_columns_;  // of the current step, one per player
  std::vector<int> seats_;                  // scratch of SeatsOf()
  std::vector<int64_t> own_rows_;           // scratch of Act()
  std::vector<int> ended_envs_;             // envs whose episode ended in the last step
  // Per env, whether it may be in the middle of an episode. Bytes, because every step sets some.
  std::vector<uint8_t> unfinished_;
  int waits_ = 0;  // consecutive waits for a ready env
  bool closed_ = false;
  StepTimes step_times_;
};

// Returns the list of policies of a core with one player; empty if `policy` is null. Create()
// refuses an empty list. With one, ResetPolicies() and Reset() keep the current policy.
std::vector<CollectMode*> PoliciesOf(CollectMode* policy);

// Base of collectors that use a core: passes those calls on to it that are the same for games and
// for envs with one player.
//
// Ownership: owns the core.
template <typename Interface>
class OverCore : public Interface {
 public:
  absl::Status ResetEnv(EnvManager* env) override { return core_->ResetEnv(env); }
  absl::Status DropEpisodes(absl::Span<const int> ids) override { return core_->DropEpisodes(ids); }
  int64_t envstep() const override { return core_->envstep(); }
  void set_envstep(int64_t envstep) override { core_->set_envstep(envstep); }
  int64_t total_episode_count() const override { return core_->total_episode_count(); }
  std::optional<double> recent_return() const override { return core_->recent_return(); }
  absl::Status Close() override { return core_->Close(); }
  absl::Status SaveState(StateWriter* writer) const override { return core_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return core_->LoadState(reader); }

 protected:
  explicit OverCore(std::unique_ptr<CollectCore> core) : core_(std::move(core)) {}
  CollectCore* core() const { return core_.get(); }

 private:
  const std::unique_ptr<CollectCore> core_;
};

// Base of serial collectors that use a core with one player. Implements ISerialCollector, except
// for Collect().
class CoreCollector : public OverCore<ISerialCollector> {
 public:
  absl::Status ResetPolicy(CollectMode* policy) override {
    return core()->ResetPolicies(PoliciesOf(policy));
  }
  absl::Status Reset(CollectMode* policy, EnvManager* env) override {
    return core()->Reset(PoliciesOf(policy), env);
  }

 protected:
  using OverCore::OverCore;
};

// The same for games. Implements IBattleCollector, except for Collect().
class BattleCoreCollector : public OverCore<IBattleCollector> {
 public:
  absl::Status ResetPolicies(std::vector<CollectMode*> policies) override {
    return core()->ResetPolicies(std::move(policies));
  }
  absl::Status Reset(std::vector<CollectMode*> policies, EnvManager* env) override {
    return core()->Reset(std::move(policies), env);
  }

 protected:
  using OverCore::OverCore;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_CORE_H_
