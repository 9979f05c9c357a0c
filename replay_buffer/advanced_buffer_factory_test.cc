// Linked statically, as a program is: a missing alwayslink shows here.
#include <cmath>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

BufferConfig Config(const AdvancedBufferConfig& params) {
  BufferConfig config;
  config.set_type("advanced");
  config.mutable_params()->PackFrom(params);
  return config;
}

TEST(AdvancedBufferFactory, TheDefaultsAreThoseOfTheClass) {
  BufferConfig config;
  config.set_type("advanced");
  DING_ASSERT_OK_AND_ASSIGN(const BufferDescriptor descriptor, get_buffer_cls(config));
  EXPECT_EQ(descriptor.name, "advanced");
  for (const BufferConfig& made_of : {config, descriptor.default_config}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                              create_buffer(made_of, ComponentDeps()));
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 5000}}), 0), IsOk());
    EXPECT_EQ(buffer->count(), 4096);
  }
}

TEST(AdvancedBufferFactory, PassesEverySettingOn) {
  AdvancedBufferConfig params;
  params.set_alpha(1);
  params.set_beta(0.5);
  params.set_anneal_step(2);
  params.set_max_use(1);
  params.set_max_staleness(10);
  BufferConfig config = Config(params);
  config.set_replay_buffer_size(4);
  config.set_nstep(2);
  config.set_discount_factor(0.5);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                            create_buffer(config, ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 8}}), 0), IsOk());  // collect_iter 4 to 7 stay.
  EXPECT_EQ(buffer->count(), 4);
  EXPECT_THAT(buffer->Update({{3, 0, 0, 0}, {5, 4, 6, 7}, {1, 0, 2, 3}}), IsOk());
  // Row 5 has all but 1e-5 of the weight. beta is 0.5, the smallest priority 1e-5.
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_EQ(batch.column<int64_t>("replay_unique_id")[0], 5);
  EXPECT_EQ(batch.column<float>("discount")[0], 0.25f);
  EXPECT_NEAR(batch.column<float>("weight")[0], std::sqrt(1e-5 / 3), 1e-6);
  EXPECT_EQ(buffer->count(), 3);  // max_use
  // Rows 4 and 6 are stale at iteration 16.
  DING_ASSERT_OK_AND_ASSIGN(const Batch last, buffer->Sample(1, 16));
  EXPECT_EQ(last.column<int64_t>("replay_unique_id")[0], 7);
}

TEST(AdvancedBufferFactory, StatisticsGoToTheSinkOfTheRun) {
  AdvancedBufferConfig params;
  params.mutable_monitor()->mutable_sampled_data_attr()->set_average_range(1);
  params.mutable_monitor()->mutable_sampled_data_attr()->set_print_freq(2);
  const std::shared_ptr<RecordingSink> sink = ExpectThruputReport(Config(params));
  // Draws 0 and 2, a window of one each.
  const std::vector<double> use_max = sink->ValuesOf("replay_iter/use_max");
  EXPECT_THAT(use_max, testing::ElementsAre(1, 3));
  EXPECT_THAT(sink->ValuesOf("replay_iter/use_avg"), testing::ElementsAre(1, 3));
}

TEST(AdvancedBufferFactory, AllWrongSettingsAreListed) {
  AdvancedBufferConfig params;
  params.set_alpha(2);
  params.set_beta(-1);
  params.set_anneal_step(-2);
  params.set_max_use(0);
  params.set_max_staleness(-1);
  params.mutable_thruput_controller()->set_window_seconds(0);
  params.mutable_thruput_controller()->set_sample_min_limit_ratio(0.5);
  params.mutable_thruput_controller()->set_max_wait_seconds(-1);
  params.mutable_monitor()->mutable_sampled_data_attr()->set_print_freq(0);
  BufferConfig config = Config(params);
  config.set_replay_buffer_size(-3);
  config.set_nstep(0);
  config.set_discount_factor(std::nan(""));
  config.set_periodic_thruput_seconds(0);
  ComponentDeps deps;
  deps.name = "main";
  EXPECT_THAT(create_buffer(config, deps),
              IsInvalid("main: replay_buffer_size is -3", "nstep is 0", "discount_factor is nan",
                        "alpha is 2", "beta is -1", "anneal_step is -2", "max_use is 0",
                        "max_staleness is -1", "window_seconds is 0",
                        "sample_min_limit_ratio is 0.5", "max_wait_seconds is -1",
                        "periodic_thruput_seconds is 0", "sampled_data_attr.print_freq is 0"));
}

TEST(AdvancedBufferFactory, ParametersOfAnotherTypeAreRefused) {
  BufferConfig config;
  config.set_type("advanced");
  config.mutable_params()->PackFrom(BufferConfig());
  config.set_nstep(0);
  EXPECT_THAT(create_buffer(config, ComponentDeps()), IsInvalid("nstep is 0",
                                                                "ding.BufferConfig, expected a "
                                                                "ding.AdvancedBufferConfig"));
}

}  // namespace
}  // namespace ding
