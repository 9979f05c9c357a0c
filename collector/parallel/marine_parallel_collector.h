// The parallel collector of a league: two policies play against each other.
//
//     player 0 (home) ──► seat home_seat      ─┐
//                                              ├──► the game ──► rows of learning players
//     player 1        ──► the other seat      ─┘                     │
//                                                      TurnTransitions ◄┘   their choices, linked
//
// A player that learns (ParallelPlayer::updates) sends rows and loads newer versions of its policy. The
// policy of the other player, an earlier version, is loaded once, and its rows are dropped. In self-play
// both learn, and the rows of both seats belong to one policy.
//
// The env decides which player begins. The task sets the seat of player 0, so that commanders can alternate
// it from task to task and a policy learns both sides.
//
// In a game of turns the training data are the rows in which a player had a choice, each linked to that
// player's next choice (turn_transitions.h), so that off-policy algorithms can use them. No transition spans
// episodes; the last rows of an episode are sent with the next rows, at the latest when the task is done.
// n_sample counts the rows of one seat, including those in which the player waits.
//
// An evaluation has one policy in single-player envs: the env plays the opponent. With an evaluator that plays
// opponents itself (ParallelCollectorParts::evaluator) it may be in games.
//
// The sign of the return of player 0 is the result: above 0 a win, below 0 a loss, else a draw.
//
// parallel_collector_core.h describes the rest.
// Ownership, threads: as BaseParallelCollector.
//
// Example:
//   ParallelCollectorParts parts;
//   parts.env = &games;
//   parts.players = {{learner->collect_mode(), true}, {opponent->collect_mode(), false}};
//   parts.link = &link;
//   DING_ASSIGN_OR_RETURN(auto collector, MarineParallelCollector::Create({}, task, parts, deps));
//   DING_RETURN_IF_ERROR(collector->Run());
#ifndef DING_WORKER_COLLECTOR_PARALLEL_MARINE_PARALLEL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_PARALLEL_MARINE_PARALLEL_COLLECTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/metrics/component.h"

namespace ding {

class MarineParallelCollector : public ParallelCollectorCore {
 public:
  // The default name is "collector" or "evaluator".
  //   kInvalidArgument  lists all problems of options and parts: a collecting task needs a two-player
  //                     game and two players, one of which learns; an evaluation needs a single-player
  //                     env, or an evaluator, and no players
  static absl::StatusOr<std::unique_ptr<MarineParallelCollector>> Create(
      const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
      ComponentDeps deps);

 private:
  using ParallelCollectorCore::ParallelCollectorCore;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_MARINE_PARALLEL_COLLECTOR_H_
