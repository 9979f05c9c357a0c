#include "ding_worker/replay_buffer/episode_buffer.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<EpisodeReplayBuffer> Make(int64_t capacity_rows = 20) {
  EpisodeReplayBuffer::Options options;
  options.capacity_rows = capacity_rows;
  return EpisodeReplayBuffer::Create(options).value();
}

TEST(EpisodeReplayBuffer, OnlyCompleteEpisodesAreDrawn) {
  const auto buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3}, {1, 2, SegmentEnd::kTruncated}, {1, 4}}), 0),
              IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(2));
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(4, 2));
  EXPECT_EQ(buffer->count(), 2);
  EXPECT_EQ(buffer->push_count(), 10);
  EXPECT_THAT(buffer->Sample(3, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("3 distinct whole episodes: the buffer holds 2 in 10 rows")));
}

TEST(EpisodeReplayBuffer, ShorterEpisodesArePaddedToTheLongestDrawn) {
  const auto buffer = Make();
  TestStreams streams;
  ASSERT_THAT(
      buffer->Push(streams.Make({{0, 3, SegmentEnd::kTerminated}, {0, 1, SegmentEnd::kTruncated}}),
                   0),
      IsOk());
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch newest, buffer->Sample(1, 0, options));
  EXPECT_THAT(newest.column<int64_t>("replay_unique_id"), ElementsAre(3));
  DING_ASSERT_OK_AND_ASSIGN(const Batch both, buffer->Sample(2, 0));
  const int64_t longer = both.column<int64_t>("replay_unique_id")[0] == 0 ? 0 : 3;
  EXPECT_THAT(both.column<int64_t>("replay_unique_id").subspan(longer, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(both.column<int64_t>("replay_unique_id").subspan(3 - longer, 3),
              ElementsAre(3, 3, 3));
  EXPECT_THAT(both.column<uint8_t>("mask").subspan(3 - longer, 3), ElementsAre(1, 0, 0));
}

TEST(EpisodeReplayBuffer, AnEpisodeThatLostRowsIsNotWhole) {
  const auto buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
  streams.Skip(0, 1);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), IsEmpty());
  // The next one is; then its beginning is evicted.
  ASSERT_THAT(buffer->Push(streams.Make({{0, 5, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(5));
  ASSERT_THAT(buffer->Push(streams.Make({{0, 16}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), IsEmpty());
  // Nor is one of which the beginning was cleared.
  buffer->Clear();
  ASSERT_THAT(buffer->Push(streams.Make({{0, 2, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), IsEmpty());
  EXPECT_EQ(buffer->push_count(), 2);
}

// D50: episode_len of a buffer that is not full, also after loading.
TEST(EpisodeReplayBuffer, GoesOnAfterLoading) {
  const auto buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3, SegmentEnd::kTerminated}, {0, 2}, {1, 1}}), 0),
              IsOk());
  StateDict state;
  ASSERT_THAT(buffer->SaveState(&state), IsOk());
  const auto restored = Make();
  ASSERT_THAT(restored->LoadState(&state), IsOk());
  ASSERT_THAT(restored->Push(streams.Make({{0, 2, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(restored->episode_len(), ElementsAre(3, 4));
}

TEST(EpisodeReplayBuffer, AllWrongOptionsAreListed) {
  EpisodeReplayBuffer::Options options;
  options.capacity_rows = 0;
  options.gamma = 2;
  EXPECT_THAT(EpisodeReplayBuffer::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("replay_buffer_size is 0"), HasSubstr("discount_factor"))));
}

}  // namespace
}  // namespace ding
