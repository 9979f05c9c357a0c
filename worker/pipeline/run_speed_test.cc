#include "ding_worker/worker/pipeline/run_speed.h"

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/metrics/time_histogram.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

using ::testing::UnorderedElementsAre;

TEST(RunSpeedTest, WritesRatesSinceTheLastTimeAndTheTimeOfStages) {
  SimulatedClock clock;
  RecordingSink sink;
  MultiSink metrics({std::shared_ptr<MetricSink>(&sink, [](MetricSink*) {})}, MetricAxis::kEnvStep);
  RunSpeed speed(&clock);
  clock.Advance(absl::Seconds(100));
  speed.Begin(/*env_step=*/5000, /*train_iter=*/50);  // a run that is resumed
  {
    const RunSpeed::Scope timed(&speed, RunSpeed::kCollect);
    clock.Advance(absl::Milliseconds(500));
  }
  EXPECT_FALSE(speed.WriteIfDue(5100, 50, &metrics));
  for (int i = 0; i < 2; ++i) {
    const RunSpeed::Scope timed(&speed, RunSpeed::kLearn);
    clock.Advance(absl::Milliseconds(750));
  }
  EXPECT_TRUE(speed.WriteIfDue(5200, 90, &metrics));
  EXPECT_FALSE(speed.WriteIfDue(5200, 90, &metrics));
  clock.Advance(absl::Seconds(1));
  speed.Write(5210, 90, &metrics);
  EXPECT_THAT(sink.ValuesOf("run_step/env_steps_per_second"), ElementsAre(100, 10));
  EXPECT_THAT(sink.ValuesOf("run_step/updates_per_second"), ElementsAre(20, 0));
  EXPECT_THAT(sink.ValuesOf("run_step/collect_seconds"), ElementsAre(0.5, 0.5));
  EXPECT_THAT(sink.ValuesOf("run_step/learn_seconds"), ElementsAre(1.5, 1.5));
  const StageTimes stages = speed.stages();
  EXPECT_EQ(stages[RunSpeed::kLearn].first, "learn");
  EXPECT_EQ(stages[RunSpeed::kLearn].second.nanos(), 1'500'000'000);
  EXPECT_EQ(stages[RunSpeed::kLearn].second.counts()[10], 2) << "up to a second";
  EXPECT_THAT(sink.ValuesOf("run_step/evaluate_seconds"), ElementsAre(0, 0));
  EXPECT_THAT(sink.ValuesOf("run_step/save_seconds"), ElementsAre(0, 0));
}

TEST(RunSpeedTest, ARunWithoutEnvStepsHasUpdatesOnly) {
  SimulatedClock clock;
  RecordingSink metrics;
  RunSpeed speed(&clock);
  speed.Begin(-1, 0);
  clock.Advance(absl::Seconds(2));
  speed.Write(-1, 10, &metrics);
  EXPECT_THAT(metrics.ScalarTags(),
              UnorderedElementsAre("run_iter/updates_per_second", "run_iter/learn_seconds",
                                   "run_iter/evaluate_seconds", "run_iter/save_seconds"));
  EXPECT_THAT(metrics.ValuesOf("run_iter/updates_per_second"), ElementsAre(5));
}

}  // namespace
}  // namespace ding
