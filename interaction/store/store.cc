#include "ding_worker/interaction/store/store.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr size_t kMaxKeyBytes = 200;

bool IsPart(absl::string_view part) {
  return !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace

absl::Status CheckStoreKey(absl::string_view key) {
  if (key.size() <= kMaxKeyBytes) {
    const std::vector<absl::string_view> parts = absl::StrSplit(key, '/');
    if (std::all_of(parts.begin(), parts.end(), IsPart)) return absl::OkStatus();
  }
  const absl::string_view shown = key.substr(0, kMaxKeyBytes);
  return absl::InvalidArgumentError(absl::StrCat(
      "'", absl::CHexEscape(shown), shown.size() < key.size() ? "..." : "", "' of ", key.size(),
      " bytes is not a store key; expected at most ", kMaxKeyBytes,
      " bytes: parts of letters, digits, '.', '_' and '-', not beginning with '.', with '/' "
      "between them"));
}

absl::StatusOr<std::unique_ptr<Log>> Store::OpenLog(const LogOptions& /*options*/) {
  return absl::FailedPreconditionError(
      absl::StrCat("store '", url(), "' cannot hold a journal: expected a store in Redis"));
}

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
