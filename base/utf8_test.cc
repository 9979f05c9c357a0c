#include "ding_worker/base/utf8.h"

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(Utf8Test, IsUtf8_AcceptsCharactersOfAllLengths) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("a\n \xC3\xBC \xE5\xA5\x96 \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF"));
}

TEST(Utf8Test, IsUtf8_RefusesWhatDecodersRefuse) {
  for (const absl::string_view text :
       {"\x80", "\xFF", "\xC3", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF",
        "\xF4\x90\x80\x80", "\xE5\xA5", "\xE5\xA5z", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(IsUtf8(text)) << PrintableUtf8(text);
  }
}

TEST(Utf8Test, PrintableUtf8_ShowsOtherBytesByTheirDigits) {
  EXPECT_EQ(PrintableUtf8("br_\xE5\x90\x8D \xC3\xBC"), "br_\xE5\x90\x8D \xC3\xBC");
  EXPECT_EQ(PrintableUtf8("a\xFF\xC3z\n\x7F"), "a\\xFF\\xC3z\\x0A\\x7F");
  EXPECT_EQ(PrintableUtf8("a\n\tb\r", "\n\t"), "a\n\tb\\x0D");
  EXPECT_EQ(PrintableUtf8(absl::string_view("\0", 1)), "\\x00");
  // U+0085, U+2028 and U+FFFE, which end lines or are refused by readers of YAML; beside them
  // U+00A0, U+2027 and U+FFFD.
  EXPECT_EQ(PrintableUtf8("\xC2\x85 \xE2\x80\xA8 \xEF\xBF\xBE"),
            "\\xC2\\x85 \\xE2\\x80\\xA8 \\xEF\\xBF\\xBE");
  EXPECT_EQ(PrintableUtf8("\xC2\xA0\xE2\x80\xA7\xEF\xBF\xBD"), "\xC2\xA0\xE2\x80\xA7\xEF\xBF\xBD");
}

}  // namespace
}  // namespace ding
