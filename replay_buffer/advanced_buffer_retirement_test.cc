// Tests how rows are retired: max_use and max_staleness.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/testing/advanced_buffer_testing.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::ElementsAre;

using Options = AdvancedReplayBuffer::Options;

// An update does not bring a retired row back (D40).
TEST(AdvancedReplayBuffer, ARowDrawnMaxUseTimesIsRetiredForGood) {
  Options options;
  options.capacity_rows = 64;
  options.max_use = 2;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 64), 0), IsOk());
  std::map<int64_t, int> uses;
  for (;;) {
    const absl::StatusOr<Batch> batch = buffer->Sample(32, 0);
    if (absl::IsFailedPrecondition(batch.status())) break;
    ASSERT_THAT(batch, IsOk());
    EXPECT_THAT(FloatsOf(*batch, "weight"), Each(1.0f));  // All priorities are equal.
    for (int64_t i = 0; i < 32; ++i) {
      EXPECT_EQ(IntsOf(*batch, "use")[i], ++uses[IdsOf(*batch)[i]]);
    }
  }
  std::vector<float> priorities(64, 5.0f);
  std::vector<int64_t> used_up;
  for (const auto& [id, use] : uses) {
    if (use >= 2) used_up.push_back(id);
  }
  EXPECT_EQ(buffer->count(), 64 - static_cast<int64_t>(used_up.size()));
  EXPECT_EQ(buffer->counters().retired_by_use, used_up.size());
  priorities.resize(used_up.size());
  ASSERT_THAT(buffer->Update({priorities, used_up, used_up}), IsOk());
  EXPECT_EQ(buffer->counters().skipped_updates, used_up.size());
  EXPECT_EQ(buffer->count(), 64 - static_cast<int64_t>(used_up.size()));
}

// Stale rows are found by age, not by position (D35, D36).
TEST(AdvancedReplayBuffer, StaleRowsAreRetiredInAnyOrderOfTheirAges) {
  Options options;
  options.capacity_rows = 8;
  options.max_staleness = 5;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 6, {3, 0, 3, 1, -1, 9}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch all, buffer->Sample(60, 4, WithReplacement()));
  for (int64_t i = 0; i < 60; ++i) {
    // A row from a later iteration has staleness 0; a row without an iteration is never stale.
    const int64_t expected[] = {1, 4, 1, 3, -1, 0};
    EXPECT_EQ(IntsOf(all, "staleness")[i], expected[IdsOf(all)[i]]);
  }
  EXPECT_EQ(buffer->count(), 6);
  DING_ASSERT_OK_AND_ASSIGN(const Batch after, buffer->Sample(60, 6, WithReplacement()));
  EXPECT_EQ(buffer->count(), 4);
  EXPECT_THAT(IdsOf(after), Each(testing::AnyOf(0, 2, 4, 5)));
  // The rows wrap around the end of the ring, and new rows are mixed with old ones.
  ASSERT_THAT(buffer->Push(TestRows(6, 4, {9, 2, 8, 1}), 0), IsOk());  // Evicts 0 and 1.
  DING_ASSERT_OK_AND_ASSIGN(const Batch last, buffer->Sample(60, 8, WithReplacement()));
  EXPECT_EQ(buffer->count(), 4);
  EXPECT_THAT(IdsOf(last), Each(testing::AnyOf(4, 5, 6, 8)));
  EXPECT_EQ(buffer->counters().retired_by_staleness, 5);
}

TEST(AdvancedReplayBuffer, WithoutCollectIterStalenessIsUnknownAndLimitsNothing) {
  Options options;
  options.max_staleness = 1;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 3), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(3, 1000));
  EXPECT_THAT(IntsOf(batch, "staleness"), Each(-1));
  EXPECT_EQ(buffer->count(), 3);
}

TEST(AdvancedReplayBuffer, ARetiredRowStaysInTheWindowsOfOtherRows) {
  Options options;
  options.nstep = 3;
  options.gamma = 1;
  options.max_staleness = 5;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 3, {9, 0, 9}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(2, 9));
  EXPECT_THAT(IdsOf(batch), ElementsAre(0, 2));
  EXPECT_THAT(FloatsOf(batch, "reward"), ElementsAre(3.0f, 1.0f));
}

TEST(AdvancedReplayBuffer, TheIndexOfAgesDropsRemovedRows) {
  Options options;
  options.capacity_rows = 8;
  options.max_staleness = 20;
  const auto buffer = MakeAdvancedBuffer(options);
  for (int64_t step = 0; step < 1000; ++step) {
    // Every row has another age than the row before, so it is a run of its own.
    ASSERT_THAT(buffer->Push(TestRows(step, 1, {step}), 0), IsOk());
    ASSERT_EQ(buffer->staleness_runs(), std::min<int64_t>(step + 1, 8));
    // Every 50 steps the learner is so far ahead that some rows are retired.
    if (step % 50 < 49) continue;
    ASSERT_THAT(buffer->Sample(1, step + 15), IsOk());
  }
  EXPECT_GT(buffer->counters().retired_by_staleness, 0);
  buffer->Clear();
  EXPECT_EQ(buffer->staleness_runs(), 0);
}

// Rows that were stale, used up and overwritten all count, and so do those that Clear() removes.
TEST(AdvancedReplayBuffer, CountsRetiredRowsAsRemoved) {
  SimulatedClock clock;
  const auto sink = std::make_shared<RecordingSink>();
  Options options;
  options.capacity_rows = 8;
  options.name = "main";
  options.metrics = sink;
  options.clock = &clock;
  options.max_use = 1;
  options.max_staleness = 10;
  {
    const auto buffer = MakeAdvancedBuffer(options);
    ASSERT_THAT(buffer->Push(TestRows(0, 10, {0, 0, 0, 5, 5, 5, 5, 5, 5, 5}), 0), IsOk());
    ASSERT_THAT(buffer->Sample(4, 10), IsOk());  // Row 2 is stale, and the draw uses up four rows.
    clock.Advance(absl::Seconds(60));
    ASSERT_THAT(buffer->Sample(1, 11), IsOk());
    EXPECT_THAT(sink->ValuesOf("main_sec/pushed_in"), ElementsAre(10));
    EXPECT_THAT(sink->ValuesOf("main_sec/sampled_out"), ElementsAre(5));
    EXPECT_THAT(sink->ValuesOf("main_sec/removed"), ElementsAre(2 + 1 + 5));
    EXPECT_THAT(sink->ValuesOf("main_sec/current_have"), ElementsAre(2));
    const TensorMap state = Saved(*buffer);
    buffer->Clear();
    ASSERT_THAT(LoadFrom(buffer.get(), state), IsOk());
  }
  EXPECT_THAT(sink->ValuesOf("main_sec/removed"), ElementsAre(8, 2));
  EXPECT_THAT(sink->ValuesOf("main_sec/current_have"), ElementsAre(2, 2));
}

}  // namespace
}  // namespace ding
