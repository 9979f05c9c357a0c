#include "ding_worker/data/columns.h"

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/checked_size.h"

namespace ding::internal_data {

void ThrowWrongType(const Spec& spec, int field, DType asked) {
  throw std::invalid_argument(absl::StrCat("field '", spec.field(field).name, "' is ",
                                           spec.field(field).DebugString(), ", accessed as ",
                                           DTypeName(asked)));
}

void ThrowNoSuchRows(int64_t begin, int64_t count, int64_t rows) {
  throw std::invalid_argument(
      absl::StrCat("there are no ", count, " rows from row ", begin, " on, only ", rows, " rows"));
}

const Spec* NoFields() {
  static const Spec* const none = new Spec();
  return none;
}

void CheckFields(const Spec& spec, const Spec* fields, int first) {
  bool same = fields != nullptr && IsRange(first, fields->size(), spec.size());
  for (int i = 0; same && i < fields->size(); ++i) {
    same = fields->row_bytes(i) == spec.row_bytes(first + i) &&
           fields->dtype(i) == spec.dtype(first + i);
  }
  if (same) return;
  throw std::invalid_argument(absl::StrCat("fields from field ", first, " on of ",
                                           spec.DebugString(), " viewed as ",
                                           fields == nullptr ? "none" : fields->DebugString()));
}

}  // namespace ding::internal_data
