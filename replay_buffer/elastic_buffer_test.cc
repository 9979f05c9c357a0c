#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/buffer_conformance.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::unique_ptr<ElasticReplayBuffer> MakeElastic(const BufferSettings& settings,
                                                 std::function<int64_t(int64_t)> window_rows) {
  ElasticReplayBuffer::Options options;
  options.ring.capacity_rows = settings.capacity_rows;
  options.ring.nstep = settings.nstep;
  options.ring.gamma = settings.gamma;
  options.ring.seed = settings.seed;
  options.window_rows = std::move(window_rows);
  return ElasticReplayBuffer::Create(std::move(options)).value();
}

std::unique_ptr<ElasticReplayBuffer> RingOf10(std::function<int64_t(int64_t)> window_rows) {
  BufferSettings settings;
  settings.capacity_rows = 10;
  return MakeElastic(settings, std::move(window_rows));
}

INSTANTIATE_TEST_SUITE_P(Elastic, BufferConformance,
                         testing::Values(BufferMaker([](const BufferSettings& settings) {
                           return MakeElastic(settings, [](int64_t) { return 1000; });
                         })));

TEST(ElasticReplayBuffer, DrawsFromTheWindowOnly) {
  const auto buffer = RingOf10([](int64_t) { return 3; });
  TestStreams streams;
  for (int i = 0; i < 15; ++i) {
    ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), i), IsOk());
    EXPECT_EQ(buffer->count(), std::min(i + 1, 3));
  }
  for (int i = 0; i < 20; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(3, 0));
    EXPECT_THAT(batch.column<int64_t>("replay_unique_id"), UnorderedElementsAre(12, 13, 14));
  }
  EXPECT_THAT(buffer->Sample(4, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("from the newest 3")));
  EXPECT_EQ(buffer->push_count(), 15);
}

TEST(ElasticReplayBuffer, NewestOnlyMakesTheDrawnPartSmaller) {
  const auto buffer = RingOf10([](int64_t) { return 3; });
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 10}}), 0), IsOk());
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, options));
  EXPECT_EQ(batch.column<int64_t>("replay_unique_id")[0], 9);
  options.newest = 8;
  EXPECT_THAT(buffer->Sample(4, 0, options), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ElasticReplayBuffer, TheWindowFollowsTheEnvStepsOfThePushes) {
  const auto buffer = RingOf10([](int64_t envstep) { return 2 + envstep / 10; });
  TestStreams streams;
  EXPECT_EQ(buffer->window_rows(), 2);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 10}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 2);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 50), IsOk());
  EXPECT_EQ(buffer->count(), 7);  // Older rows are in the window again.
  EXPECT_THAT(buffer->Sample(7, 0), IsOk());
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), -1), IsOk());
  EXPECT_EQ(buffer->window_rows(), 7);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 1000), IsOk());
  EXPECT_EQ(buffer->count(), 10);
  buffer->Clear();
  EXPECT_EQ(buffer->count(), 0);
  EXPECT_EQ(buffer->window_rows(), 102);
}

TEST(ElasticReplayBuffer, RefusesAnEmptyWindowAndStaysUnchanged) {
  const auto buffer = RingOf10([](int64_t envstep) { return 5 - envstep; });
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 4}}), 1), IsOk());
  EXPECT_THAT(buffer->Push(streams.Make({{0, 4}}), 5),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("replay_buffer: the window of env step 5 is 0 rows")));
  EXPECT_EQ(buffer->push_count(), 4);
  EXPECT_EQ(buffer->window_rows(), 4);
  // A push that the ring refuses leaves the window unchanged, too.
  SegmentBatch gap = streams.Make({{0, 4}});
  gap.segments[0].begin = 1;
  EXPECT_FALSE(buffer->Push(gap, 2).ok());
  EXPECT_EQ(buffer->window_rows(), 4);

  ElasticReplayBuffer::Options options;
  options.window_rows = [](int64_t) { return 0; };
  EXPECT_THAT(ElasticReplayBuffer::Create(std::move(options)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("env step 0 is 0 rows")));
}

TEST(ElasticReplayBuffer, SavesAndLoadsTheWindow) {
  const auto window = [](int64_t envstep) { return 1 + envstep; };
  const auto buffer = RingOf10(window);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 10}}), 6), IsOk());
  StateDict state;
  ASSERT_THAT(buffer->SaveState(&state), IsOk());
  const auto restored = RingOf10(window);
  ASSERT_THAT(restored->LoadState(&state), IsOk());
  EXPECT_EQ(restored->window_rows(), 7);
  EXPECT_EQ(restored->count(), 7);
}

}  // namespace
}  // namespace ding
