// Reads the columns of a sampled batch of transitions (data/sample_columns.h): what off-policy
// algorithms begin an iteration with.
//
// Columns are found by name, in whatever order and among whatever others; nothing is copied. What a
// network or a loss would turn into silent damage is refused here: NaN and infinity in
// observations, rewards, discounts and weights, and categories that do not exist.
//
// Ownership: owns none of the data.   Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_SAMPLED_TRANSITION_READER_H_
#define DING_WORKER_POLICY_SAMPLED_TRANSITION_READER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/column_binding.h"

namespace ding {

// B transitions.
struct TransitionView {
  ColumnsView obs;                   // [B, ...] with exactly the fields of the observation spec
  ColumnsView next_obs;              // the same
  ColumnsView action;                // [B, ...] with exactly the fields of the action spec
  absl::Span<const float> reward;    // [B]
  absl::Span<const float> discount;  // [B]
  absl::Span<const float> weight;    // [B], or empty: all 1
};

class SampledTransitionReader {
 public:
  SampledTransitionReader(SpecPtr observation, SpecPtr action);
  // Views point at the pointer tables inside.
  SampledTransitionReader(const SampledTransitionReader&) = delete;
  SampledTransitionReader& operator=(const SampledTransitionReader&) = delete;

  // The view holds as long as `batch`, and until the next Read().
  //   kInvalidArgument  no rows; a column that is missing or of another dtype or shape; an action
  //                     that is no category
  //   kInternal         a value is NaN or infinite; names column and row
  absl::StatusOr<TransitionView> Read(const Batch& batch);

 private:
  absl::Status Resolve(const Spec& batch);

  ColumnBinding obs_;
  ColumnBinding next_obs_;
  ColumnBinding action_;
  // Reward and discount.
  ColumnBinding scalars_;
  ColumnBinding weight_;
  bool has_weight_ = false;
  SpecPtr resolved_;  // of the batch that the columns above were found in
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_SAMPLED_TRANSITION_READER_H_
