// Draws sequences in proportion to their priorities: each sequence that SequenceSource can draw has
// a priority, which a PriorityTable keeps for its first row. SequenceReplayBuffer draws in this way
// if its options say so; importance_weights.h has the formulas.
//
// Threads: as DrawKind.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITIZED_SEQUENCE_SOURCE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITIZED_SEQUENCE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/selection/importance_weights.h"
#include "ding_worker/replay_buffer/selection/priority_table.h"
#include "ding_worker/replay_buffer/selection/sequence_source.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {

// The state that outlives the rows: beta.
class PrioritizedSequenceDraws : public SequenceDraws {
 public:
  PrioritizedSequenceDraws(const SequenceDrawOptions& sequences, const PriorityOptions& priority);

  int64_t state_version() const override { return kVersionWithPriorities; }
  absl::StatusOr<std::unique_ptr<DrawSource>> MakeSource(std::shared_ptr<RowStore> store) override;
  absl::Status CheckUpdate(const PriorityInfo& info) const override;
  void Update(const PriorityInfo& info, DrawSource* source) override;
  StateSnapshot Snapshot() const override;
  // Also reads a state without priorities: all sequences then have the same priority, and beta
  // begins again.
  absl::StatusOr<std::function<void()>> Read(StateReader* reader) override;

 private:
  friend class PrioritizedSequenceSource;

  const PriorityOptions priority_;
  AnnealedBeta beta_;
};

class PrioritizedSequenceSource : public SequenceSource {
 public:
  // `draws` outlives the source.
  //   kInvalidArgument  an error of SequenceSource::MakeReader(), or the rows have a column
  //                     "priority", which would be the priority of a row
  static absl::StatusOr<std::unique_ptr<PrioritizedSequenceSource>> Create(
      PrioritizedSequenceDraws* draws, std::shared_ptr<RowStore> store);

  void Append(const SegmentBatch& data, int64_t first_id) override;
  void Clear() override;
  DrawFacts Commit(const DrawRequest& request, TransitionDraw* draw, RetiredRows retired) override;
  void Finish(const DrawFacts& facts, TransitionDraw* draw) const override;
  StateSnapshot Snapshot() const override;
  absl::Status Load(StateReader* reader) override;

  // Skips ids of rows that do not begin a sequence, or do so no longer.
  void Update(const PriorityInfo& info) { priorities_->Update(info); }

 protected:
  absl::Status DrawByPriority(const DrawRequest& request, absl::Span<int64_t> ids) override;

 private:
  PrioritizedSequenceSource(PrioritizedSequenceDraws* draws,
                            std::shared_ptr<TransitionReader> reader,
                            std::unique_ptr<PriorityTable> priorities);

  void InsertAll();

  PrioritizedSequenceDraws* const draws_;
  const std::unique_ptr<PriorityTable> priorities_;
  // The fields of a batch that a draw fills.
  const int weight_;
  const int priority_;
  const int buffer_idx_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITIZED_SEQUENCE_SOURCE_H_
