#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/monitors/sampled_data_attr_monitor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::DoubleNear;
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

struct Columns {
  std::vector<int64_t> use;
  std::vector<float> priority;
  std::vector<int64_t> staleness;
};

SampledDataAttrMonitor::Draw DrawOf(const Columns& columns, double beta, int64_t iter,
                                    int64_t envstep) {
  return {columns.use, columns.priority, columns.staleness, beta, iter, envstep};
}

class SampledDataAttrMonitorTest : public testing::Test {
 protected:
  SampledDataAttrMonitor Make(int32_t average_range, int64_t print_freq) {
    return SampledDataAttrMonitor({average_range, print_freq}, "buffer", sink_);
  }
  const std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
};

TEST_F(SampledDataAttrMonitorTest, WritesTheFirstDraw) {
  auto monitor = Make(5, 200);
  monitor.Add(DrawOf({{1, 3}, {0.5, 2}, {7, 9}}, 0.25, 10, 20));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/use_avg"), ElementsAre(2));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/use_max"), ElementsAre(3));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/priority_avg"), ElementsAre(1.25));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/priority_max"), ElementsAre(2));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/priority_min"), ElementsAre(0.5));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/staleness_avg"), ElementsAre(8));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/staleness_max"), ElementsAre(9));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/beta"), ElementsAre(0.25));
  EXPECT_THAT(sink_->ValuesOf("buffer_step/staleness_max"), ElementsAre(9));
  EXPECT_EQ(sink_->ScalarTags().size(), 16u);
  for (const RecordingSink::ScalarRecord& scalar : sink_->scalars()) {
    EXPECT_EQ(scalar.step, scalar.tag.find("_iter/") == std::string::npos ? 20 : 10) << scalar.tag;
  }
  ASSERT_EQ(sink_->texts().size(), 1u);
  EXPECT_EQ(sink_->texts()[0].text,
            "buffer at draw 0: use_avg 2, use_max 3, priority_avg 1.25, priority_max 2, "
            "priority_min 0.5, staleness_avg 8, staleness_max 9, beta 0.25");
}

TEST_F(SampledDataAttrMonitorTest, UnknownStepsAreLeftOut) {
  auto monitor = Make(5, 1);
  monitor.Add(DrawOf({{1}, {1}, {0}}, 1, -1, 5));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/use_avg"), IsEmpty());
  EXPECT_THAT(sink_->ValuesOf("buffer_step/use_avg"), ElementsAre(1));
  monitor.Add(DrawOf({{1}, {1}, {0}}, 1, 5, -1));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/use_avg"), ElementsAre(1));
  EXPECT_THAT(sink_->ValuesOf("buffer_step/use_avg"), ElementsAre(1));
  EXPECT_EQ(sink_->texts().size(), 2u);
}

TEST_F(SampledDataAttrMonitorTest, UnknownStalenessIsLeftOut) {
  auto monitor = Make(2, 1);
  monitor.Add(DrawOf({{1}, {1}, {-1}}, 1, 0, -1));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/staleness_avg"), IsEmpty());
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/staleness_max"), IsEmpty());
  monitor.Add(DrawOf({{1, 1, 1}, {1, 1, 1}, {-1, 4, 6}}, 1, 1, -1));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/staleness_avg"), ElementsAre(5));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/staleness_max"), ElementsAre(6));
}

// The reference looks at every draw and averages over the last ones, for many windows and
// frequencies.
TEST_F(SampledDataAttrMonitorTest, AgreesWithAReferenceThatSeesEveryDraw) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed, "draws");
    const auto range = static_cast<int32_t>(1 + rng.UniformInt(8));
    const auto print_freq = static_cast<int64_t>(1 + rng.UniformInt(12));
    const auto sink = std::make_shared<RecordingSink>();
    SampledDataAttrMonitor monitor({range, print_freq}, "b", sink);
    std::deque<Columns> window;
    std::vector<testing::Matcher<double>> use_avg, use_max, priority_avg, priority_min, stale_max;
    for (int64_t i = 0; i < 50; ++i) {
      Columns columns;
      const int64_t size = 1 + static_cast<int64_t>(rng.UniformInt(5));
      for (int64_t row = 0; row < size; ++row) {
        columns.use.push_back(static_cast<int64_t>(rng.UniformInt(9)));
        columns.priority.push_back(static_cast<float>(rng.Uniform()));
        columns.staleness.push_back(static_cast<int64_t>(rng.UniformInt(100)));
      }
      window.push_back(columns);
      if (window.size() > static_cast<size_t>(range)) window.pop_front();
      monitor.Add(DrawOf(columns, 1, i, -1));
      if (i % print_freq != 0) continue;
      double use_sum = 0, priority_sum = 0, least = 2;
      int64_t most_used = 0, stalest = 0;
      for (const Columns& draw : window) {
        double use = 0, priority = 0;
        for (size_t row = 0; row < draw.use.size(); ++row) {
          use += static_cast<double>(draw.use[row]);
          priority += draw.priority[row];
          least = std::min<double>(least, draw.priority[row]);
          most_used = std::max(most_used, draw.use[row]);
          stalest = std::max(stalest, draw.staleness[row]);
        }
        use_sum += use / static_cast<double>(draw.use.size());
        priority_sum += priority / static_cast<double>(draw.use.size());
      }
      const auto draws = static_cast<double>(window.size());
      use_avg.push_back(DoubleNear(use_sum / draws, 1e-12));
      use_max.push_back(DoubleNear(static_cast<double>(most_used), 0));
      priority_avg.push_back(DoubleNear(priority_sum / draws, 1e-12));
      priority_min.push_back(DoubleNear(least, 0));
      stale_max.push_back(DoubleNear(static_cast<double>(stalest), 0));
    }
    EXPECT_THAT(sink->ValuesOf("b_iter/use_avg"), testing::ElementsAreArray(use_avg));
    EXPECT_THAT(sink->ValuesOf("b_iter/use_max"), testing::ElementsAreArray(use_max));
    EXPECT_THAT(sink->ValuesOf("b_iter/priority_avg"), testing::ElementsAreArray(priority_avg));
    EXPECT_THAT(sink->ValuesOf("b_iter/priority_min"), testing::ElementsAreArray(priority_min));
    EXPECT_THAT(sink->ValuesOf("b_iter/staleness_max"), testing::ElementsAreArray(stale_max));
  }
}

TEST_F(SampledDataAttrMonitorTest, ThreadsMayDrawAtOnce) {
  auto monitor = Make(3, 10);
  const Columns columns = {{2}, {1}, {3}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int draw = 0; draw < 250; ++draw) monitor.Add(DrawOf(columns, 1, 0, -1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/use_avg"),
              testing::AllOf(testing::SizeIs(100), testing::Each(2)));
}

TEST_F(SampledDataAttrMonitorTest, WrongOptionsAreListed) {
  std::vector<std::string> problems;
  SampledDataAttrMonitor::AppendProblems({1, 1}, &problems);
  EXPECT_THAT(problems, IsEmpty());
  SampledDataAttrMonitor::AppendProblems({0, -1}, &problems);
  EXPECT_THAT(problems, ElementsAre("sampled_data_attr.average_range is 0, expected at least 1",
                                    "sampled_data_attr.print_freq is -1, expected at least 1"));
}

TEST_F(SampledDataAttrMonitorTest, RegisteredAttribute_IsReported) {
  auto monitor = Make(5, 1);
  monitor.RegisterAttributeValue("newest", "use",
                                 [](const Monitor& draws) -> std::optional<double> {
                                   const std::vector<double> values = draws.Values("use_max");
                                   if (values.empty()) return std::nullopt;
                                   return values.back();
                                 });
  EXPECT_THAT(monitor.GetAttribute("newest", "use"), IsFailedPrecondition());
  monitor.Add(DrawOf({{4}, {1}, {0}}, 1, 0, 0));
  monitor.Add(DrawOf({{2}, {1}, {0}}, 1, 1, 1));
  EXPECT_THAT(sink_->ValuesOf("buffer_iter/use_newest"), ElementsAre(4, 2));
  EXPECT_EQ(monitor.GetAttribute("max", "use").value(), 4);
  monitor.RegisterAttributeValue("newest", "read_out_time", [](const Monitor& draws) {
    return std::optional<double>(draws.Values("read_out_time").back());
  });
  EXPECT_EQ(monitor.GetAttribute("newest", "read_out_time").value(), 1);
}

TEST_F(SampledDataAttrMonitorTest, Freeze_FixesWhatReadsSee) {
  auto monitor = Make(5, 1);
  monitor.Add(DrawOf({{1}, {1}, {0}}, 1, 0, 0));
  monitor.Freeze();
  monitor.Add(DrawOf({{9}, {1}, {0}}, 1, 1, 1));
  EXPECT_EQ(monitor.fixed_time(), 1);
  EXPECT_EQ(monitor.current_time(), 2);
  EXPECT_EQ(monitor.GetAttribute("max", "use").value(), 1);
  monitor.Unfreeze();
  EXPECT_EQ(monitor.fixed_time(), 2);
  EXPECT_EQ(monitor.GetAttribute("max", "use").value(), 9);
}

}  // namespace
}  // namespace ding
