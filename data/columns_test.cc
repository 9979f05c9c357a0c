#include "ding_worker/data/columns.h"

#include <cstddef>
#include <stdexcept>
#include <string>

#include "ding_worker/data/batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ColumnsTest : public testing::Test {
 protected:
  ColumnsTest()
      : builder_(BatchBuilder::Create(MakeSpec({Box("obs", {2}), Discrete("action", 3),
                                                Scalar("done", DType::kBool)})
                                          .value(),
                                      4)
                     .value()),
        view_(builder_.view()) {
    for (int64_t row = 0; row < 4; ++row) {
      const RowRef ref = view_.row(row);
      ref.field<float>(0)[0] = static_cast<float>(row);
      ref.field<float>(0)[1] = static_cast<float>(10 * row);
      ref.field<int64_t>(1)[0] = row % 3;
      ref.field<uint8_t>(2)[0] = row == 3;
    }
  }

  BatchBuilder builder_;
  MutableColumnsView view_;
};

TEST_F(ColumnsTest, RowsAndColumnsShareTheirElements) {
  EXPECT_THAT(view_.column<float>(0), ElementsAre(0, 0, 1, 10, 2, 20, 3, 30));
  EXPECT_THAT(view_.column<int64_t>(1), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(view_.column<uint8_t>(2), ElementsAre(0, 0, 0, 1));
  const ColumnsView read_only = view_;
  EXPECT_THAT(read_only.row(2).field<float>(0), ElementsAre(2, 20));
  EXPECT_EQ(read_only.row(2).scalar<int64_t>(1), 2);
}

TEST_F(ColumnsTest, ASliceBeginsAtItsFirstRow) {
  const ColumnsView slice = ColumnsView(view_).Slice(1, 2);
  EXPECT_EQ(slice.rows(), 2);
  EXPECT_THAT(slice.column<float>(0), ElementsAre(1, 10, 2, 20));
  EXPECT_THAT(slice.row(1).field<float>(0), ElementsAre(2, 20));
  const ColumnsView of_slice = slice.Slice(1, 1);
  EXPECT_THAT(of_slice.column<int64_t>(1), ElementsAre(2));
  EXPECT_TRUE(slice.Slice(2, 0).column<float>(0).empty());
  view_.Slice(3, 1).column<int64_t>(1)[0] = 1;
  EXPECT_THAT(view_.column<int64_t>(1), ElementsAre(0, 1, 2, 1));
}

template <typename F>
std::string Thrown(F call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(ColumnsTest, AWrongTypeThrowsAndNamesTheField) {
  const ColumnsView read_only = view_;
  const auto message =
      AllOf(HasSubstr("'action'"), HasSubstr("int64"), HasSubstr("accessed as float32"));
  EXPECT_THAT(Thrown([&] { view_.column<float>(1); }), message);
  EXPECT_THAT(Thrown([&] { read_only.column<float>(1); }), message);
  EXPECT_THAT(Thrown([&] { view_.row(0).field<float>(1); }), message);
  EXPECT_THAT(Thrown([&] { read_only.row(0).field<float>(1); }), message);
  EXPECT_THAT(Thrown([&] { read_only.row(0).scalar<float>(1); }), message);
}

TEST_F(ColumnsTest, AMissingFieldThrows) {
  EXPECT_THAT(Thrown([&] { view_.column<float>(3); }), HasSubstr("no field 3, only 3 fields"));
  EXPECT_THAT(Thrown([&] { view_.row(0).field<float>(-1); }), HasSubstr("no field -1"));
}

}  // namespace
}  // namespace ding
