// Draws sequences of consecutive rows, or whole episodes, each of which is a candidate and has the
// id of its first row. SequenceReplayBuffer and EpisodeReplayBuffer draw in this way;
// sequence_buffer.h says what a batch looks like.
//
// Threads: as DrawKind.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_SEQUENCE_SOURCE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_SEQUENCE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/selection/sequence_index.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {

struct SequenceDrawOptions {
  SequenceIndex::Options index;
  int64_t burn_in = 0;
  int64_t nstep = 1;
  double gamma = 0.99;
  // The capacity for whole episodes that are items (EpisodeItemSource).
  int64_t item_rows = kMaxCapacityRows;
};

class SequenceSource : public DrawSource {
 public:
  //   kInvalidArgument  the rows are items, or fewer than a sequence of them fit in the buffer;
  //                     also the errors of TransitionReader::Create()
  static absl::StatusOr<std::unique_ptr<SequenceSource>> Create(const SequenceDrawOptions& options,
                                                                std::shared_ptr<RowStore> store);

  int64_t size() const override { return sequences_.size(); }
  void Append(const SegmentBatch& data, int64_t first_id) override {
    sequences_.Append(data.segments, first_id, store().begin_id());
  }
  void Clear() override { sequences_.EvictBefore(store().end_id()); }
  std::string WhyNoCandidates() const override;
  absl::Status Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) override;
  StateSnapshot Snapshot() const override;
  absl::Status Load(StateReader* reader) override;
  std::vector<int64_t> Lengths() const override;

 protected:
  // Makes the reader for Create(), with further columns that a derived class fills in.
  static absl::StatusOr<std::shared_ptr<TransitionReader>> MakeReader(
      const SequenceDrawOptions& options, std::shared_ptr<RowStore> store,
      std::vector<FieldSpec> added = {});
  SequenceSource(const SequenceDrawOptions& options, std::shared_ptr<TransitionReader> reader);

  // The field of the batches with a name that MakeReader() has added.
  int FieldOf(absl::string_view name) const { return *reader().spec()->Find(name); }
  const SequenceIndex& sequences() const { return sequences_; }
  bool RanksToIds(absl::Span<int64_t> ranks) const override;

 private:
  int64_t LengthFrom(int64_t id) const;
  void Fill(absl::Span<const int64_t> starts, TransitionDraw* draw) const;
  void FillIsFirst(TransitionDraw* draw) const;

  const SequenceDrawOptions options_;
  // The fields of a batch that a draw fills.
  const int mask_;
  const int burn_in_;
  const int is_first_;  // -1: none, since sequences do not cross episodes
  SequenceIndex sequences_;
  std::vector<int64_t> starts_;  // of a draw; a member, so that its memory is reused
};

class SequenceDraws : public DrawKind {
 public:
  explicit SequenceDraws(const SequenceDrawOptions& options) : options_(options) {}

  absl::string_view state_type() const override;
  int64_t state_version() const override { return kVersionWithoutPriorities; }
  absl::Status CheckSaved(StateReader* reader) const override;
  absl::StatusOr<std::unique_ptr<DrawSource>> MakeSource(std::shared_ptr<RowStore> store) override;
  std::string candidates() const override;
  bool draws_sequences() const override { return true; }
  // A sequence may have another length than the sequences of the index. It begins where one of
  // these begins.
  absl::Status CheckSequence(int64_t rows) const override;
  absl::Status CheckSize(int64_t size, std::optional<int64_t> sequence) const override;
  StateSnapshot Snapshot() const override;
  absl::StatusOr<std::function<void()>> Read(StateReader* reader) override;

  const SequenceDrawOptions& options() const { return options_; }
  // Whether the sequences of a saved state have priorities.
  static absl::StatusOr<bool> HasPriorities(StateReader* reader);

 protected:
  static constexpr int64_t kVersionWithoutPriorities = 1;
  static constexpr int64_t kVersionWithPriorities = 2;

 private:
  const SequenceDrawOptions options_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_SEQUENCE_SOURCE_H_
