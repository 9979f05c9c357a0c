// Linked statically, as a program is: a missing alwayslink shows here.
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

BufferConfig ConfigOf(const char* type) {
  BufferConfig config;
  config.set_type(type);
  return config;
}

TEST(SequenceBufferFactory, TheDefaultsMakeBuffers) {
  for (const char* type : {"sequence", "episode"}) {
    DING_ASSERT_OK_AND_ASSIGN(const BufferDescriptor descriptor, get_buffer_cls(ConfigOf(type)));
    EXPECT_EQ(descriptor.name, type);
    for (const BufferConfig& made_of : {ConfigOf(type), descriptor.default_config}) {
      DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                                create_buffer(made_of, ComponentDeps()));
      TestStreams streams;
      EXPECT_THAT(buffer->Push(streams.Make({{0, 80, SegmentEnd::kTerminated}}), 0), IsOk());
      DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
      EXPECT_EQ(batch.rows(), 80);
    }
  }
}

TEST(SequenceBufferFactory, PassesEverySettingOn) {
  SequenceBufferConfig params;
  params.set_unroll_len(4);
  params.set_burn_in(2);
  params.set_overlap(1);
  params.set_padding(true);
  BufferConfig config = ConfigOf("sequence");
  config.set_replay_buffer_size(5);
  config.set_discount_factor(0.5);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                            create_buffer(config, ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 8, SegmentEnd::kTruncated}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 2);  // Rows 3 and 6 of 3 to 7.
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, options));
  EXPECT_THAT(batch.column<int64_t>("replay_unique_id"), ElementsAre(6, 7, 7, 7));
  EXPECT_THAT(batch.column<uint8_t>("burn_in"), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(batch.column<float>("discount")[0], 0.5f);
  EXPECT_FALSE(batch.spec().Find("is_first").has_value());

  params.set_cross_episodes(true);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> across,
                            create_buffer(config, ComponentDeps()));
  EXPECT_THAT(across->Push(streams.Make({{1, 3, SegmentEnd::kTruncated}, {1, 1}}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch rows, across->Sample(1, 0));
  EXPECT_THAT(rows.column<uint8_t>("is_first"), ElementsAre(1, 0, 0, 1));
}

TEST(SequenceBufferFactory, PassesTheSettingsOfPrioritiesOn) {
  SequenceBufferConfig params;
  params.set_unroll_len(2);
  params.mutable_priority()->set_alpha(0.5);
  params.mutable_priority()->set_beta(0.5);
  params.mutable_priority()->set_anneal_step(1);
  BufferConfig config = ConfigOf("sequence");
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                            create_buffer(config, ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
  EXPECT_THAT(buffer->Update({{15.99999f}, {1}, {1}}), IsOk());
  EXPECT_THAT(buffer->Update({{0.99999f}, {0}, {0}}), IsOk());
  SampleOptions newest;
  newest.newest = 1;
  for (const float weight :
       {0.5f, 0.25f}) {  // (16^-0.5)^0.5, and beta is 1 from the second draw on.
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, newest));
    EXPECT_NEAR(batch.column<float>("weight")[1], weight, 1e-5);
  }
  params.mutable_priority()->set_alpha(-1);
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_buffer(config, ComponentDeps()), IsInvalid("alpha is -1"));
}

TEST(SequenceBufferFactory, AllWrongSettingsAreListed) {
  SequenceBufferConfig params;
  params.set_unroll_len(0);
  BufferConfig config = ConfigOf("sequence");
  config.set_nstep(0);
  config.set_periodic_thruput_seconds(0);
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_buffer(config, ComponentDeps()),
              IsInvalid("unroll_len is 0", "nstep is 0", "periodic_thruput_seconds is 0"));
  config.set_type("episode");
  EXPECT_THAT(create_buffer(config, ComponentDeps()),
              IsInvalid("nstep is 0", "type 'episode' takes none"));
}

}  // namespace
}  // namespace ding
