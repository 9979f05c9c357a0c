// Trains one policy in two-player games, against itself and earlier versions of itself.
//
//     SoloCommander ──► tasks, evaluations, measurements
//     OneVsOneLeague ─► the players of each collecting task
//         ▲   ▲
//         │   └── train iterations, versions of the policy: snapshots
//         └────── results of collecting tasks: the payoff
//
// Evaluations are games against opponents that the env plays, beginning with the easiest one. After
// a won evaluation (EvalOpponent), the next ones are against the next opponent. The run has
// converged when an evaluation against the hardest opponent is won with a mean return of at least
// stop_value.
//
// Player 0 of a task is the learning policy. It alternates between seats 0 and 1 of the env from
// one collecting task to the next. Snapshots are versions of the policy that the coordinator keeps
// (KeepsPolicy()).
//
// Metrics: as SoloCommander, and with each snapshot "league_iter/historical_players",
// ".../min_win_rate", ".../rating_mu" and ".../rating_sigma".
//
// Ownership: as BaseCommander. The command mode must outlive it.
// Threads:   as BaseCommander.
//
// Example:
//   OneVsOneCommander::Options options;
//   options.solo.stop_value = 0;
//   options.eval_opponents = {{"random", std::nullopt}, {"perfect", 0.0}};
//   DING_ASSIGN_OR_RETURN(auto commander, OneVsOneCommander::Create(options, policy, deps));
#ifndef DING_WORKER_COORDINATOR_COMMANDER_ONE_VS_ONE_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_ONE_VS_ONE_COMMANDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/league/league.h"
#include "ding_worker/coordinator/league/league.pb.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class OneVsOneCommander : public SoloCommander {
 public:
  struct Options {
    SoloCommander::Options solo;  // may_converge is not used
    LeagueConfig league;
    // The opponents, the easiest one first. There must be at least one.
    std::vector<EvalOpponent> eval_opponents = {{kRuleBasedOpponent, std::nullopt}};
  };
  // `policy` may be null: there are no settings then.
  //   kInvalidArgument  lists all problems of the options, such as a league without players
  static absl::StatusOr<std::unique_ptr<OneVsOneCommander>> Create(const Options& options,
                                                                   CommandMode* policy,
                                                                   const ComponentDeps& deps);

  std::optional<CollectorTask> GetCollectorTask() override;
  std::optional<LearnerTask> GetLearnerTask() override;
  bool WouldConverge(const CollectorTask& task, const CollectorFinished& info) const override;
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override;
  std::string FinishLearnerTask(const LearnerTask& task) override;
  void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) override;
  void PolicyPublished(const PolicyVersion& version) override;
  bool KeepsPolicy(const PolicyVersion& version) const override {
    return league_.Keeps(version) || SoloCommander::KeepsPolicy(version);
  }
  void AddStatus(RunStatus* status) const override;

  const OneVsOneLeague& league() const { return league_; }
  // The opponent of the next evaluation.
  const EvalOpponent& eval_opponent() const { return opponents_[level_]; }

  // Save and load the tasks, the league and the level of difficulty. After an error of LoadState()
  // nothing is changed.
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  OneVsOneCommander(const Options& options, OneVsOneLeague league, CommandMode* policy,
                    const ComponentDeps& deps);

  bool MayConverge() const override { return beat_hardest_; }
  void AddPlayers(CollectorTask* task);
  // Notes the result of an evaluation: whether the policy has beaten the hardest opponent, and
  // which opponent is next.
  void Judge(const CollectorTask& evaluation, const CollectorFinished& info);
  void Report(const CollectorTask& task, const CollectorFinished& info);
  void MeasureLeague() const;

  OneVsOneLeague league_;
  const std::vector<EvalOpponent> opponents_;
  const std::shared_ptr<MetricSink> metrics_;
  size_t level_ = 0;           // the index in opponents_ of the next opponent
  bool beat_hardest_ = false;  // whether the last evaluation has beaten the hardest opponent
  int64_t snapshots_ = 0;
  int64_t games_with_historical_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_ONE_VS_ONE_COMMANDER_H_
