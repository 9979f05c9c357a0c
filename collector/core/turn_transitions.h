// Makes training data for one policy from its rows in all seats of a game of turns: it keeps the
// rows in which the player had a choice (transitions between the player's own turns) and links each
// to the next choice of that player.
//
//     rows of player 0       a0 (wait) b0 (wait) c0 ─ wins         rewards  0 0 0 0 1
//     rows of player 1     (wait) a1 (wait) b1 (wait) ─ loses      rewards  0 0 0 0 -1
//
//     returned rows          a0 ──► b0 ──► c0 terminated           rewards  0 0 1
//                            a1 ──► b1 terminated                  rewards  0 -1
//
// A row is a choice if its action mask allows two or more categories of some element; without a
// mask every row is a choice. A row without a choice (waiting, or a forced move) becomes part of
// the transition between two choices:
//   - its reward is added to the player's previous choice, so that a loser's last move gets the
//     reward that the winner's move caused; before the first choice of an episode it is dropped
//   - it does not count as a step: discounts count the player's own choices
//   - the next observation of a choice is the observation of the next choice, or the last one of
//   the game
// Training on all rows also works (tictactoe_ppo with all rows). But half of them give the policy
// nothing to learn, each move would be discounted twice, and values of moves would depend on values
// of positions in which the player waits.
//
// The next observation of a player's newest choice may not be known yet when rows are returned.
// The newest choice is held back until the next rows of its stream arrive, and dropped if these are
// missing. In a truncated game whose last observation leaves the player no choice, there is no
// bootstrap value: the last choice is dropped, and the one before it ends as kCut.
//
// Rows keep the stream of their player and are numbered anew.
//
// Ownership: owns the rows that it holds back; returned rows own their memory.
// Threads:   thread-compatible.
// Errors:    kInvalidArgument for rows of another layout; kResourceExhausted. A call that fails
//            changes nothing.
//
// Example:
//   DING_ASSIGN_OR_RETURN(TurnTransitions moves, TurnTransitions::Create(player, policy->output_spec()));
//   DING_ASSIGN_OR_RETURN(const BattleData data, collector->Collect(options));
//   DING_ASSIGN_OR_RETURN(const SegmentBatch rows, moves.Take(data.players));
#ifndef DING_WORKER_COLLECTOR_CORE_TURN_TRANSITIONS_H_
#define DING_WORKER_COLLECTOR_CORE_TURN_TRANSITIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

class TurnTransitions {
 public:
  // `player` is the spec of one player (PlayerSpec()), and `output` the spec of the policy's
  // output.
  //   kInvalidArgument  the action mask does not fit the action
  static absl::StatusOr<TurnTransitions> Create(const EnvSpec& player, SpecPtr output);

  // Returns the choices among the rows of all players, which must be in the order of collection.
  absl::StatusOr<SegmentBatch> Take(absl::Span<const SegmentBatch> players);
  // Drops the choices that are held back.
  void DropHeld();
  int64_t held() const { return held_rows_.rows(); }
  // Continues the numbering of `old`, which it replaces, without links to the rows of `old`.
  void ContinueAfter(const TurnTransitions& old);

  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  // A row of one of the tables to copy from; table 0 has the rows that were held back.
  struct Source {
    int table = 0;
    int64_t row = 0;
  };
  struct Stream {
    int64_t next_step = 0;       // step of its next incoming row
    int64_t next_move = 0;       // step of its next returned row
    std::optional<Source> held;  // its newest choice
    double reward = 0;           // the reward of that choice so far
  };
  // The result of a Take().
  struct Plan {
    std::vector<Source> rows;
    std::vector<float> rewards;
    std::vector<Segment> segments;
    std::vector<Source> finals;
  };

  TurnTransitions(TrajLayout layout, std::optional<int> mask_field, std::vector<int64_t> counts);

  // Whether row `row` of `obs`, whose first fields are the observation, allows a choice.
  bool IsChoice(const ColumnsView& obs, int64_t row) const;
  absl::Status CheckRows(const SegmentBatch& data) const;
  // Processes segment `index` of `data`, whose rows are table `table` and whose final_obs are the
  // next table.
  void Follow(const SegmentBatch& data, size_t index, int table, Stream* stream, Plan* plan) const;
  absl::StatusOr<Batch> Copy(const std::vector<ColumnsView>& tables, absl::Span<const Source> from,
                             BlockPool* pool, absl::Span<const float> rewards) const;

  TrajLayout layout_;
  std::optional<int> mask_field_;
  std::vector<int64_t> counts_;  // number of categories of each element of the action
  std::unique_ptr<BlockPool> rows_pool_;
  std::unique_ptr<BlockPool> finals_pool_;
  std::map<int64_t, Stream> streams_;
  Batch held_rows_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_TURN_TRANSITIONS_H_
