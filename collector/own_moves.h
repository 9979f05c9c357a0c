// Makes training data of one policy from what it saw in all seats of a game: the rows in which a
// player had a choice, each linked to that player's next one.
//
//     what player 0 saw      a0 (wait) b0 (wait) c0 ─ wins         rewards  0 0 0 0 1
//     what player 1 saw    (wait) a1 (wait) b1 (wait) ─ loses      rewards  0 0 0 0 -1
//
//     handed over            a0 ──► b0 ──► c0 terminated           rewards  0 0 1
//                            a1 ──► b1 terminated                  rewards  0 -1
//
// A row is a choice if its action mask leaves two or more categories of some element; without a
// mask every row is one. Where there is none (waiting, or a forced move), the row is a part of what
// happened between two choices:
//   - its reward goes to the player's choice before it, so that a loser's last own move gets what
//     the winner's move brought; before the first choice of an episode it is dropped
//   - it is no step: discounts count the player's own choices
//   - what follows a choice is the observation of the next one, or, if the game ended first, its
//     last one
// The rows could stay, with advantages taken across them, and training would come to the same end:
// tictactoe_ppo does. But they are half of all rows, for each of which the network is trained, with
// nothing in them for the policy to learn; each move would be discounted twice; and the values of
// moves would rest on those of positions in which one waits.
//
// What follows a player's newest choice may not be known when rows are handed over. It is held back
// then and comes with the next rows of its stream, or never if they are missing. A truncated game
// whose last observation leaves its player no choice has no value there: the last choice is
// dropped, and the one before it ends as cut.
//
// Streams stay those of the players, with numbers of their own for the rows that are left.
//
// Ownership: owns what it holds back; what it hands over owns its memory.
// Threads:   thread-compatible.
// Errors:    kInvalidArgument for rows of another layout; kResourceExhausted. A call that fails
//            changes nothing.
//
// Example:
//   DING_ASSIGN_OR_RETURN(OwnMoves moves, OwnMoves::Create(player, policy->output_spec()));
//   DING_ASSIGN_OR_RETURN(const BattleData data, collector->Collect(options));
//   DING_ASSIGN_OR_RETURN(const SegmentBatch rows, moves.Take(data.players));
#ifndef DING_WORKER_COLLECTOR_OWN_MOVES_H_
#define DING_WORKER_COLLECTOR_OWN_MOVES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/traj_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

class OwnMoves {
 public:
  // `player`: what one player sees and does (PlayerSpec()); `output`: the policy's.
  //   kInvalidArgument  an action mask that does not fit the action
  static absl::StatusOr<OwnMoves> Create(const EnvSpec& player, SpecPtr output);

  // Of the rows of all players, each as a collector gave them, oldest first.
  absl::StatusOr<SegmentBatch> Take(absl::Span<const SegmentBatch> players);
  // Drops the choices that are held back.
  void DropHeld();
  int64_t held() const { return held_rows_.rows(); }
  // Numbers its rows on from those of `old`, in whose place it comes, and does not link to them.
  void ContinueAfter(const OwnMoves& old);

  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  // A row of one of the tables that rows are copied from; table 0 are the rows that were held back.
  struct Source {
    int table = 0;
    int64_t row = 0;
  };
  struct Stream {
    int64_t next_step = 0;       // number of its next row, as it comes in
    int64_t next_move = 0;       // and as it is handed over
    std::optional<Source> held;  // its newest choice
    double reward = 0;           // of that, by now
  };
  // What a Take() hands over.
  struct Plan {
    std::vector<Source> rows;
    std::vector<float> rewards;
    std::vector<Segment> segments;
    std::vector<Source> finals;
  };

  OwnMoves(TrajLayout layout, std::optional<int> mask_field, std::vector<int64_t> counts);

  // Whether the row of `obs`, whose first fields are the observation, leaves a choice.
  bool IsChoice(const ColumnsView& obs, int64_t row) const;
  absl::Status CheckRows(const SegmentBatch& data) const;
  // Goes through segment `index` of `data`, whose rows are table `table` and whose final_obs are
  // the next one.
  void Follow(const SegmentBatch& data, size_t index, int table, Stream* stream, Plan* plan) const;
  absl::StatusOr<Batch> Copy(const std::vector<ColumnsView>& tables, absl::Span<const Source> from,
                             BlockPool* pool, absl::Span<const float> rewards) const;

  TrajLayout layout_;
  std::optional<int> mask_field_;
  std::vector<int64_t> counts_;  // categories of each element of the action
  std::unique_ptr<BlockPool> rows_pool_;
  std::unique_ptr<BlockPool> finals_pool_;
  std::map<int64_t, Stream> streams_;
  Batch held_rows_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_OWN_MOVES_H_
