#include "ding_worker/metrics/sink_registry.h"

#include <memory>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_THAT(create_sink(OfType("other"), {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("unknown sink type 'other'")));
  SinkConfig with_params = OfType("none");
  with_params.mutable_params()->PackFrom(OfType("none"));
  EXPECT_THAT(create_sink(with_params, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("params hold a ding.SinkConfig, but type 'none' takes none")));
}

}  // namespace
}  // namespace ding
