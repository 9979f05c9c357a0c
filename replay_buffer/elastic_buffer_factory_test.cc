// Linked statically, as a program is: a missing alwayslink shows here.
#include <memory>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/elastic_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ElasticBufferFactory, TheWindowGoesInAStraightLine) {
  ElasticBufferConfig params;
  params.set_window_start(10);
  params.set_window_end(20);
  params.set_decay_envsteps(100);
  BufferConfig config;
  config.set_type("elastic");
  config.set_replay_buffer_size(50);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                            create_buffer(config, ComponentDeps()));
  TestStreams streams;
  const auto window_at = [&](int64_t envstep) {
    EXPECT_THAT(buffer->Push(streams.Make({{0, 50}}), envstep), IsOk());
    return buffer->count();
  };
  EXPECT_EQ(window_at(0), 10);
  EXPECT_EQ(window_at(50), 15);
  EXPECT_EQ(window_at(100), 20);
  EXPECT_EQ(window_at(1000), 20);
}

TEST(ElasticBufferFactory, TheDefaultWindowGrowsToTheCapacity) {
  BufferConfig config;
  config.set_type("elastic");
  DING_ASSERT_OK_AND_ASSIGN(const BufferDescriptor descriptor, get_buffer_cls(config));
  for (const BufferConfig& made_of : {config, descriptor.default_config}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                              create_buffer(made_of, ComponentDeps()));
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 12000}}), 0), IsOk());
    EXPECT_EQ(buffer->count(), 1000);
    EXPECT_THAT(buffer->Push(streams.Make({{0, 1}}), 100000), IsOk());
    EXPECT_EQ(buffer->count(), 10000);
  }
}

TEST(ElasticBufferFactory, AllWrongSettingsAreListed) {
  ElasticBufferConfig params;
  params.set_window_start(0);
  params.set_window_end(-1);
  params.set_decay_envsteps(0);
  BufferConfig config;
  config.set_type("elastic");
  config.set_nstep(0);
  config.set_periodic_thruput_seconds(0);
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_buffer(config, ComponentDeps()),
              IsInvalid("window_start is 0", "window_end is -1", "decay_envsteps is 0",
                        "nstep is 0", "periodic_thruput_seconds is 0"));
  config.mutable_params()->PackFrom(BufferConfig());
  EXPECT_THAT(create_buffer(config, ComponentDeps()),
              IsInvalid("expected a ding.ElasticBufferConfig"));
}

}  // namespace
}  // namespace ding
