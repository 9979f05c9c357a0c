#include "ding_worker/base/bytes.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace ding {
namespace {

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

}  // namespace
}  // namespace ding
