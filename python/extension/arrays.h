// Numpy arrays as columns of rows, and the exceptions that errors become in Python.
//
// Threads: the caller holds the GIL.
// Errors:  the functions throw Python exceptions. If a value is wrong, the text begins with its
//          place in the argument.
#ifndef DING_WORKER_PYTHON_EXTENSION_ARRAYS_H_
#define DING_WORKER_PYTHON_EXTENSION_ARRAYS_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

// Where a value comes from, for messages: "'obs'", or "transition 3: 'obs'".
struct ValuePlace {
  const std::string& name;
  int64_t row = -1;  // -1: the value is a whole column
  std::string Text() const;
};

// ValueError for a wrong argument, FileNotFoundError for a missing file, FileExistsError for one
// that exists, MemoryError without the memory, NotImplementedError, or RuntimeError, with the
// message of the status.
void ThrowIfError(const absl::Status& status);
template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  ThrowIfError(value.status());
  return *std::move(value);
}

// Returns `value` if it is an array, else the array that numpy makes of it. TypeError: this is an
// array of objects.
pybind11::object AsArray(pybind11::handle value, const ValuePlace& place);
// The shape of an array.
absl::Span<const int64_t> ArrayShape(pybind11::handle array);
// The element type of an array; nullopt for one that rows cannot have.
std::optional<DType> ArrayDType(pybind11::handle array);
// "float32[64, 4]".
std::string ArrayText(pybind11::handle array);

// The elements of `value`, row-major, as `field` has them: [rows, ...shape], or [...shape] if
// `rows` is below 0. float64 becomes float32, as in DI-engine's to_tensor. `*keep` keeps them
// alive.
// ValueError: another type or shape; the text has both.
const std::byte* ReadArray(pybind11::handle value, const FieldSpec& field, int64_t rows,
                           const ValuePlace& place, pybind11::object* keep);
// Copies the value of one row to `to`. Unlike ReadArray(), also takes Python numbers: an int for a
// float.
void ReadRow(pybind11::handle value, const FieldSpec& field, const ValuePlace& place,
             std::byte* to);

// Returns an array of the elements at `data`, which `owner` keeps alive; null: a copy of them.
pybind11::object MakeArray(DType dtype, absl::Span<const int64_t> shape, const std::byte* data,
                           pybind11::handle owner);
// Replaces all elements of an array that MakeArray() returned.
void OverwriteArray(pybind11::handle array, const std::byte* data);
// Returns a one-dimensional array of objects.
pybind11::object MakeObjectArray(absl::Span<const pybind11::object> values);
// The owner of arrays that are columns of `batch`.
pybind11::object BatchOwner(Batch batch);

// A state as a dict of arrays by name, which are copies; and back: `keep` holds what it refers to.
pybind11::dict StateToDict(const StateDict& state);
StateDict StateOfDict(const pybind11::dict& dict, std::vector<pybind11::object>* keep);

}  // namespace ding

#endif  // DING_WORKER_PYTHON_EXTENSION_ARRAYS_H_
