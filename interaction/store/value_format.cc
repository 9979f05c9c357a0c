#include "ding_worker/interaction/store/value_format.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/crc32c.h"

namespace ding {
namespace {

constexpr absl::string_view kMagic = "DSTO";
constexpr uint16_t kVersion = 2;
constexpr size_t kFixedBytes = 20;
constexpr size_t kChecksumBytes = 4;

}  // namespace

int64_t ValueHeaderBytes(absl::string_view name) {
  return static_cast<int64_t>(kFixedBytes + name.size());
}

std::string MakeValueHeader(absl::string_view name, absl::Span<const absl::string_view> pieces,
                            int64_t size) {
  std::string header(kMagic);
  AppendNumber(kVersion, &header);
  AppendNumber(static_cast<uint16_t>(name.size()), &header);
  AppendNumber(static_cast<uint64_t>(size), &header);
  uint32_t crc = Crc32c(name, Crc32c(header));
  for (const absl::string_view piece : pieces) crc = Crc32c(piece, crc);
  AppendNumber(crc, &header);
  header.append(name.data(), name.size());
  return header;
}

std::string DamageOfHeader(absl::string_view name, absl::string_view header, int64_t stored) {
  ByteCursor cursor(header);
  const absl::string_view magic = cursor.TakeBytes(kMagic.size());
  const auto version = cursor.Take<uint16_t>();
  const auto name_size = cursor.Take<uint16_t>();
  const auto size = cursor.Take<uint64_t>();
  cursor.TakeBytes(kChecksumBytes);
  if (!cursor.ok()) return absl::StrCat("it has only ", stored, " bytes");
  if (magic != kMagic) return absl::StrCat(stored, " bytes that are not a value of a store");
  if (version != kVersion) {
    return absl::StrCat("it has version ", version, ", this program reads version ", kVersion);
  }
  const absl::string_view found = cursor.TakeBytes(std::min<size_t>(cursor.left(), name_size));
  if (name_size != name.size() || found != name) {
    return absl::StrCat("it is the value of '", absl::CHexEscape(found),
                        found.size() < name_size ? "..." : "", "', expected that of '", name, "'");
  }
  const auto there = static_cast<uint64_t>(stored - ValueHeaderBytes(name));
  if (size == there) return "";
  return absl::StrCat("it has ", there, " bytes, and was put with ", size);
}

std::string DamageOfValue(absl::string_view name, absl::string_view header,
                          absl::string_view value) {
  const auto size = static_cast<int64_t>(value.size());
  if (header == MakeValueHeader(name, {value}, size)) return "";
  const std::string damage =
      DamageOfHeader(name, header, static_cast<int64_t>(header.size() + value.size()));
  return damage.empty() ? absl::StrCat("the checksum of its ", size, " bytes does not match")
                        : damage;
}

}  // namespace ding
