// Tests priorities: how they are given and updated, how rows are drawn in proportion to them, and
// the importance weights.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/advanced_buffer_testing.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Options = AdvancedReplayBuffer::Options;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The buffer does not write into what was pushed, and a batch has the priorities of its draw (D43).
TEST(AdvancedReplayBuffer, BatchesHavePrioritiesAsStored) {
  const auto buffer = MakeAdvancedBuffer({});
  const SegmentBatch push = RowsWithPriorities({0, 3});
  ASSERT_THAT(buffer->Push(push, 0), IsOk());
  SampleOptions newest;
  newest.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, newest));
  EXPECT_THAT(FloatsOf(batch, "priority"), ElementsAre(3 + 1e-5f));
  EXPECT_THAT(FloatsOf(push.rows, "priority"), ElementsAre(0.0f, 3.0f));
  EXPECT_EQ(batch.spec().size(), 11);
  // A single row of priority 0 can be drawn (D42).
  ASSERT_THAT(buffer->Update({{0.0f, 0.0f}, {0, 1}, {0, 1}}), IsOk());
  EXPECT_THAT(buffer->Sample(2, 0), IsOk());
}

TEST(AdvancedReplayBuffer, ImportanceWeightsAreThoseOfThePaper) {
  Options options;
  options.alpha = 0.5;
  options.beta = 0.25;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(RowsWithPriorities({1, 4, 9, 16}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(400, 0, WithReplacement()));
  for (int64_t i = 0; i < 400; ++i) {
    const double p = FloatsOf(batch, "priority")[i];
    EXPECT_NEAR(FloatsOf(batch, "weight")[i], std::pow(std::sqrt(p) / std::sqrt(1.0 + 1e-5), -0.25),
                1e-6);
  }
}

TEST(AdvancedReplayBuffer, BetaGoesToOneInAnnealStepDraws) {
  Options options;
  options.beta = 0.5;
  options.anneal_step = 4;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 4), 0), IsOk());
  EXPECT_THAT(buffer->Sample(5, 0), StatusIs(absl::StatusCode::kFailedPrecondition));
  for (const double beta : {0.5, 0.625, 0.75, 0.875, 1.0, 1.0}) {
    EXPECT_EQ(buffer->beta(), beta);
    EXPECT_THAT(buffer->Sample(2, 0), IsOk());
  }
  options.anneal_step = 0;
  const auto constant = MakeAdvancedBuffer(options);
  ASSERT_THAT(constant->Push(TestRows(0, 4), 0), IsOk());
  EXPECT_THAT(constant->Sample(2, 0), IsOk());
  EXPECT_EQ(constant->beta(), 0.5);
}

TEST(AdvancedReplayBuffer, NewRowsHaveTheLargestPriorityGivenByAnUpdate) {
  const auto buffer = MakeAdvancedBuffer({});
  ASSERT_THAT(buffer->Push(TestRows(0, 1), 0), IsOk());
  EXPECT_EQ(buffer->max_priority(), 1);
  ASSERT_THAT(buffer->Update({{5.0f}, {0}, {0}}), IsOk());
  EXPECT_EQ(buffer->max_priority(), 5);
  ASSERT_THAT(buffer->Update({{2.0f, 100.0f}, {0, 77}, {0, 77}}), IsOk());  // There is no row 77.
  EXPECT_EQ(buffer->max_priority(), 5);
  ASSERT_THAT(buffer->Push(TestRows(1, 1), 0), IsOk());
  SampleOptions newest;
  newest.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, newest));
  EXPECT_THAT(FloatsOf(batch, "priority"), ElementsAre(5.0f));
  buffer->Clear();
  EXPECT_EQ(buffer->max_priority(), 1);
}

// A refused call changes nothing (D42).
TEST(AdvancedReplayBuffer, InvalidPrioritiesAreRefusedAndChangeNothing) {
  const auto buffer = MakeAdvancedBuffer({});
  ASSERT_THAT(buffer->Push(RowsWithPriorities({1, 2, 3}), 0), IsOk());
  const TensorMap before = Saved(*buffer);
  for (const float bad : {kNan, kInfinity, -kInfinity, -1e-30f}) {
    EXPECT_THAT(buffer->Update({{7, 8, bad}, {0, 1, 2}, {0, 1, 2}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("priority 2 of 3 is "), HasSubstr("expected a finite"))));
    // The priority is checked even if the row is gone.
    EXPECT_THAT(buffer->Update({{bad}, {99}, {99}}), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(buffer->Push(TestRows(3, 2, {}, {1, bad}), 0),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("priority 1 of 2")));
  }
  EXPECT_THAT(buffer->Update({{1, 2}, {0}, {0, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("2 priorities for 1 replay_unique_id and 2 replay_buffer_idx")));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
  const auto fresh = MakeAdvancedBuffer({});
  EXPECT_THAT(fresh->Push(RowsWithPriorities({kNan}), 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(fresh->Push(TestRows(0, 1), 0), IsOk());  // The refused push has not fixed the spec.
}

TEST(AdvancedReplayBuffer, TheLargestFloatIsAValidPriority) {
  Options options;
  options.alpha = 1;
  const auto buffer = MakeAdvancedBuffer(options);
  constexpr float kMax = std::numeric_limits<float>::max();
  ASSERT_THAT(buffer->Push(RowsWithPriorities({kMax, kMax, 0}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(100, 0, WithReplacement()));
  EXPECT_THAT(FloatsOf(batch, "weight"), Each(AllOf(testing::Ge(0.0f), testing::Le(1.0f))));
  EXPECT_THAT(IdsOf(batch), Each(testing::Lt(2)));
}

TEST(AdvancedReplayBuffer, UpdatesOfRowsThatAreGoneAreSkippedAndCounted) {
  Options options;
  options.capacity_rows = 4;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Update({{9}, {0}, {0}}), IsOk());
  EXPECT_EQ(buffer->counters().skipped_updates, 1);
  ASSERT_THAT(buffer->Push(TestRows(0, 6), 0), IsOk());
  const TensorMap before = Saved(*buffer);
  // These are an evicted row, a row that is not there yet, a row with a wrong replay_buffer_idx,
  // and a negative id.
  ASSERT_THAT(buffer->Update({{9, 9, 9, 9}, {1, 6, 3, -5}, {1, 2, 2, int64_t{1} << 60}}), IsOk());
  EXPECT_EQ(buffer->counters().skipped_updates, 5);
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

// Each row's count over K batches of B rows is a sum of independent draws with mean K B P(i) and a
// variance of at most that, so it is off by more than 6 sqrt(K B P(i)) once in 10^8.
TEST(AdvancedReplayBuffer, RowsAreDrawnInProportionToTheirWeight) {
  constexpr int kBatches = 4000;
  constexpr int64_t kSize = 8;
  for (const std::optional<int64_t> newest :
       {std::optional<int64_t>(), std::optional<int64_t>(40)}) {
    Options options;
    options.capacity_rows = 60;
    options.seed = 4;
    const auto buffer = MakeAdvancedBuffer(options);
    std::vector<float> priority(100);
    Rng rng(1, "priorities");
    for (float& value : priority) value = static_cast<float>(std::exp(rng.Uniform(-3, 1)));
    ASSERT_THAT(buffer->Push(RowsWithPriorities(priority), 0), IsOk());
    std::vector<double> seen(100, 0);
    SampleOptions sample;
    sample.newest = newest;
    for (int i = 0; i < kBatches; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(kSize, 0, sample));
      for (const int64_t id : IdsOf(batch)) ++seen[id];
    }
    const int64_t first = 100 - newest.value_or(60);
    double sum = 0;
    for (int64_t id = first; id < 100; ++id) sum += std::pow(priority[id] + 1e-5, 0.6);
    for (int64_t id = 0; id < 100; ++id) {
      const double expected =
          id < first ? 0 : kBatches * kSize * std::pow(priority[id] + 1e-5, 0.6) / sum;
      EXPECT_NEAR(seen[id], expected, 6 * std::sqrt(expected)) << "row " << id;
    }
  }
}

TEST(AdvancedReplayBuffer, EveryStratumIsDrawnFromOnce) {
  const auto buffer = MakeAdvancedBuffer({});
  ASSERT_THAT(buffer->Push(TestRows(0, 64), 0), IsOk());
  for (int i = 0; i < 100; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(16, 0));
    for (int64_t row = 0; row < 16; ++row) EXPECT_EQ(IdsOf(batch)[row] / 4, row);
  }
}

}  // namespace
}  // namespace ding
