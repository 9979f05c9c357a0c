#include "ding_worker/metrics/averages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(WindowAverageTest, HasNoAverageBeforeTheFirstValue) {
  EXPECT_EQ(WindowAverage(3).Average(), std::nullopt);
}

TEST(WindowAverageTest, AWindowOfThreeAveragesThreeValues) {
  WindowAverage window(3);
  window.Add(1);
  EXPECT_EQ(window.Average(), 1);
  window.Add(2);
  window.Add(6);
  EXPECT_EQ(window.Average(), 3);
  window.Add(10);
  EXPECT_EQ(window.Average(), 6);
  EXPECT_THAT(window.Values(), ElementsAre(2, 6, 10));
  window.Add(11);
  EXPECT_EQ(window.Average(), 9);
}

TEST(WindowAverageTest, ANanIsForgottenAfterTheWindow) {
  WindowAverage window(1);
  window.Add(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(*window.Average()));
  window.Add(4);
  EXPECT_EQ(window.Average(), 4);
}

TEST(MonitorTest, ANameWithoutValuesIsMissing) {
  Monitor monitor(2);
  monitor.Declare("loss");
  monitor.Add("lr", 0.5);
  monitor.Declare("lr");
  EXPECT_EQ(monitor.Average("loss"), std::nullopt);
  EXPECT_EQ(monitor.Average("unknown"), std::nullopt);
  EXPECT_THAT(monitor.Averages(), ElementsAre(Pair("loss", std::nullopt), Pair("lr", 0.5)));
}

TEST(MonitorTest, ContinuesAfterARestoreAsIfNotInterrupted) {
  Monitor monitor(2);
  monitor.Declare("never");
  for (const double value : {1, 2, 4}) monitor.Add("loss", value);
  StateDict state;
  ASSERT_THAT(monitor.SaveState(&state), IsOk());
  Monitor restored(2);
  ASSERT_THAT(restored.LoadState(&state), IsOk());
  EXPECT_EQ(restored.Averages(), monitor.Averages());
  monitor.Add("loss", 8);
  restored.Add("loss", 8);
  EXPECT_EQ(restored.Average("loss"), 6);
  EXPECT_EQ(monitor.Average("loss"), 6);
}

TEST(MonitorTest, KeepsTheNewestValuesOfALongerWindow) {
  Monitor longer(3);
  for (const double value : {1, 2, 4}) longer.Add("loss", value);
  StateDict state;
  ASSERT_THAT(longer.SaveState(&state), IsOk());
  Monitor monitor(2);
  ASSERT_THAT(monitor.LoadState(&state), IsOk());
  EXPECT_EQ(monitor.Average("loss"), 3);
}

TEST(MonitorTest, AFailedLoadChangesNothing) {
  StateDict state;
  ASSERT_THAT(state.WriteSpan<double>("a", {7.0}), IsOk());
  ASSERT_THAT(state.WriteString("loss", "not numbers"), IsOk());
  Monitor monitor(2);
  monitor.Add("loss", 1);
  EXPECT_THAT(monitor.LoadState(&state), IsInvalid("loss"));
  EXPECT_THAT(monitor.Averages(), ElementsAre(Pair("loss", 1)));
}

TEST(Monitor, Attributes_AreComputedFromTheWindows) {
  Monitor monitor(2);
  const auto largest = [](const Monitor& read) -> std::optional<double> {
    const std::vector<double> values = read.Values("loss");
    if (values.empty()) return std::nullopt;
    return *std::max_element(values.begin(), values.end());
  };
  monitor.RegisterAttributeValue("max", "loss", largest);
  EXPECT_THAT(monitor.GetAttribute("max", "loss"), IsFailedPrecondition("'loss'"));
  EXPECT_THAT(monitor.Attributes(), IsEmpty());
  for (const double loss : {9.0, 3.0, 5.0}) monitor.Add("loss", loss);
  EXPECT_EQ(monitor.GetAttribute("max", "loss").value(), 5);
  EXPECT_THAT(monitor.Attributes(), ElementsAre(Pair("loss_max", 5)));
  EXPECT_THAT(monitor.GetAttribute("min", "loss"), IsNotFound("'min'"));
}

TEST(Monitor, Freeze_FixesTimeAndValues) {
  Monitor monitor(5);
  monitor.Add("loss", 1);
  monitor.Step();
  monitor.Freeze();
  monitor.Add("loss", 100);
  monitor.Step(3);
  EXPECT_EQ(monitor.fixed_time(), 1);
  EXPECT_EQ(monitor.current_time(), 4);
  EXPECT_EQ(monitor.Average("loss"), 1);
  monitor.Unfreeze();
  EXPECT_EQ(monitor.fixed_time(), 4);
  EXPECT_EQ(monitor.Average("loss"), 50.5) << "what was added meanwhile counts";
}

}  // namespace
}  // namespace ding
