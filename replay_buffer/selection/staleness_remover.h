// Finds the rows that are too stale to learn from: those that were collected `max_staleness` or
// more iterations of the learner ago. Rows without a column collect_iter are never found.
//
// Memory:  StalenessIndex; none without a limit.
// Threads: thread-compatible: the buffer's lock is held for every call.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_STALENESS_REMOVER_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_STALENESS_REMOVER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/types/span.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

// Finds the rows that were collected at or before a learner iteration, in whatever order they were
// pushed. A run of consecutive rows of the same iteration is one entry.
//
// Memory:  about 50 bytes per run.
// Cost:    O(log runs) per run; next to nothing per row.
class StalenessIndex {
 public:
  // Adds the rows from id `first` on, which are above all earlier ids. Row first + i was collected
  // at iters[i]. A negative value means that this is not known; such a row is never found.
  void Add(int64_t first, absl::Span<const int64_t> iters) {
    for (size_t i = 0; i < iters.size();) {
      size_t end = i + 1;
      while (end < iters.size() && iters[end] == iters[i]) ++end;
      const Run run = {first + static_cast<int64_t>(i), first + static_cast<int64_t>(end),
                       iters[i]};
      if (run.iter >= 0) AddRun(run);
      i = end;
    }
  }

  // Forgets rows with ids below `id`.
  void EvictBefore(int64_t id) {
    for (; !runs_.empty() && runs_.front().end <= id; runs_.pop_front()) {
      by_iter_.erase({runs_.front().iter, runs_.front().begin});
    }
  }

  // Calls f(begin id, end id) for every run of rows of an iteration <= `iter`, and does not find
  // these rows again. The first rows of a run may be evicted already.
  template <typename F>
  void TakeUpTo(int64_t iter, F f) {
    while (!by_iter_.empty() && by_iter_.begin()->first <= iter) {
      const int64_t begin = by_iter_.begin()->second;
      by_iter_.erase(by_iter_.begin());
      const auto run =
          std::lower_bound(runs_.begin(), runs_.end(), begin,
                           [](const Run& candidate, int64_t id) { return candidate.begin < id; });
      f(begin, run->end);
    }
  }

  // The number of runs with rows that are not evicted, including runs that were taken.
  int64_t runs() const { return static_cast<int64_t>(runs_.size()); }

 private:
  struct Run {
    int64_t begin;
    int64_t end;
    int64_t iter;
  };

  void AddRun(const Run& run) {
    if (!runs_.empty() && runs_.back().end == run.begin && runs_.back().iter == run.iter) {
      runs_.back().end = run.end;
    } else {
      runs_.push_back(run);
    }
    by_iter_.emplace(run.iter, runs_.back().begin);
  }

  std::deque<Run> runs_;  // by id; those that were taken stay until they are evicted
  absl::btree_set<std::pair<int64_t, int64_t>> by_iter_;  // (iter, begin) of those not taken
};

class StalenessRemover {
 public:
  // `max_staleness`: at least 1; not set: no limit. `collect_iter`: the int64 field of the rows, if
  // there is one.
  StalenessRemover(std::optional<int64_t> max_staleness, std::optional<int> collect_iter)
      : max_staleness_(max_staleness), collect_iter_(collect_iter) {}

  // Must be called after `store` has appended the rows from `first_id` on and evicted those before
  // its begin_id().
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
