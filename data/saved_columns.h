// Columns in a state (data/state.h): the spec of rows, and a tensor [rows, ...] for each field.
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

// [rows, ...shape of a row]
Shape ColumnShape(int64_t rows, const Shape& row);

// As a batch without rows (data/wire.h).
absl::Status SaveSpec(const SpecPtr& spec, absl::string_view name, StateWriter* writer);
//   kNotFound                    nothing of that name
//   kInvalidArgument, kDataLoss  it is no spec
absl::StatusOr<SpecPtr> LoadSpec(absl::string_view name, StateReader* reader);

// OK if "<prefix><field's name>" has the field's dtype and the shape `expected`.
//   kInvalidArgument  what was found and what was expected
absl::Status CheckSavedColumn(const StateReader& reader, absl::string_view prefix,
                              const FieldSpec& field, const Shape& expected);

// Each column as "<prefix><field's name>".
absl::Status SaveColumns(const ColumnsView& columns, absl::string_view prefix, StateWriter* writer);
// Fills `columns`, of as many rows as were saved. An error of CheckSavedColumn() changes nothing.
absl::Status LoadColumns(absl::string_view prefix, const MutableColumnsView& columns,
                         StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_DATA_SAVED_COLUMNS_H_
