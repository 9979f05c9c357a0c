#include "ding_worker/base/utf8.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ding {
namespace {

// Returns the length of the character at the beginning of the text, which is not empty; 0 if it is
// not UTF-8.
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

// Whether readers of YAML or of lines refuse the character, or end a line at it: U+0080 to U+009F,
// U+2028, U+2029, U+FFFE and U+FFFF.
bool IsUnprintable(absl::string_view character) {
  if (character.size() == 1) return absl::ascii_iscntrl(static_cast<unsigned char>(character[0]));
  return (character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0) ||
         character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9" ||
         character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF";
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
    const absl::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
    if (bytes == 0 || (IsUnprintable(character) && keep.find(text[0]) == keep.npos)) {
      for (const char byte : character) {
        absl::StrAppendFormat(&printable, "\\x%02X", static_cast<unsigned char>(byte));
      }
    } else {
      absl::StrAppend(&printable, character);
    }
    text.remove_prefix(character.size());
  }
  return printable;
}

}  // namespace ding
