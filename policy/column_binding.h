// The fields of a spec, found by name among the columns of a batch, in whatever order and among
// whatever others; nothing is copied.
//
//     batch   reward | obs/b | action | obs/a          spec {obs/a, obs/b}
//                        └────────┼────────┘
//     Bind()                   obs/a | obs/b           a view with just the fields of the spec
//
// Ownership: none of the data; a view holds as long as the batch, and until the next Bind().
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
  // The column of field f is named `prefix` + f. `where` begins messages.
  ColumnBinding(SpecPtr spec, absl::string_view prefix, absl::string_view where);
  // Views point at the pointer table inside.
  ColumnBinding(const ColumnBinding&) = delete;
  ColumnBinding& operator=(const ColumnBinding&) = delete;

  const SpecPtr& spec() const { return spec_; }

  // Finds the columns of batches that are laid out as `batch`. After an error nothing can be bound.
  //   kInvalidArgument  a column that is missing or of another dtype or shape
  absl::Status Resolve(const Spec& batch);
  // `batch` is laid out as that of the last Resolve().
  ColumnsView Bind(const ColumnsView& batch);
  // OK if all values of a view of Bind() are finite, and all categories exist.
  //   kInvalidArgument  a category that does not exist; names column and row
  //   kInternal         NaN or infinity
  absl::Status CheckValues(const ColumnsView& view) const;
  // All of these for a batch, which has to have rows; it is resolved if its spec is not that of the
  // last one.
  absl::StatusOr<ColumnsView> Read(const Batch& batch);

 private:
  const SpecPtr spec_;
  const std::string prefix_;
  const std::string where_;
  std::vector<int> fields_;  // of the batch
  SpecPtr resolved_;         // by Read()
  std::vector<std::byte*> columns_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_COLUMN_BINDING_H_
