// Reads the columns of a sampled batch of transitions (data/sample_columns.h) for off-policy algorithms.
//
// Columns are found by name, in any order and among further columns; nothing is copied. The reader
// refuses values that would silently damage training: NaN and infinity in observations, rewards,
// discounts and weights, and categories that do not exist.
//
// Ownership: owns no data.   Threads: thread-compatible.
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

// A view of B transitions.
struct TransitionView {
  ColumnsView obs;                   // [B, ...] with the fields of the observation spec
  ColumnsView next_obs;              // likewise
  ColumnsView action;                // [B, ...] with the fields of the action spec
  absl::Span<const float> reward;    // [B]
  absl::Span<const float> discount;  // [B]
  absl::Span<const float> weight;    // [B]; empty: all weights are 1
};

class SampledTransitionReader {
 public:
  SampledTransitionReader(SpecPtr observation, SpecPtr action);
  // Not copyable, because views point to its pointer tables.
  SampledTransitionReader(const SampledTransitionReader&) = delete;
  SampledTransitionReader& operator=(const SampledTransitionReader&) = delete;

  // The view is valid as long as `batch`, and until the next Read().
  //   kInvalidArgument  no rows; a column is missing or has another dtype or shape; an action is not a
  //                     category
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
  SpecPtr resolved_;  // spec of the last batch
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_SAMPLED_TRANSITION_READER_H_
