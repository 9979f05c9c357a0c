#include "ding_worker/base/crc32c.h"

#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/base/rng.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_base::Crc32cByTable;

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
