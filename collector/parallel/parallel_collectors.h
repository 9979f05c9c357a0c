// The two parallel collectors. parallel_collector_core.h describes how they play and which rows
// they send.
//
// ZerglingParallelCollector has one policy: in envs for one player, or by self-play in all seats of
// a game. All rows are training data of that policy.
//
// MarineParallelCollector is for leagues. It has two policies, and one of them may be an opponent.
// The policies' seats change from task to task. It reports the results of games, from which the
// league computes payoffs.
//
//     player 0 (home) ──► seat home_seat      ─┐
//                                              ├──► the game ──► rows of learning players
//     player 1        ──► the other seat      ─┘                     │
//                                                      TurnTransitions ◄┘   their choices, linked
//
// A player that learns (ParallelPlayer::updates) sends rows and loads newer versions of its policy.
// The policy of the other player, an earlier version, is loaded once, and its rows are dropped. In
// self-play both learn, and the rows of both seats belong to one policy.
//
// The env decides which player begins. The task sets the seat of player 0, so that commanders can
// alternate it from task to task and a policy learns both sides.
//
// In a game of turns the training data are the rows in which a player had a choice, each linked to
// that player's next choice (turn_transitions.h), so that off-policy algorithms can use them. No
// transition spans episodes; the last rows of an episode are sent with the next rows, at the latest
// when the task is done. n_sample counts the samples of one seat, including those in which the
// player waits.
//
// An evaluation has one policy in single-player envs: the env plays the opponent. An evaluator that
// plays opponents itself (ParallelCollectorParts::evaluator) may also evaluate in games.
//
// The sign of the return of player 0 is the result: above 0 a win, below 0 a loss, else a draw.
//
// Ownership, threads: as BaseParallelCollector.
//
// Example:
//   ParallelCollectorParts parts = {&envs, policy->collect_mode(), policy->eval_mode(), &link, 10};
//   DING_ASSIGN_OR_RETURN(auto collector,
//                         ZerglingParallelCollector::Create({}, task, parts, deps));
//   DING_RETURN_IF_ERROR(collector->Run());
//   const CollectorFinishInfo info = collector->GetFinishInfo();
//
//   ParallelCollectorParts match;
//   match.env = &games;
//   match.players = {{learner->collect_mode(), true}, {opponent->collect_mode(), false}};
//   match.link = &link;
//   DING_ASSIGN_OR_RETURN(auto marine, MarineParallelCollector::Create({}, task, match, deps));
#ifndef DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_COLLECTORS_H_
#define DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_COLLECTORS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

class ZerglingParallelCollector : public ParallelCollectorCore {
 public:
  // The default name is "collector" or "evaluator".
  //   kInvalidArgument  lists all problems of options and parts, such as a policy with neither
  //                     n_sample nor n_episode
  static absl::StatusOr<std::unique_ptr<ZerglingParallelCollector>> Create(
      const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
      ComponentDeps deps);

 private:
  using ParallelCollectorCore::ParallelCollectorCore;
};

class MarineParallelCollector : public ParallelCollectorCore {
 public:
  // The default name is "collector" or "evaluator".
  //   kInvalidArgument  lists all problems of options and parts: a collecting task needs a
  //                     two-player game and two players, one of which learns; an evaluation needs a
  //                     single-player env, or an evaluator, and no players
  static absl::StatusOr<std::unique_ptr<MarineParallelCollector>> Create(
      const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
      ComponentDeps deps);

 private:
  using ParallelCollectorCore::ParallelCollectorCore;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_PARALLEL_COLLECTORS_H_
