#include "ding_worker/replay_buffer/testing/thruput_report.h"

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {

std::shared_ptr<RecordingSink> ExpectThruputReport(BufferConfig config) {
  config.set_periodic_thruput_seconds(3);
  SimulatedClock clock;
  auto sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  deps.name = "replay";
  deps.clock = &clock;
  deps.metrics = sink;
  const absl::StatusOr<std::unique_ptr<IBuffer>> created = create_buffer(config, deps);
  EXPECT_THAT(created, IsOk());
  if (!created.ok()) return sink;
  IBuffer& buffer = **created;
  TestStreams streams;
  EXPECT_THAT(buffer.Push(streams.Make({{0, 1}}), 1), IsOk());
  EXPECT_THAT(buffer.Sample(1, 0), IsOk());
  clock.Advance(absl::Milliseconds(2999));
  EXPECT_THAT(buffer.Sample(1, 0), IsOk());
  EXPECT_THAT(sink->ValuesOf("replay_sec/sampled_out"), testing::IsEmpty());
  clock.Advance(absl::Milliseconds(1));
  EXPECT_THAT(buffer.Sample(1, 0), IsOk());
  EXPECT_THAT(sink->ValuesOf("replay_sec/sampled_out"), testing::ElementsAre(3));
  return sink;
}

}  // namespace ding
