// Reads a saved tensor of unknown length.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_READ_VECTOR_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_READ_VECTOR_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {

// Returns the elements of the saved tensor `name`.
//   kInvalidArgument  its element type is not T
//   other             the errors of the reader, if there is no such tensor
template <typename T>
absl::StatusOr<std::vector<T>> ReadVector(StateReader* reader, absl::string_view name) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info(name));
  if (info.dtype != kDTypeOf<T>) {
    // Smaller elements than T could make `values` much larger than what was saved.
    return absl::InvalidArgumentError(absl::StrCat("saved '", name, "' is ", DTypeName(info.dtype),
                                                   ShapeString(info.shape), ", expected ",
                                                   DTypeName(kDTypeOf<T>)));
  }
  std::vector<T> values(static_cast<size_t>(NumElements(info.shape)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<T>(name, absl::MakeSpan(values)));
  return values;
}

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_READ_VECTOR_H_
