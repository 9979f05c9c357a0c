// Draws items (data/items.h) of which each stands for a whole episode, whose rows lie elsewhere.
// EpisodeReplayBuffer draws in this way if it is pushed items.
//
//     capacity_rows 10    items   6  3  4  2  1        the lengths of episodes, the oldest first
//                                    [---------]       the newest with at most 10 rows: these are candidates
//
// Older items leave the store when others are pushed; an item of more than `capacity_rows` rows is never a
// candidate.
//
// Threads: as DrawSource.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_EPISODE_ITEM_SOURCE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_EPISODE_ITEM_SOURCE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/selection/row_source.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {

class EpisodeItemSource : public RowSource {
 public:
  // `store` may hold items already.
  //   kInvalidArgument  these are no items, or have an impossible length; errors of TransitionReader::Create()
  static absl::StatusOr<std::unique_ptr<EpisodeItemSource>> Create(int64_t capacity_rows,
                                                                   int64_t nstep, double gamma,
                                                                   std::shared_ptr<RowStore> store);

  absl::Status Check(const SegmentBatch& data) const override;
  void Append(const SegmentBatch& data, int64_t first_id) override;
  void Clear() override;
  std::string WhyNoCandidates() const override;
  std::vector<int64_t> Lengths() const override;

 private:
  EpisodeItemSource(int64_t capacity_rows, std::shared_ptr<TransitionReader> reader)
      : RowSource(std::move(reader)), capacity_rows_(capacity_rows) {}
  // Counts the newest items of the store, which have these lengths.
  void Add(absl::Span<const int64_t> lengths);

  const int64_t capacity_rows_;
  std::deque<int64_t> lengths_;  // of the items in the store
  int64_t rows_ = 0;             // their sum
  int64_t longest_ = 0;          // of all that were pushed
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_EPISODE_ITEM_SOURCE_H_
