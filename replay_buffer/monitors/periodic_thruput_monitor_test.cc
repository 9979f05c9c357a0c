#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PeriodicThruputMonitorTest : public testing::Test {
 protected:
  PeriodicThruputMonitor::Options Options() const { return {60, "buffer", sink_, &clock_}; }
  void Write(const std::optional<ThruputReport>& report) {
    WriteThruput(report, "buffer", sink_.get());
  }
  SimulatedClock clock_;
  const std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
};

TEST_F(PeriodicThruputMonitorTest, ReportsWhenThePeriodHasPassed) {
  PeriodicThruputMonitor monitor(Options());
  Write(monitor.Pushed(100, 100));
  clock_.Advance(absl::Seconds(59));
  Write(monitor.Sampled(32, 100));
  EXPECT_THAT(sink_->scalars(), IsEmpty());
  clock_.Advance(absl::Seconds(2));
  Write(monitor.Sampled(32, 90));  // The draw retired ten.
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/pushed_in"), ElementsAre(100));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/sampled_out"), ElementsAre(64));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/removed"), ElementsAre(10));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/current_have"), ElementsAre(90));
  EXPECT_EQ(sink_->ScalarTags().size(), 4u);
  ASSERT_EQ(sink_->texts().size(), 1u);
  EXPECT_EQ(sink_->texts()[0].text,
            "buffer in 61 s: pushed_in 100, sampled_out 64, removed 10, current_have 90");
  // The first three counts and the period start again, and the reports are numbered.
  Write(monitor.Sampled(1, 90));
  clock_.Advance(absl::Seconds(60));
  Write(monitor.Sampled(1, 90));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/pushed_in"), ElementsAre(100, 0));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/sampled_out"), ElementsAre(64, 2));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/removed"), ElementsAre(10, 0));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/current_have"), ElementsAre(90, 90));
  EXPECT_EQ(sink_->scalars().front().step, 0);
  EXPECT_EQ(sink_->scalars().back().step, 1);
}

TEST_F(PeriodicThruputMonitorTest, PushesAloneEndAPeriod) {
  PeriodicThruputMonitor monitor(Options());
  clock_.Advance(absl::Seconds(61));
  for (int i = 1; i < PeriodicThruputMonitor::kPushesPerLook; ++i) Write(monitor.Pushed(1, i));
  EXPECT_THAT(sink_->scalars(), IsEmpty());
  Write(monitor.Pushed(1, PeriodicThruputMonitor::kPushesPerLook));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/pushed_in"),
              ElementsAre(PeriodicThruputMonitor::kPushesPerLook));
}

TEST_F(PeriodicThruputMonitorTest, DestructorWritesTheLastReport) {
  {
    PeriodicThruputMonitor monitor(Options());
    monitor.Pushed(5, 3);
    clock_.Advance(absl::Seconds(7));
  }
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/pushed_in"), ElementsAre(5));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/removed"), ElementsAre(2));
  EXPECT_THAT(sink_->texts()[0].text, testing::HasSubstr("in 7 s"));
  { const PeriodicThruputMonitor nothing_happened(Options()); }
  EXPECT_EQ(sink_->texts().size(), 1u);
}

TEST_F(PeriodicThruputMonitorTest, LoadedRowsCountNeitherAsPushedNorRemoved) {
  {
    PeriodicThruputMonitor monitor(Options());
    monitor.Pushed(5, 5);
    monitor.Loaded(100);
    monitor.Pushed(5, 105);
  }
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/pushed_in"), ElementsAre(10));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/removed"), ElementsAre(0));
  EXPECT_THAT(sink_->ValuesOf("buffer_sec/current_have"), ElementsAre(105));
}

// The reports add up, whatever is called and whenever a report is made.
TEST_F(PeriodicThruputMonitorTest, ReportsAddUp) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed, "calls");
    const auto sink = std::make_shared<RecordingSink>();
    int64_t have = 0, pushed = 0, sampled = 0, removed = 0;
    {
      PeriodicThruputMonitor monitor({10, "b", sink, &clock_});
      for (int i = 0; i < 300; ++i) {
        clock_.Advance(absl::Milliseconds(rng.UniformInt(2000)));
        std::optional<ThruputReport> report;
        const auto rows = static_cast<int64_t>(rng.UniformInt(50));
        const int64_t kept = std::min<int64_t>(have + rows, 200);
        switch (rng.UniformInt(3)) {
          case 0:
            pushed += rows;
            removed += have + rows - kept;
            have = kept;
            report = monitor.Pushed(rows, have);
            break;
          case 1:
            sampled += rows;
            removed += have / 10;
            have -= have / 10;
            report = monitor.Sampled(rows, have);
            break;
          default:
            if (rows > 0) break;
            removed += have;
            have = 0;
            monitor.Removed(have);
        }
        if (report.has_value()) {
          EXPECT_EQ(report->current_have, have);
        }
        WriteThruput(report, "b", sink.get());
      }
    }
    const auto sum = [&sink](const std::string& tag) {
      double total = 0;
      for (const double value : sink->ValuesOf(tag)) total += value;
      return static_cast<int64_t>(total);
    };
    EXPECT_GT(sink->texts().size(), 3u);
    EXPECT_EQ(sum("b_sec/pushed_in"), pushed);
    EXPECT_EQ(sum("b_sec/sampled_out"), sampled);
    EXPECT_EQ(sum("b_sec/removed"), removed);
    EXPECT_EQ(sink->ValuesOf("b_sec/current_have").back(), have);
  }
}

TEST_F(PeriodicThruputMonitorTest, RefusesPeriodsThatAreNotAboveZero) {
  std::vector<std::string> problems;
  PeriodicThruputMonitor::AppendProblems(0.1, &problems);
  EXPECT_THAT(problems, IsEmpty());
  PeriodicThruputMonitor::AppendProblems(0, &problems);
  PeriodicThruputMonitor::AppendProblems(std::nan(""), &problems);
  EXPECT_THAT(problems, ElementsAre("periodic_thruput_seconds is 0, expected above 0",
                                    "periodic_thruput_seconds is nan, expected above 0"));
}

}  // namespace
}  // namespace ding
