// Finds the rows that were collected at or before a learner iteration, in whatever order they were
// pushed. A run of consecutive rows of the same iteration is one entry.
//
// Memory:  about 50 bytes per run.
// Cost:    O(log runs) per run; next to nothing per row.
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_STALENESS_INDEX_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_STALENESS_INDEX_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/types/span.h"

namespace ding {

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

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_STALENESS_INDEX_H_
