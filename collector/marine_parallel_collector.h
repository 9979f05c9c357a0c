// The parallel collector of a league: two policies play against each other.
//
//     player 0 (home) ──► seat home_seat      ─┐
//                                              ├──► the game ──► rows of those who learn
//     player 1        ──► the other seat      ─┘                     │
//                                                      OwnMoves ◄────┘   their choices, linked
//
// A player who learns (ParallelPlayer::updates) hands over rows and takes newer versions of its
// policy; the other one, a version of some time ago, is loaded once and hands over nothing. In
// self-play both learn, and the rows of both seats are one policy's.
//
// The env decides who begins, as it sees fit; the task says in which seat player 0 sits, so that a
// game whose seats differ is learned from both sides: commanders alternate it from task to task.
//
// Of a game of turns the rows in which a player had a choice are training data, each linked to that
// player's next one (own_moves.h): an off-policy algorithm learns from them as from any env. A row
// never spans episodes, and what an episode's end leaves is handed over with the next rows, at the
// latest when the task is done. A target of n_sample counts rows of one seat, waiting included.
//
// An evaluation has one policy, in envs for one: the env plays the opponent.
//
// The sign of a return, player 0's, is the result: above 0 a win, below a loss, else a draw.
//
// How it plays otherwise: parallel_collector_core.h.
// Ownership, threads: as BaseParallelCollector.
//
// Example:
//   ParallelCollectorParts parts;
//   parts.env = &games;
//   parts.players = {{learner->collect_mode(), true}, {opponent->collect_mode(), false}};
//   parts.link = &link;
//   DING_ASSIGN_OR_RETURN(auto collector, MarineParallelCollector::Create({}, task, parts, deps));
//   DING_RETURN_IF_ERROR(collector->Run());
#ifndef DING_WORKER_COLLECTOR_MARINE_PARALLEL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_MARINE_PARALLEL_COLLECTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/collector/base_parallel_collector.h"
#include "ding_worker/collector/parallel_collector_core.h"
#include "ding_worker/metrics/component.h"

namespace ding {

class MarineParallelCollector : public ParallelCollectorCore {
 public:
  // The name is "collector" or "evaluator", if deps has none.
  //   kInvalidArgument  options or parts (all problems at once): a collecting task without exactly
  //                     two players in a game of two, one of whom learns; an evaluation in a game,
  //                     or with players
  static absl::StatusOr<std::unique_ptr<MarineParallelCollector>> Create(
      const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
      ComponentDeps deps);

 private:
  using ParallelCollectorCore::ParallelCollectorCore;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_MARINE_PARALLEL_COLLECTOR_H_
