#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

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

// Items, which are whole episodes of these lengths.
SegmentBatch Episodes(const std::vector<int64_t>& lengths) {
  std::vector<Item> items;
  int64_t row = 0;
  for (const int64_t length : lengths) {
    items.push_back({/*chunk=*/1, row, length});
    row += length;
  }
  return TestItems(items);
}

TEST(EpisodeReplayBuffer, TheCapacityCountsTheRowsOfItems) {
  const auto buffer = Make(10);
  ASSERT_THAT(buffer->Push(Episodes({6, 3, 4}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(3, 4));
  ASSERT_THAT(buffer->Push(Episodes({2, 1}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(3, 4, 2, 1));
  EXPECT_EQ(buffer->push_count(), 5);
  DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, buffer->Sample(4, 0));
  EXPECT_EQ(drawn.sequence_length(), 1);
  EXPECT_THAT(drawn.column<int64_t>("length"), UnorderedElementsAre(3, 4, 2, 1));
  EXPECT_THAT(drawn.column<int64_t>("replay_unique_id"), UnorderedElementsAre(1, 2, 3, 4));
  ASSERT_THAT(buffer->Push(Episodes({10}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(10));
  buffer->Clear();
  EXPECT_THAT(buffer->episode_len(), IsEmpty());
  ASSERT_THAT(buffer->Push(Episodes({1}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(1));
}

TEST(EpisodeReplayBuffer, AnItemThatIsLongerThanTheCapacityIsNeverDrawn) {
  const auto buffer = Make(10);
  ASSERT_THAT(buffer->Push(Episodes({3, 11}), 0), IsOk());
  EXPECT_THAT(buffer->Sample(1, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the buffer holds 0; the longest episode so far has 11 rows, "
                                 "expected at most as many as replay_buffer_size, which is 10")));
  ASSERT_THAT(buffer->Push(Episodes({std::numeric_limits<int64_t>::max()}), 0), IsOk());
  ASSERT_THAT(buffer->Push(Episodes({4, 5}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(4, 5));
}

TEST(EpisodeReplayBuffer, RefusesItemsWithoutRows) {
  const auto buffer = Make(10);
  SegmentBatch items = Episodes({3, 1});
  BatchBuilder rows = BatchBuilder::Create(items.rows.spec_ptr(), 2).value();
  CopyRows(items.rows.view(), rows.view(), 0);
  rows.column<int64_t>(*items.rows.spec().Find("length"))[1] = 0;
  items.rows = std::move(rows).Seal(2);
  EXPECT_THAT(buffer->Push(items, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("item 1 of 2 is an episode of 0 rows, expected at least 1")));
  EXPECT_EQ(buffer->count(), 0);
}

TEST(EpisodeReplayBuffer, GoesOnWithItemsAfterLoading) {
  const auto buffer = Make(10);
  ASSERT_THAT(buffer->Push(Episodes({6, 3, 4}), 0), IsOk());
  StateDict state;
  ASSERT_THAT(buffer->SaveState(&state), IsOk());
  const auto restored = Make(10);
  ASSERT_THAT(restored->LoadState(&state), IsOk());
  EXPECT_THAT(restored->episode_len(), ElementsAre(3, 4));
  ASSERT_THAT(restored->Push(Episodes({4}), 0), IsOk());
  EXPECT_THAT(restored->episode_len(), ElementsAre(4, 4));
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
