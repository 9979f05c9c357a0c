// Columns as policies use them: fields that are found by name in a batch, sampled transitions, and
// reusable columns for outputs.
#ifndef DING_WORKER_POLICY_BATCH_COLUMNS_H_
#define DING_WORKER_POLICY_BATCH_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

// Finds the fields of a spec by name among the columns of a batch. The batch may have them in any
// order, and may have further columns. Nothing is copied.
//
//     batch   reward | obs/b | action | obs/a          spec {obs/a, obs/b}
//                        └────────┼────────┘
//     Bind()                   obs/a | obs/b           a view of exactly the fields of the spec
//
// Ownership: owns no data; a view is valid as long as the batch, and until the next Bind().
// Threads:   thread-compatible.
class ColumnBinding {
 public:
  // The column of field f has the name `prefix` + f. Messages begin with `where`.
  ColumnBinding(SpecPtr spec, absl::string_view prefix, absl::string_view where);
  // Not copyable, because views point to its pointer table.
  ColumnBinding(const ColumnBinding&) = delete;
  ColumnBinding& operator=(const ColumnBinding&) = delete;

  const SpecPtr& spec() const { return spec_; }

  // Finds the columns of batches with the layout `batch`. After an error Bind() must not be called.
  //   kInvalidArgument  a column is missing or has another dtype or shape
  absl::Status Resolve(const Spec& batch);
  // Returns the view of `batch`, which must have the layout of the last Resolve().
  ColumnsView Bind(const ColumnsView& batch);
  // Checks that all values of a view of Bind() are finite and all categories exist.
  //   kInvalidArgument  a category does not exist; names column and row
  //   kInternal         NaN or infinity; names column and row
  absl::Status CheckValues(const ColumnsView& view) const;
  // Calls Resolve() if the spec differs from the last batch's spec, then Bind() and CheckValues().
  // kInvalidArgument if `batch` has no rows.
  absl::StatusOr<ColumnsView> Read(const Batch& batch);

 private:
  const SpecPtr spec_;
  const std::string prefix_;
  const std::string where_;
  std::vector<int> fields_;  // indices in the batch
  SpecPtr resolved_;         // spec of the last Read()
  std::vector<std::byte*> columns_;
};

// A view of B transitions.
struct TransitionView {
  ColumnsView obs;                   // [B, ...] with the fields of the observation spec
  ColumnsView next_obs;              // likewise
  ColumnsView action;                // [B, ...] with the fields of the action spec
  absl::Span<const float> reward;    // [B]
  absl::Span<const float> discount;  // [B]
  absl::Span<const float> weight;    // [B]; empty: all weights are 1
};

// Reads the columns of a sampled batch of transitions (data/sample_columns.h) for off-policy
// algorithms.
//
// Columns are found by name, in any order and among further columns; nothing is copied. The reader
// refuses values that would silently damage training: NaN and infinity in observations, rewards,
// discounts and weights, and categories that do not exist.
//
// Ownership: owns no data.   Threads: thread-compatible.
class SampledTransitionReader {
 public:
  SampledTransitionReader(SpecPtr observation, SpecPtr action);
  // Not copyable, because views point to its pointer tables.
  SampledTransitionReader(const SampledTransitionReader&) = delete;
  SampledTransitionReader& operator=(const SampledTransitionReader&) = delete;

  // The view is valid as long as `batch`, and until the next Read().
  //   kInvalidArgument  no rows; a column is missing or has another dtype or shape; an action is
  //                     not a category
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

// Reusable columns for the outputs of a network. They grow to the largest requested number of rows
// and allocate nothing while sizes repeat.
//
// Ownership: owns the memory; a view is valid until Rows() is called with more rows.
// Threads:   thread-compatible.
class ScratchColumns {
 public:
  explicit ScratchColumns(SpecPtr spec) : spec_(std::move(spec)) {}

  // Returns columns of `rows` rows with undefined content. kResourceExhausted if memory runs out.
  absl::StatusOr<MutableColumnsView> Rows(int64_t rows) {
    if (!block_.has_value() || block_->capacity_rows() < rows) {
      DING_ASSIGN_OR_RETURN(BatchBuilder block, BatchBuilder::Create(spec_, rows));
      block_.emplace(std::move(block));
    }
    return block_->view().Slice(0, rows);
  }

 private:
  const SpecPtr spec_;
  std::optional<BatchBuilder> block_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_BATCH_COLUMNS_H_
