// Reusable columns for the outputs of a network. They grow to the largest requested number of rows and
// allocate nothing while sizes repeat.
//
// Ownership: owns the memory; a view is valid until Rows() is called with more rows.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_SCRATCH_COLUMNS_H_
#define DING_WORKER_POLICY_SCRATCH_COLUMNS_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

class ScratchColumns {
 public:
  explicit ScratchColumns(SpecPtr spec) : spec_(std::move(spec)) {}

  // Returns columns of `rows` rows with undefined content. kResourceExhausted without the memory.
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

#endif  // DING_WORKER_POLICY_SCRATCH_COLUMNS_H_
