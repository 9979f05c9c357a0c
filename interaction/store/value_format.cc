#include "ding_worker/interaction/store/value_format.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/crc32c.h"

namespace ding {
namespace {

constexpr absl::string_view kMagic = "DSTO";
constexpr uint16_t kVersion = 1;

std::string HeaderWithoutChecksum(int64_t size) {
  std::string header(kMagic);
  AppendNumber(kVersion, &header);
  AppendNumber(uint16_t{0}, &header);
  AppendNumber(static_cast<uint64_t>(size), &header);
  return header;
}

}  // namespace

std::string MakeValueHeader(absl::Span<const absl::string_view> pieces, int64_t size) {
  std::string header = HeaderWithoutChecksum(size);
  uint32_t crc = Crc32c(header);
  for (const absl::string_view piece : pieces) crc = Crc32c(piece, crc);
  AppendNumber(crc, &header);
  return header;
}

std::string DamageOfValue(absl::string_view header, absl::string_view value) {
  const auto size = static_cast<int64_t>(value.size());
  if (header == MakeValueHeader({value}, size)) return "";
  const bool known = absl::StartsWith(header, HeaderWithoutChecksum(size));
  return known ? absl::StrCat("the checksum of its ", size, " bytes is another")
               : absl::StrCat("its header is not that of ", size, " bytes");
}

}  // namespace ding
