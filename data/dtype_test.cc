#include "ding_worker/data/spec.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr DType kAll[] = {DType::kBool,  DType::kUint8,   DType::kInt32,
                          DType::kInt64, DType::kFloat32, DType::kFloat64};

TEST(DType, NamesRoundTrip) {
  for (const DType dtype : kAll) EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
  EXPECT_EQ(DTypeName(DType::kFloat32), "float32");
  EXPECT_EQ(ParseDType("float16"), std::nullopt);
  EXPECT_EQ(ParseDType(""), std::nullopt);
}

// Files contain the values.
TEST(DType, ValuesNeverChange) {
  for (int i = 0; i < 6; ++i) EXPECT_EQ(static_cast<int>(kAll[i]), i);
}

TEST(DType, SizesEqualTheStoredTypes) {
  EXPECT_EQ(SizeOf(DType::kBool), 1);
  EXPECT_EQ(SizeOf(DType::kUint8), 1);
  EXPECT_EQ(SizeOf(DType::kInt32), 4);
  EXPECT_EQ(SizeOf(DType::kFloat32), 4);
  EXPECT_EQ(SizeOf(DType::kInt64), 8);
  EXPECT_EQ(SizeOf(DType::kFloat64), 8);
}

TEST(DType, EachIsStoredAsExactlyOneType) {
  for (const DType dtype : kAll) {
    EXPECT_EQ(StoredAs<uint8_t>(dtype) + StoredAs<int32_t>(dtype) + StoredAs<int64_t>(dtype) +
                  StoredAs<float>(dtype) + StoredAs<double>(dtype),
              1)
        << DTypeName(dtype);
  }
  EXPECT_TRUE(StoredAs<uint8_t>(DType::kBool));
  EXPECT_TRUE(StoredAs<float>(DType::kFloat32));
  EXPECT_EQ(kDTypeOf<int64_t>, DType::kInt64);
  EXPECT_TRUE(IsFloating(DType::kFloat64));
  EXPECT_FALSE(IsFloating(DType::kInt32));
}

}  // namespace
}  // namespace ding
