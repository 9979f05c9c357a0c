#include "ding_worker/data/columns.h"

#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace ding::internal_data {

void ThrowWrongType(const Spec& spec, int field, DType asked) {
  throw std::invalid_argument(absl::StrCat("field '", spec.field(field).name, "' is ",
                                           spec.field(field).DebugString(), ", accessed as ",
                                           DTypeName(asked)));
}

void ThrowNoSuchField(const Spec& spec, int field) {
  throw std::invalid_argument(
      absl::StrCat("there is no field ", field, ", only ", spec.size(), " fields"));
}

}  // namespace ding::internal_data
