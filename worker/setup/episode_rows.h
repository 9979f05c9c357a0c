// Rows of whole episodes as a policy learns from them: observation and action, and the transition
// that follows.
//
// `episodes` are indices of segments, in ascending order.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_SETUP_EPISODE_ROWS_H_
#define DING_WORKER_WORKER_SETUP_EPISODE_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

// For policies that learn from transitions (LearnAttributes::transitions).
struct TransitionOptions {
  int64_t nstep = 1;
  double gamma = 0.99;
};

int64_t RowsOf(const std::vector<Segment>& segments, absl::Span<const int64_t> episodes);

// Copies the rows of these episodes.
absl::StatusOr<Batch> TakeEpisodes(const ColumnsView& rows, const std::vector<Segment>& segments,
                                   absl::Span<const int64_t> episodes, const SpecPtr& spec);

// kInvalidArgument if there is no reward of one number.
absl::Status CheckReward(const Spec& rows);

// Returns the fields of `rows`, followed by the fields of the next observation, "reward" and
// "discount" (data/sample_columns.h).
absl::StatusOr<SpecPtr> WithTransitions(const Spec& rows, const Spec& observation);

// Appends the columns of `spec`, which WithTransitions() returned, to `taken`: the rows of these
// episodes, with the fields of observation and action.
absl::StatusOr<Batch> AddTransitions(const Batch& taken, const SegmentBatch& set,
                                     const SpecPtr& observation, const SpecPtr& spec,
                                     absl::Span<const int64_t> episodes,
                                     const TransitionOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SETUP_EPISODE_ROWS_H_
