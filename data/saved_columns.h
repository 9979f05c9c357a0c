// Saves and loads columns (data/state.h): the spec of rows, and a tensor [rows, ...] per field.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_DATA_SAVED_COLUMNS_H_
#define DING_WORKER_DATA_SAVED_COLUMNS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

// Returns [rows, ...row].
Shape ColumnShape(int64_t rows, const Shape& row);

// Saves `spec` as an encoded batch without rows (data/wire.h).
absl::Status SaveSpec(const SpecPtr& spec, absl::string_view name, StateWriter* writer);
//   kNotFound                    there is no tensor of that name
//   kInvalidArgument, kDataLoss  the tensor is not a spec
absl::StatusOr<SpecPtr> LoadSpec(absl::string_view name, StateReader* reader);

// Checks that "<prefix><field's name>" has the field's dtype and the shape `expected`.
//   kInvalidArgument  what was found and what was expected
absl::Status CheckSavedColumn(const StateReader& reader, absl::string_view prefix,
                              const FieldSpec& field, const Shape& expected);

// Saves each column as "<prefix><field's name>".
absl::Status SaveColumns(const ColumnsView& columns, absl::string_view prefix, StateWriter* writer);
// Fills `columns`, which must have as many rows as were saved. After an error of CheckSavedColumn()
// nothing is changed.
absl::Status LoadColumns(absl::string_view prefix, const MutableColumnsView& columns,
                         StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_DATA_SAVED_COLUMNS_H_
