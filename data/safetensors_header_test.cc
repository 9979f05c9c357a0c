#include "ding_worker/data/safetensors_header.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

SafetensorsEntry Entry(const std::string& name, DType dtype, const Shape& shape, int64_t begin,
                       int64_t end) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = dtype;
  entry.shape = shape;
  entry.begin = begin;
  entry.end = end;
  return entry;
}

TEST(SafetensorsHeaderTest, RoundTripKeepsTheOrder) {
  const SafetensorsHeader header{{Entry("w \"\xc3\xa9\"", DType::kFloat32, {2, 3}, 8, 32),
                                  Entry("a", DType::kInt64, {}, 0, 8)},
                                 {{"who", "test"}}};
  DING_ASSERT_OK_AND_ASSIGN(const std::string bytes, MakeSafetensorsHeader(header));
  EXPECT_EQ(bytes.size() % 8, 0u);
  EXPECT_EQ(static_cast<size_t>(static_cast<unsigned char>(bytes[0])), bytes.size() - 8);
  DING_ASSERT_OK_AND_ASSIGN(const SafetensorsHeader parsed,
                            ParseSafetensorsHeader(bytes.substr(kSafetensorsLengthBytes)));
  EXPECT_THAT(parsed.metadata, ElementsAre(Pair("who", "test")));
  ASSERT_THAT(parsed.entries, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(parsed.entries[i].name, header.entries[i].name);
    EXPECT_EQ(parsed.entries[i].dtype, header.entries[i].dtype);
    EXPECT_EQ(parsed.entries[i].shape, header.entries[i].shape);
    EXPECT_EQ(parsed.entries[i].begin, header.entries[i].begin);
    EXPECT_EQ(parsed.entries[i].end, header.entries[i].end);
  }
  EXPECT_THAT(CheckSafetensorsLayout(parsed.entries, 32), IsOk());
}

TEST(SafetensorsHeaderTest, TextThatIsNotUtf8IsRefused) {
  EXPECT_THAT(MakeSafetensorsHeader({{Entry("\xff", DType::kBool, {}, 0, 1)}, {}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not UTF-8")));
  EXPECT_THAT(MakeSafetensorsHeader({{}, {{"who", "\xff"}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not UTF-8")));
}

TEST(SafetensorsHeaderTest, InvalidHeadersAreRefused) {
  const auto tensor = [](const std::string& fields) {
    return absl::StrCat("{\"t\":{", fields, "}}");
  };
  EXPECT_THAT(ParseSafetensorsHeader("{"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bad header: not JSON at byte")));
  EXPECT_THAT(ParseSafetensorsHeader("[]"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("unexpected an array")));
  EXPECT_THAT(ParseSafetensorsHeader(tensor(R"("dtype":"U8","shape":[1])")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("tensor 't' has not all of dtype")));
  EXPECT_THAT(
      ParseSafetensorsHeader(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1])")),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("tensor 't' has 1 data_offsets, not 2")));
  EXPECT_THAT(ParseSafetensorsHeader(tensor(R"("dtype":"U8","shape":[-1])")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("unexpected a negative number")));
  EXPECT_THAT(ParseSafetensorsHeader(tensor(R"("dtype":"F16")")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("has dtype 'F16'; known are")));
}

TEST(SafetensorsHeaderTest, TensorsFillTheDataWithoutGapOrOverlap) {
  const auto check = [](const std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
    return CheckSafetensorsLayout(entries, data_bytes);
  };
  const SafetensorsEntry first = Entry("a", DType::kInt32, {2}, 0, 8);
  EXPECT_THAT(check({first}, 8), IsOk());
  EXPECT_THAT(check({first}, 9),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("the tensors have 8 bytes, the file has 9 for them")));
  EXPECT_THAT(check({Entry("b", DType::kBool, {1}, 9, 10), first}, 10),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("'b' begins at byte 9 of the data, expected 8")));
  EXPECT_THAT(check({Entry("b", DType::kBool, {1}, 7, 8), first}, 8),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("expected 8")));
  EXPECT_THAT(check({Entry("a", DType::kInt32, {3}, 0, 8)}, 8),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is said to be at bytes 0 to 8")));
}

}  // namespace
}  // namespace ding
