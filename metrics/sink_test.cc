#include "ding_worker/metrics/sink.h"

#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

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
  EXPECT_THAT(both.Flush(), IsResourceExhausted("first is full"));
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
  EXPECT_THAT(sink.Flush(), IsResourceExhausted());
}

SinkConfig OfType(const std::string& type) {
  SinkConfig config;
  config.set_type(type);
  return config;
}

SinkDescriptor MakesSink(std::shared_ptr<MetricSink> sink) {
  SinkDescriptor descriptor;
  descriptor.check_params = TakesNoParams;
  descriptor.create = [sink](const SinkConfig&, const SinkDeps&) { return sink; };
  return descriptor;
}

TEST(SinkRegistryTest, PassesMetricsToTheSink) {
  const auto recording = std::make_shared<RecordingSink>();
  std::string process;
  SinkDescriptor descriptor = MakesSink(recording);
  descriptor.create = [&](const SinkConfig&, const SinkDeps& deps) {
    process = deps.process;
    return recording;
  };
  const ScopedRegistration<SinkDescriptor> mine(&SinkRegistry(), "mine", descriptor);
  DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<MetricSink> sink,
                            create_sink(OfType("mine"), {"/run", "learner0"}));
  EXPECT_EQ(process, "learner0");
  sink->Scalar("a/loss", 3, 0.5);
  sink->Text("a/text", 3, "words");
  EXPECT_THAT(recording->ValuesOf("a/loss"), ElementsAre(0.5));
  EXPECT_THAT(sink->Flush(), IsOk());
}

// Throws wherever it may be called.
class ThrowingSink : public MetricSink {
 public:
  void Scalar(absl::string_view, int64_t, double) override { throw std::runtime_error("full"); }
  void Histogram(absl::string_view, int64_t, absl::Span<const float>) override { throw 42; }
  void Text(absl::string_view, int64_t, absl::string_view) override { throw 42; }
  void EncodedImage(absl::string_view, int64_t, int, int, absl::string_view) override { throw 42; }
  absl::Status Flush() override { throw std::runtime_error("gone"); }
};

TEST(SinkRegistryTest, ASinkThatThrowsFailsOnlyItsFlush) {
  const ScopedRegistration<SinkDescriptor> mine(&SinkRegistry(), "mine",
                                                MakesSink(std::make_shared<ThrowingSink>()));
  DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<MetricSink> sink,
                            create_sink(OfType("mine"), {}));
  sink->Scalar("a/loss", 3, 0.5);
  sink->Histogram("a/loss", 3, {1.0f});
  sink->Text("a/loss", 3, "words");
  sink->EncodedImage("a/loss", 3, 1, 1, "");
  EXPECT_THAT(sink->Flush(),
              StatusIs(absl::StatusCode::kInternal, "metric sink 'mine' threw an exception: full"));
  EXPECT_THAT(sink->Flush(), StatusIs(absl::StatusCode::kInternal,
                                      "metric sink 'mine': Flush() threw an exception: gone"))
      << "the first error was forgotten";
}

TEST(SinkRegistryTest, RefusesWhatIsNoSink) {
  const ScopedRegistration<SinkDescriptor> none(&SinkRegistry(), "none", MakesSink(nullptr));
  EXPECT_THAT(create_sink(OfType("none"), {}),
              StatusIs(absl::StatusCode::kInternal, "the factory of sink 'none' returned none"));
  EXPECT_THAT(create_sink(OfType("other"), {}), IsNotFound("unknown sink type 'other'"));
  SinkConfig with_params = OfType("none");
  with_params.mutable_params()->PackFrom(OfType("none"));
  EXPECT_THAT(create_sink(with_params, {}),
              IsInvalid("params hold a ding.SinkConfig, but type 'none' takes none"));
}

}  // namespace
}  // namespace ding
