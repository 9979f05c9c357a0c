#include "ding_worker/base/bytes.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/utf8.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_base::Crc32cByTable;

TEST(Bytes, RoundTrip) {
  std::string bytes;
  AppendNumber(uint16_t{0x0102}, &bytes);
  AppendNumber(-2.5, &bytes);
  bytes += "abc";
  EXPECT_EQ(bytes.substr(0, 2), "\x02\x01");
  ByteCursor cursor(bytes);
  EXPECT_EQ(cursor.Take<uint16_t>(), 0x0102);
  EXPECT_EQ(cursor.Take<double>(), -2.5);
  EXPECT_EQ(cursor.left(), 3u);
  EXPECT_EQ(cursor.TakeBytes(3), "abc");
  EXPECT_TRUE(cursor.ok());
}

TEST(Bytes, EveryTakeAfterAMissingValueFails) {
  ByteCursor cursor("abc");
  EXPECT_EQ(cursor.Take<uint32_t>(), 0u);
  EXPECT_FALSE(cursor.ok());
  EXPECT_EQ(cursor.Take<uint8_t>(), 0);
  EXPECT_EQ(cursor.TakeBytes(0), "");
  EXPECT_FALSE(cursor.ok());
}

TEST(Bytes, AHugeSizeCountsAsMissing) {
  ByteCursor cursor("abc");
  EXPECT_EQ(cursor.TakeBytes(SIZE_MAX), "");
  EXPECT_FALSE(cursor.ok());
}

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(CheckedSize, SumsAndProducts_BeyondTheType_AreNull) {
  EXPECT_EQ(CheckedSum(kMax, -1), kMax - 1);
  EXPECT_EQ(CheckedSum(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedSum(kMin, -1), std::nullopt);
  EXPECT_EQ(CheckedProduct(kMax, 1), kMax);
  EXPECT_EQ(CheckedProduct(kMax, 2), std::nullopt);
  EXPECT_EQ(CheckedProduct(kMin, -1), std::nullopt);
}

TEST(CheckedSize, IsRange_AtTheEndsOfTheType) {
  EXPECT_TRUE(IsRange(0, 0, 0));
  EXPECT_TRUE(IsRange(3, 0, 3));
  EXPECT_TRUE(IsRange(1, 2, 3));
  EXPECT_TRUE(IsRange(0, kMax, kMax));
  EXPECT_FALSE(IsRange(2, 2, 3));
  EXPECT_FALSE(IsRange(4, 0, 3));
  EXPECT_FALSE(IsRange(-1, 1, 3));
  EXPECT_FALSE(IsRange(1, -1, 3));
  EXPECT_FALSE(IsRange(kMax, kMax, kMax));
  EXPECT_FALSE(IsRange(kMin, kMin, 3));
}

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

struct Vector {
  std::string bytes;
  uint32_t crc;
};

// Test vectors of RFC 3720, appendix B.4, and the check value of the CRC catalogue.
const Vector* Vectors(size_t* count) {
  static const auto* const vectors = [] {
    std::string up, down;
    for (int i = 0; i < 32; ++i) {
      up.push_back(static_cast<char>(i));
      down.push_back(static_cast<char>(31 - i));
    }
    const unsigned char read_command[48] = {
        0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
        0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    return new Vector[7]{
        {std::string(32, '\0'), 0x8A9136AA},
        {std::string(32, '\xff'), 0x62A8AB43},
        {up, 0x46DD794E},
        {down, 0x113FDB5C},
        {std::string(reinterpret_cast<const char*>(read_command), 48), 0xD9963A56},
        {"123456789", 0xE3069283},
        {"", 0},
    };
  }();
  *count = 7;
  return vectors;
}

TEST(Crc32c, KnownAnswersOnBothPaths) {
  size_t count;
  const Vector* const vectors = Vectors(&count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(Crc32c(vectors[i].bytes), vectors[i].crc) << "vector " << i;
    EXPECT_EQ(Crc32cByTable(vectors[i].bytes), vectors[i].crc) << "vector " << i;
  }
}

TEST(Crc32c, BothPathsAgreeAtEveryAlignmentAndInPieces) {
  Rng rng(1, "crc32c_test");
  for (int trial = 0; trial < 2000; ++trial) {
    // Some trials are long enough for the three blocks that are processed at the same time.
    std::string storage(rng.UniformInt(trial % 10 == 0 ? 20000 : 300) + 8, '\0');
    for (char& byte : storage) byte = static_cast<char>(rng.Next32());
    const absl::string_view bytes = absl::string_view(storage).substr(rng.UniformInt(8));
    const uint32_t crc = Crc32c(bytes);
    ASSERT_EQ(crc, Crc32cByTable(bytes)) << "trial " << trial;
    const size_t cut = rng.UniformInt(bytes.size() + 1);
    ASSERT_EQ(Crc32c(bytes.substr(cut), Crc32c(bytes.substr(0, cut))), crc) << "trial " << trial;
    ASSERT_EQ(Crc32cByTable(bytes.substr(cut), Crc32cByTable(bytes.substr(0, cut))), crc)
        << "trial " << trial;
  }
}

TEST(Crc32c, DetectsEveryFlippedBit) {
  std::string bytes = "forty bytes of text, give or take a few.";
  const uint32_t crc = Crc32c(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_NE(Crc32c(bytes), crc) << "bit " << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
}

}  // namespace
}  // namespace ding
