#include "ding_worker/base/utf8.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace ding {
namespace {

// Returns the length of the character at the beginning of the text, which is not empty; 0 if it is not UTF-8.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  // These bounds exclude longer forms of a character, surrogates, and numbers above U+10FFFF.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string PrintableUtf8(absl::string_view text, absl::string_view keep) {
  std::string printable;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (bytes == 0 || (absl::ascii_iscntrl(first) && keep.find(text[0]) == keep.npos)) {
      absl::StrAppendFormat(&printable, "\\x%02X", first);
      text.remove_prefix(1);
    } else {
      printable.append(text.data(), bytes);
      text.remove_prefix(bytes);
    }
  }
  return printable;
}

}  // namespace ding
