// Finds the fields of a spec by name among the columns of a batch, which may be in any order and have
// further columns. Nothing is copied.
//
//     batch   reward | obs/b | action | obs/a          spec {obs/a, obs/b}
//                        └────────┼────────┘
//     Bind()                   obs/a | obs/b           a view of exactly the fields of the spec
//
// Ownership: owns no data; a view is valid as long as the batch, and until the next Bind().
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_COLUMN_BINDING_H_
#define DING_WORKER_POLICY_COLUMN_BINDING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

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
  // Calls Resolve() if the spec differs from that of the last batch, then Bind() and CheckValues().
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

}  // namespace ding

#endif  // DING_WORKER_POLICY_COLUMN_BINDING_H_
