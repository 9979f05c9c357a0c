#include "ding_worker/replay_buffer/advanced_buffer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/advanced_buffer_testing.h"
#include "ding_worker/replay_buffer/testing/buffer_conformance.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Options = AdvancedReplayBuffer::Options;

std::unique_ptr<IBuffer> MakeAdvanced(const BufferSettings& settings) {
  Options options;
  options.capacity_rows = settings.capacity_rows;
  options.nstep = settings.nstep;
  options.gamma = settings.gamma;
  options.seed = settings.seed;
  return MakeAdvancedBuffer(options);
}

INSTANTIATE_TEST_SUITE_P(Advanced, BufferConformance, testing::Values(BufferMaker(MakeAdvanced)));

TEST(AdvancedReplayBuffer, AllWrongOptionsAreListed) {
  Options options;
  options.capacity_rows = 0;
  options.nstep = 0;
  options.gamma = -1;
  options.alpha = 1.5;
  options.beta = std::nan("");
  options.anneal_step = -1;
  options.max_use = 0;
  options.max_staleness = 0;
  options.name = "main";
  EXPECT_THAT(
      AdvancedReplayBuffer::Create(options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(StartsWith("main: replay_buffer_size is 0"), HasSubstr("nstep is 0"),
                     HasSubstr("discount_factor is -1"), HasSubstr("alpha is 1.5, expected 0 to 1"),
                     HasSubstr("beta is nan"), HasSubstr("anneal_step is -1, expected at least 0"),
                     HasSubstr("max_use is 0, expected at least 1"),
                     HasSubstr("max_staleness is 0, expected at least 1"))));
}

// See naive_buffer_test.cc for why the columns are written out in both.
TEST(AdvancedReplayBuffer, TheColumnsOfABatch) {
  const auto buffer = MakeAdvancedBuffer({});
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 7));
  EXPECT_EQ(batch.spec().DebugString(),
            "obs/place: float32[4]\n"
            "obs/picture: uint8[3]\n"
            "action: int64[] in 0..999\n"
            "reward: float32[]\n"
            "done_once: bool[]\n"
            "collect_iter: int64[]\n"
            "next_obs/place: float32[4]\n"
            "next_obs/picture: uint8[3]\n"
            "discount: float32[]\n"
            "n_step: int32[]\n"
            "replay_unique_id: int64[]\n"
            "weight: float32[]\n"
            "use: int64[]\n"
            "staleness: int64[]\n"
            "priority: float32[]\n"
            "replay_buffer_idx: int64[]");
  EXPECT_THAT(FloatsOf(batch, "weight"), ElementsAre(1.0f));
  EXPECT_THAT(IntsOf(batch, "use"), ElementsAre(1));
  EXPECT_THAT(IntsOf(batch, "staleness"), ElementsAre(7));
  EXPECT_THAT(FloatsOf(batch, "priority"), ElementsAre(1.0f));
  EXPECT_THAT(IntsOf(batch, "replay_buffer_idx"), ElementsAre(0));
}

TEST(AdvancedReplayBuffer, RatesAndRowsAreLimited) {
  SimulatedClock clock;
  Options options;
  options.clock = &clock;
  options.sample_min_limit_ratio = 1.5;
  options.thruput.max_push_sample_ratio = 2;
  options.thruput.min_push_sample_ratio = 0.5;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 60), 0), IsOk());
  EXPECT_THAT(buffer->Sample(41, 0),
              IsFailedPrecondition("41 rows: the buffer holds 60, expected at least 61.5"));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(buffer->Sample(40, 0), IsOk());
  const TensorMap before = Saved(*buffer);
  EXPECT_THAT(buffer->Sample(1, 0), IsFailedPrecondition("60 pushed, 120 drawn"));
  EXPECT_THAT(buffer->Push(TestRows(60, 181), 0),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(StartsWith("replay_buffer: "), HasSubstr("a push of 181 rows"))));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
  EXPECT_THAT(buffer->Push(TestRows(60, 180), 0), IsOk());
  EXPECT_THAT(buffer->Sample(1, 0), IsOk());
}

TEST(AdvancedReplayBuffer, ADrawWaitsForRowsUpToItsDeadline) {
  Options options;
  options.max_wait = absl::Milliseconds(1);
  const auto impatient = MakeAdvancedBuffer(options);
  EXPECT_THAT(impatient->Sample(1, 0), IsFailedPrecondition());
  options.max_wait = absl::Hours(1);
  const auto buffer = MakeAdvancedBuffer(options);
  std::thread pusher([&buffer] { EXPECT_THAT(buffer->Push(TestRows(0, 3), 0), IsOk()); });
  EXPECT_THAT(buffer->Sample(3, 0), IsOk());
  pusher.join();
}

TEST(AdvancedReplayBuffer, MeasuresDrawnRows) {
  const auto sink = std::make_shared<RecordingSink>();
  Options options;
  options.name = "main";
  options.metrics = sink;
  options.sampled_data_attr = {/*average_range=*/2, /*print_freq=*/3};
  options.beta = 0.5;
  options.anneal_step = 1;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 4, {0, 0, 0, 6}, {1, 1, 1, 5}), 40), IsOk());
  for (int64_t iter = 10; iter < 14; ++iter) {
    SampleOptions all;
    all.replace = true;
    ASSERT_THAT(buffer->Sample(1000, iter, all), IsOk());
  }
  EXPECT_THAT(sink->ValuesOf("main_iter/staleness_max"), ElementsAre(10, 13));
  EXPECT_THAT(sink->ValuesOf("main_step/priority_max"), ElementsAre(5 + 1e-5f, 5 + 1e-5f));
  EXPECT_THAT(sink->ValuesOf("main_step/priority_min"), ElementsAre(1 + 1e-5f, 1 + 1e-5f));
  EXPECT_THAT(sink->ValuesOf("main_iter/beta"), ElementsAre(0.5, 1));
  const std::vector<double> use_max = sink->ValuesOf("main_iter/use_max");
  EXPECT_GT(use_max[1], 3 * use_max[0]);
  for (const RecordingSink::ScalarRecord& scalar : sink->scalars()) {
    if (absl::StrContains(scalar.tag, "_step/")) {
      EXPECT_EQ(scalar.step, 40) << scalar.tag;
    }
  }
}

TEST(AdvancedReplayBuffer, MeasuresWithoutCollectIterAndBeforeAnEnvStepIsKnown) {
  const auto sink = std::make_shared<RecordingSink>();
  Options options;
  options.name = "main";
  options.metrics = sink;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 4, {}), -1), IsOk());
  ASSERT_THAT(buffer->Sample(2, 7), IsOk());
  EXPECT_THAT(sink->ScalarTags(),
              ElementsAre("main_iter/beta", "main_iter/priority_avg", "main_iter/priority_max",
                          "main_iter/priority_min", "main_iter/use_avg", "main_iter/use_max"));
}

TEST(AdvancedReplayBuffer, MeasuringChangesNeitherDrawsNorState) {
  const auto run = [](std::shared_ptr<MetricSink> metrics) {
    Options options;
    options.capacity_rows = 50;
    options.max_use = 9;
    options.metrics = std::move(metrics);
    options.periodic_thruput_seconds = 1e-9;  // Every draw makes a report.
    options.sampled_data_attr.print_freq = 1;
    const auto buffer = MakeAdvancedBuffer(options);
    TestStreams streams;
    std::vector<int64_t> drawn;
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(buffer->Push(streams.Make({{0, 20}, {1, 10}}), i), IsOk());
      const Batch batch = buffer->Sample(16, i).value();
      for (const int64_t id : IdsOf(batch)) drawn.push_back(id);
    }
    return std::make_pair(drawn, Saved(*buffer));
  };
  const auto sink = std::make_shared<RecordingSink>();
  const auto measured = run(sink);
  const auto plain = run(nullptr);
  EXPECT_EQ(measured.first, plain.first);
  EXPECT_TRUE(SameBytes(measured.second, plain.second));
  EXPECT_GE(sink->texts().size(), 40u);
}

// Tests priorities: how they are given and updated, how rows are drawn in proportion to them, and
// the importance weights.

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
  EXPECT_THAT(buffer->Sample(5, 0), IsFailedPrecondition());
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
                IsInvalid("priority 2 of 3 is ", "expected a finite"));
    // The priority is checked even if the row is gone.
    EXPECT_THAT(buffer->Update({{bad}, {99}, {99}}), IsInvalid());
    EXPECT_THAT(buffer->Push(TestRows(3, 2, {}, {1, bad}), 0), IsInvalid("priority 1 of 2"));
  }
  EXPECT_THAT(buffer->Update({{1, 2}, {0}, {0, 1}}),
              IsInvalid("2 priorities for 1 replay_unique_id and 2 replay_buffer_idx"));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
  const auto fresh = MakeAdvancedBuffer({});
  EXPECT_THAT(fresh->Push(RowsWithPriorities({kNan}), 0), IsInvalid());
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

// Tests how rows are retired: max_use and max_staleness.

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

// Tests which saved states the buffer accepts, and which options then apply to draws.

TEST(AdvancedReplayBuffer, InvalidSavedStateIsRefused) {
  Options options;
  options.capacity_rows = 8;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 5), 0), IsOk());
  const TensorMap good = Saved(*buffer);
  const auto load = [&](const std::string& name, const auto& write) {
    TensorMap damaged;
    for (const auto& [key, tensor] : good) {
      if (key != name) damaged.Set(key, tensor);
    }
    StateDict state(damaged, "test");
    EXPECT_THAT(write(&state), IsOk());
    const absl::Status status = buffer->LoadState(&state);
    EXPECT_TRUE(SameBytes(good, Saved(*buffer)));
    return status;
  };
  const auto priority = [&](std::vector<float> values) {
    return load("priority", [&](StateDict* s) { return s->WriteSpan<float>("priority", values); });
  };
  const auto use = [&](std::vector<int32_t> values) {
    return load("use", [&](StateDict* s) { return s->WriteSpan<int32_t>("use", values); });
  };
  const auto number = [&](const std::string& name, double value) {
    return load(name, [&](StateDict* s) { return s->WriteDouble(name, value); });
  };
  for (const float bad : {kNan, kInfinity, -1.0f, 1e-9f}) {
    EXPECT_THAT(priority({1, 1, bad, 1, 1}), IsInvalid("priority of row 2 is"));
  }
  EXPECT_THAT(priority({1, 1, 1, 1}), IsInvalid());
  EXPECT_THAT(use({0, -1, 0, 0, 0}), IsInvalid("use of row 1 is -1"));
  EXPECT_THAT(number("beta", 1.25), IsInvalid("saved beta is 1.25"));
  EXPECT_THAT(number("max_priority", 0.5), IsInvalid("max_priority is 0.5"));
}

TEST(AdvancedReplayBuffer, StateWithAnotherMaxUseOrBetaIsRefused) {
  Options options;
  options.capacity_rows = 8;
  options.beta = 0.5;
  options.anneal_step = 10;
  options.max_use = 3;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 8), 0), IsOk());
  ASSERT_THAT(buffer->Sample(4, 0), IsOk());
  const TensorMap saved = Saved(*buffer);
  const auto load = [&saved](const Options& other) {
    const auto loaded = MakeAdvancedBuffer(other);
    const TensorMap before = Saved(*loaded);
    const absl::Status status = LoadFrom(loaded.get(), saved);
    EXPECT_NE(status.ok(), SameBytes(before, Saved(*loaded)));
    return status;
  };
  EXPECT_THAT(load(options), IsOk());
  Options other = options;
  other.max_use = 2;
  EXPECT_THAT(load(other), IsInvalid("saved max_use is 3, expected 2"));
  other.max_use.reset();
  EXPECT_THAT(load(other), IsInvalid("saved max_use is 3, expected no limit"));
  other = options;
  other.beta = 1;
  EXPECT_THAT(load(other), IsInvalid("saved first beta is 0.5, expected 1"));
  other = options;
  other.anneal_step = 20;
  EXPECT_THAT(load(other), IsInvalid("saved anneal_step is 10, expected 20"));
  other = options;
  other.alpha = 1;
  other.nstep = 3;
  other.gamma = 0.5;
  other.max_staleness = 100;
  EXPECT_THAT(load(other), IsOk());
}

// A state holds priorities without their exponent, so loaded rows are drawn with the alpha and
// nstep of the buffer that loads them.
TEST(AdvancedReplayBuffer, LoadedRowsAreDrawnByTheOptionsOfTheirNewBuffer) {
  Options options;
  options.capacity_rows = 4;
  options.alpha = 0;
  options.beta = 1;
  const auto saved = MakeAdvancedBuffer(options);
  ASSERT_THAT(saved->Push(RowsWithPriorities({3, 3, 3, 1}), 0), IsOk());
  options.alpha = 1;
  options.nstep = 2;
  const auto loaded = MakeAdvancedBuffer(options);
  ASSERT_THAT(LoadFrom(loaded.get(), Saved(*saved)), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, loaded->Sample(10, 0, WithReplacement()));
  const std::vector<int64_t> ids = IdsOf(batch);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_NEAR(FloatsOf(batch, "weight")[i], ids[i] == 3 ? 1 : 1.0 / 3, 1e-4);
    EXPECT_EQ(batch.column<int32_t>("n_step")[i], ids[i] == 3 ? 1 : 2);
  }
}

}  // namespace
}  // namespace ding
