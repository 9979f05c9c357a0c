#include "ding_worker/replay_buffer/advanced_buffer.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
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
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("41 rows: the buffer holds 60, expected at least 61.5")));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(buffer->Sample(40, 0), IsOk());
  const TensorMap before = Saved(*buffer);
  EXPECT_THAT(buffer->Sample(1, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("60 pushed, 120 drawn")));
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
  EXPECT_THAT(impatient->Sample(1, 0), StatusIs(absl::StatusCode::kFailedPrecondition));
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

TEST(AdvancedReplayBuffer, PushersDrawersAndUpdatersDoNotDisturbEachOther) {
  Options options;
  options.metrics = std::make_shared<RecordingSink>();
  options.periodic_thruput_seconds = 1e-3;
  options.sampled_data_attr.print_freq = 7;
  options.capacity_rows = 300;
  options.max_use = 20;
  options.max_staleness = 2000;
  const auto buffer = MakeAdvancedBuffer(options);
  TestStreams first;
  ASSERT_THAT(buffer->Push(first.Make({{100, 64}}), 0), IsOk());
  constexpr int kPushes = 1500;
  std::atomic<int> pushing{2};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      TestStreams streams;
      for (int i = 0; i < kPushes; ++i) {
        EXPECT_THAT(buffer->Push(streams.Make({{2 * t, 3}, {2 * t + 1, 4}}), i), IsOk());
      }
      --pushing;
    });
    threads.emplace_back([&, t] {
      Rng rng(static_cast<uint64_t>(t), "updater");
      do {
        const absl::StatusOr<Batch> batch = buffer->Sample(32, 0);
        if (absl::IsFailedPrecondition(batch.status())) continue;  // Too many rows are used up.
        ASSERT_THAT(batch, IsOk());
        EXPECT_THAT(FloatsOf(*batch, "weight"), Each(AllOf(testing::Gt(0.0f), testing::Le(1.0f))));
        PriorityInfo info{std::vector<float>(32), IdsOf(*batch),
                          IntsOf(*batch, "replay_buffer_idx")};
        for (float& priority : info.priority) priority = static_cast<float>(rng.Uniform());
        EXPECT_THAT(buffer->Update(info), IsOk());
      } while (pushing > 0);
    });
  }
  threads.emplace_back([&] {
    do {
      StateDict state;
      EXPECT_THAT(buffer->SaveState(&state), IsOk());
      EXPECT_LE(buffer->count(), 300);
      EXPECT_GE(buffer->beta(), 0.4);
    } while (pushing > 0);
  });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ding
