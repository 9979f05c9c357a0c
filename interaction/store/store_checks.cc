#include "ding_worker/interaction/store/store_checks.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Status CheckKey(const Store& store, absl::string_view key) {
  return Annotate(CheckStoreKey(key), absl::StrCat("store '", store.url(), "'"));
}

absl::StatusOr<int64_t> CheckPut(const Store& store, absl::string_view key,
                                 absl::Span<const absl::string_view> pieces) {
  DING_RETURN_IF_ERROR(CheckKey(store, key));
  int64_t size = 0;
  for (const absl::string_view piece : pieces) size += static_cast<int64_t>(piece.size());
  if (size <= kMaxValueBytes) return size;
  return absl::InvalidArgumentError(absl::StrCat("store '", store.url(), "': '", key, "' of ", size,
                                                 " bytes, expected at most ", kMaxValueBytes));
}

absl::Status NoSuchKey(const Store& store, absl::string_view key) {
  return absl::NotFoundError(absl::StrCat("store '", store.url(), "' has no '", key, "'"));
}

}  // namespace ding
