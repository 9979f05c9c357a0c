// Tests replay_buffer_bytes with every type of buffer. The test is linked statically, like a
// program.
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/elastic_buffer.pb.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

BufferConfig ConfigOf(const std::string& type) {
  BufferConfig config;
  config.set_type(type);
  if (type == "elastic") {
    ElasticBufferConfig params;
    params.set_window_start(1000000);
    params.set_window_end(1000000);
    config.mutable_params()->PackFrom(params);
  }
  if (type == "sequence") {
    SequenceBufferConfig params;
    params.set_unroll_len(4);
    params.set_overlap(0);
    config.mutable_params()->PackFrom(params);
  }
  return config;
}

class CapacityBytes : public testing::TestWithParam<std::string> {
 protected:
  absl::StatusOr<std::unique_ptr<IBuffer>> Make(int64_t bytes) {
    BufferConfig config = ConfigOf(GetParam());
    config.set_replay_buffer_bytes(bytes);
    return create_buffer(config, ComponentDeps());
  }
};

INSTANTIATE_TEST_SUITE_P(AllTypes, CapacityBytes,
                         testing::Values("naive", "advanced", "elastic", "sequence", "episode",
                                         "deque"));

// Fills the buffer with episodes of 16 rows. Returns its count().
int64_t FullCount(IBuffer* buffer) {
  TestStreams streams(0, true);
  for (int i = 0; i < 500; ++i) {
    EXPECT_THAT(buffer->Push(streams.Make({{0, 16, SegmentEnd::kTerminated}}), i), IsOk());
  }
  EXPECT_THAT(buffer->Sample(4, 0), IsOk());
  return buffer->count();
}

TEST_P(CapacityBytes, MoreBytesHoldMoreRows) {
  DING_ASSERT_OK_AND_ASSIGN(const auto small, Make(100'000));
  DING_ASSERT_OK_AND_ASSIGN(const auto large, Make(200'000));
  const int64_t count = FullCount(small.get());
  EXPECT_GT(count, 0);
  EXPECT_NEAR(FullCount(large.get()), 2 * count, count / 4.0);
  DING_ASSERT_OK_AND_ASSIGN(const auto again, Make(100'000));
  EXPECT_EQ(FullCount(again.get()), count);
}

TEST_P(CapacityBytes, LoadsOnlyTheStateOfTheSameCapacity) {
  DING_ASSERT_OK_AND_ASSIGN(const auto saved, Make(100'000));
  const int64_t count = FullCount(saved.get());
  StateDict state;
  ASSERT_THAT(saved->SaveState(&state), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto same, Make(100'000));
  EXPECT_THAT(same->LoadState(&state), IsOk());
  EXPECT_EQ(same->count(), count);
  DING_ASSERT_OK_AND_ASSIGN(const auto other, Make(100'001));
  EXPECT_THAT(other->LoadState(&state),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("saved capacity_bytes is 100000, expected 100001")));
  DING_ASSERT_OK_AND_ASSIGN(const auto rows, create_buffer(ConfigOf(GetParam()), ComponentDeps()));
  EXPECT_THAT(rows->LoadState(&state),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("saved capacity is in bytes, expected in rows")));
  StateDict of_rows;
  ASSERT_THAT(rows->SaveState(&of_rows), IsOk());
  EXPECT_THAT(same->LoadState(&of_rows),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("saved capacity is in rows, expected in bytes")));
  EXPECT_EQ(same->count(), count);
}

TEST_P(CapacityBytes, RefusesTooFewOrTooManyBytes) {
  EXPECT_THAT(Make(0), StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("replay_buffer_bytes is 0, expected at least 1")));
  TestStreams streams(0, true);
  const SegmentBatch push = streams.Make({{0, 1}});
  DING_ASSERT_OK_AND_ASSIGN(const auto small, Make(100));
  EXPECT_THAT(small->Push(push, 0), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("capacity of 100 bytes holds no row")));
  DING_ASSERT_OK_AND_ASSIGN(const auto large, Make(int64_t{1} << 60));
  EXPECT_THAT(large->Push(push, 0), StatusIs(absl::StatusCode::kResourceExhausted,
                                             HasSubstr("is more than the memory of")));
  EXPECT_EQ(small->push_count(), 0);
}

TEST(SequenceCapacityBytes, RefusesACapacityBelowOneSequence) {
  SequenceBufferConfig params;
  params.set_unroll_len(80);
  BufferConfig config = ConfigOf("sequence");
  config.mutable_params()->PackFrom(params);
  config.set_replay_buffer_bytes(8000);
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(config, ComponentDeps()));
  TestStreams streams(0, true);
  EXPECT_THAT(buffer->Push(streams.Make({{0, 1}}), 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("unroll_len is 80, but replay_buffer_bytes holds ")));
}

// Links between episodes take 8 bytes per row, so fewer rows fit.
TEST(SequenceCapacityBytes, LinksBetweenEpisodesCount) {
  BufferConfig config = ConfigOf("sequence");
  config.set_replay_buffer_bytes(200'000);
  DING_ASSERT_OK_AND_ASSIGN(const auto within, create_buffer(config, ComponentDeps()));
  SequenceBufferConfig params;
  params.set_unroll_len(4);
  params.set_overlap(0);
  params.set_cross_episodes(true);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const auto across, create_buffer(config, ComponentDeps()));
  const int64_t count = FullCount(within.get());
  EXPECT_LT(FullCount(across.get()), count);
}

TEST(ElasticCapacityBytes, WindowEndMustBeSet) {
  BufferConfig config;
  config.set_type("elastic");
  config.set_replay_buffer_bytes(8000);
  EXPECT_THAT(create_buffer(config, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("window_end is not set, expected with replay_buffer_bytes")));
}

}  // namespace
}  // namespace ding
