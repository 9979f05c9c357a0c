#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(HoldingSinkTest, PassesOnAtOnceUntilItHolds) {
  const auto inner = std::make_shared<RecordingSink>();
  HoldingSink sink(inner);
  sink.Scalar("a", 1, 0.5);
  EXPECT_THAT(inner->ValuesOf("a"), ElementsAre(0.5));
  sink.Hold();
  sink.Scalar("a", 2, 1.5);
  sink.Scalar("a", 3, 2.5);
  EXPECT_THAT(inner->ValuesOf("a"), ElementsAre(0.5));
  inner->Scalar("a", 2, 9);
  sink.Release();
  EXPECT_THAT(inner->ValuesOf("a"), ElementsAre(0.5, 9, 1.5, 2.5));
  sink.Release();
  sink.Scalar("a", 4, 3.5);
  EXPECT_THAT(inner->ValuesOf("a"), ElementsAre(0.5, 9, 1.5, 2.5, 3.5));
}

TEST(HoldingSinkTest, KeepsCopiesOfEveryKindOfRecord) {
  const auto inner = std::make_shared<RecordingSink>();
  HoldingSink sink(inner);
  sink.Hold();
  std::vector<float> values = {1, 2};
  std::string text = "text";
  std::string file = "file";
  sink.Histogram("h", 1, values);
  sink.Text("t", 2, text);
  sink.EncodedImage("i", 3, 4, 5, file);
  values = {0, 0};
  text = "gone";
  file = "lost";
  EXPECT_THAT(inner->histograms(), IsEmpty());
  EXPECT_THAT(inner->texts(), IsEmpty());
  EXPECT_THAT(inner->images(), IsEmpty());
  sink.Release();
  ASSERT_THAT(inner->histograms(), SizeIs(1));
  EXPECT_THAT(inner->histograms()[0].values, ElementsAre(1, 2));
  ASSERT_THAT(inner->texts(), SizeIs(1));
  EXPECT_EQ(inner->texts()[0].text, "text");
  ASSERT_THAT(inner->images(), SizeIs(1));
  EXPECT_EQ(inner->images()[0].file, "file");
  EXPECT_EQ(inner->images()[0].height, 5);
}

TEST(HoldingSinkTest, FlushIsThatOfTheOtherSink) {
  const auto inner = std::make_shared<RecordingSink>();
  HoldingSink sink(inner);
  sink.Hold();
  inner->set_flush_status(absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(sink.Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace ding
