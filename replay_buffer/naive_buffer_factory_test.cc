// Linked statically, as a program is: a missing alwayslink shows here.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(NaiveBufferFactory, MakesTheBufferOfTheDefaultConfig) {
  DING_ASSERT_OK_AND_ASSIGN(const BufferDescriptor descriptor, get_buffer_cls(BufferConfig()));
  EXPECT_EQ(descriptor.name, "naive");
  EXPECT_EQ(descriptor.default_config.type(), "naive");
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                            create_buffer(descriptor.default_config, ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 10001}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 10000);
}

TEST(NaiveBufferFactory, PassesEverySettingOn) {
  BufferConfig config;
  config.set_replay_buffer_size(4);
  config.set_nstep(2);
  config.set_discount_factor(0.5);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                            create_buffer(config, ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 9}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 4);
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch last, buffer->Sample(1, 0, options));
  EXPECT_EQ(last.column<float>("discount")[0], 0.5f);
  DING_ASSERT_OK_AND_ASSIGN(const Batch all, buffer->Sample(4, 0));
  EXPECT_THAT(all.column<float>("discount"), testing::Contains(0.25f));
}

TEST(NaiveBufferFactory, SeedAndNameChooseTheDraws) {
  const auto draw = [](uint64_t seed, const std::string& name) {
    ComponentDeps deps;
    deps.seed = seed;
    deps.name = name;
    const std::unique_ptr<IBuffer> buffer = create_buffer(BufferConfig(), deps).value();
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 1000}}), 0), IsOk());
    const Batch batch = buffer->Sample(8, 0).value();
    const auto ids = batch.column<int64_t>("replay_unique_id");
    return std::vector<int64_t>(ids.begin(), ids.end());
  };
  EXPECT_EQ(draw(1, "a"), draw(1, "a"));
  EXPECT_NE(draw(1, "a"), draw(2, "a"));
  EXPECT_NE(draw(1, "a"), draw(1, "b"));
}

TEST(NaiveBufferFactory, StatisticsGoToTheSinkOfTheRun) { ExpectThruputReport(BufferConfig()); }

TEST(NaiveBufferFactory, AllWrongSettingsAreListed) {
  BufferConfig config;
  config.set_replay_buffer_size(-3);
  config.set_nstep(0);
  config.set_discount_factor(std::nan(""));
  config.set_periodic_thruput_seconds(0);
  config.mutable_params()->PackFrom(BufferConfig());
  ComponentDeps deps;
  deps.name = "main";
  EXPECT_THAT(
      create_buffer(config, deps),
      IsInvalid("main: replay_buffer_size is -3", "nstep is 0", "discount_factor is nan",
                "periodic_thruput_seconds is 0, expected above 0", "type 'naive' takes none"));
}

TEST(NaiveBufferFactory, AnUnknownTypeListsTheKnownOnes) {
  BufferConfig config;
  config.set_type("bigger");
  EXPECT_THAT(create_buffer(config, ComponentDeps()),
              IsError(absl::StatusCode::kNotFound, "'bigger'", "naive"));
}

}  // namespace
}  // namespace ding
