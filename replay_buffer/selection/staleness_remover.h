// Finds the rows that are too stale to learn from: those that were collected `max_staleness` or more
// iterations of the learner ago. Rows without a column collect_iter are never found.
//
// Memory:  StalenessIndex; none without a limit.
// Threads: thread-compatible: the buffer's lock is held for every call.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_STALENESS_REMOVER_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_STALENESS_REMOVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ding_worker/replay_buffer/selection/staleness_index.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

class StalenessRemover {
 public:
  // `max_staleness`: at least 1; not set: no limit. `collect_iter`: the int64 field of the rows, if
  // there is one.
  StalenessRemover(std::optional<int64_t> max_staleness, std::optional<int> collect_iter)
      : max_staleness_(max_staleness), collect_iter_(collect_iter) {}

  // Must be called after `store` has appended the rows from `first_id` on and evicted those before its
  // begin_id().
  void Append(const RowStore& store, int64_t first_id) {
    index_.EvictBefore(store.begin_id());
    if (!max_staleness_.has_value() || !collect_iter_.has_value()) return;
    std::vector<RowLocation> rows;
    for (int64_t id = first_id; id < store.end_id(); ++id) rows.push_back(store.Locate(id));
    std::vector<int64_t> iters(rows.size());
    store.Gather(*collect_iter_, rows, reinterpret_cast<std::byte*>(iters.data()));
    index_.Add(first_id, iters);
  }

  // Calls retire(begin id, end id) for the rows that are too stale at `learner_iter`, once each.
  template <typename F>
  void Take(int64_t learner_iter, F retire) {
    // Nothing was collected before iteration 0.
    if (!max_staleness_.has_value() || learner_iter < *max_staleness_) return;
    index_.TakeUpTo(learner_iter - *max_staleness_, retire);
  }

  // The number of entries of the index, each of about 50 bytes.
  int64_t runs() const { return index_.runs(); }

 private:
  const std::optional<int64_t> max_staleness_;
  const std::optional<int> collect_iter_;
  StalenessIndex index_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_STALENESS_REMOVER_H_
