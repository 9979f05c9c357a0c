#include "ding_worker/metrics/sink.h"

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MultiSinkTest, PassesEveryCallToEverySink) {
  const auto first = std::make_shared<RecordingSink>();
  const auto second = std::make_shared<RecordingSink>();
  MultiSink both({first, second});
  both.Scalar("a", 1, 2.5);
  both.Histogram("h", 2, {1.0f, 3.0f});
  both.Text("t", 3, "hello");
  both.EncodedImage("i", 4, 20, 10, "GIF");
  for (const auto& sink : {first, second}) {
    ASSERT_EQ(sink->scalars().size(), 1);
    EXPECT_EQ(sink->scalars()[0].tag, "a");
    EXPECT_EQ(sink->scalars()[0].step, 1);
    EXPECT_EQ(sink->scalars()[0].value, 2.5);
    ASSERT_EQ(sink->images().size(), 1);
    EXPECT_EQ(sink->images()[0].tag, "i");
    EXPECT_EQ(sink->images()[0].step, 4);
    EXPECT_EQ(sink->images()[0].width, 20);
    EXPECT_EQ(sink->images()[0].height, 10);
    EXPECT_EQ(sink->images()[0].file, "GIF");
    ASSERT_EQ(sink->histograms().size(), 1);
    EXPECT_EQ(sink->histograms()[0].step, 2);
    EXPECT_THAT(sink->histograms()[0].values, ElementsAre(1.0f, 3.0f));
    ASSERT_EQ(sink->texts().size(), 1);
    EXPECT_EQ(sink->texts()[0].step, 3);
    EXPECT_EQ(sink->texts()[0].text, "hello");
  }
}

TEST(MultiSinkTest, FlushReachesEverySinkAndReturnsTheFirstError) {
  const auto first = std::make_shared<RecordingSink>();
  const auto second = std::make_shared<RecordingSink>();
  MultiSink both({first, second});
  first->set_flush_status(absl::ResourceExhaustedError("first is full"));
  second->set_flush_status(absl::InternalError("second is broken"));
  EXPECT_THAT(both.Flush(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("first is full")));
  EXPECT_EQ(second->flush_count(), 1);
  EXPECT_THAT(both.Flush(), IsOk());
}

TEST(MultiSinkTest, LivesUntilItsLastOwnerIsDestroyed) {
  const auto recording = std::make_shared<RecordingSink>();
  auto one = std::make_unique<MultiSink>(std::vector<std::shared_ptr<MetricSink>>{recording});
  MultiSink other({recording});
  one.reset();
  other.Scalar("a", 0, 1.0);
  EXPECT_THAT(recording->ValuesOf("a"), ElementsAre(1.0));
}

TEST(ScalarsTest, WritesOneTagPerName) {
  RecordingSink sink;
  Scalars(&sink, "learner/q", 7, std::map<std::string, double>{{"max", 3}, {"min", -1}});
  EXPECT_THAT(sink.ScalarTags(), ElementsAre("learner/q/max", "learner/q/min"));
  EXPECT_THAT(sink.ValuesOf("learner/q/min"), ElementsAre(-1));
  EXPECT_EQ(sink.scalars()[0].step, 7);
}

TEST(NullSinkTest, IgnoresAllCalls) {
  NullSink sink;
  sink.Scalar("a", 0, std::numeric_limits<double>::quiet_NaN());
  sink.Histogram("h", 0, {});
  sink.Text("t", 0, "");
  sink.EncodedImage("i", 0, 1, 1, "");
  EXPECT_THAT(sink.Flush(), IsOk());
}

TEST(RecordingSinkTest, KeepsNothingOfAnEmptyHistogram) {
  RecordingSink sink;
  sink.Histogram("h", 0, {});
  EXPECT_THAT(sink.histograms(), IsEmpty());
}

TEST(MetricAxisTest, ComponentsWriteOverTheAxisThatTheSinkWants) {
  constexpr int64_t kUnknown = -1;
  const MultiSink both({});
  EXPECT_TRUE(WritesOverTrainIters(both, 5));
  EXPECT_TRUE(WritesOverEnvSteps(both, 5));
  EXPECT_FALSE(WritesOverEnvSteps(both, kUnknown));
  const MultiSink env_steps({}, MetricAxis::kEnvStep);
  EXPECT_FALSE(WritesOverTrainIters(env_steps, 5));
  EXPECT_TRUE(WritesOverEnvSteps(env_steps, 0));
  EXPECT_TRUE(WritesOverTrainIters(env_steps, kUnknown)) << "they do not get lost";
  const MultiSink train_iters({}, MetricAxis::kTrainIter);
  EXPECT_TRUE(WritesOverTrainIters(train_iters, 5));
  EXPECT_FALSE(WritesOverEnvSteps(train_iters, 5));
}

}  // namespace
}  // namespace ding
