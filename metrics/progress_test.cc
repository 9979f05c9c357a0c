#include "ding_worker/metrics/progress.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/terminal.h"
#include "ding_worker/metrics/testing/screen.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

ProgressOptions OnTerminal(Screen* screen, int width, const Clock* clock) {
  ProgressOptions options;
  options.style = ProgressStyle::kLine;
  options.width = [width] { return width; };
  options.write = [screen](absl::string_view text) { screen->Write(text); };
  options.clock = clock;
  return options;
}

ProgressOptions ToFile(std::string* output, const Clock* clock) {
  ProgressOptions options;
  options.write = [output](absl::string_view text) { absl::StrAppend(output, text); };
  options.clock = clock;
  return options;
}

ProgressState At(int64_t env_step, int64_t train_iter) {
  ProgressState state;
  state.env_step = env_step;
  state.train_iter = train_iter;
  return state;
}

class ProgressTest : public testing::Test {
 protected:
  SimulatedClock clock_;
  std::string output_;
  ProgressOptions options_ = ToFile(&output_, &clock_);
  Screen screen_{120};
};
class ProgressOnTerminalTest : public ProgressTest {};
class ProgressToFileTest : public ProgressTest {};

TEST_F(ProgressOnTerminalTest, RedrawsOneLineAndEndsOnANewOne) {
  ProgressOptions options = OnTerminal(&screen_, 120, &clock_);
  options.max_env_step = 50000;
  Progress progress(options);
  progress.Update(At(0, 0));
  EXPECT_THAT(screen_.Lines(), ElementsAre("env_step 0/50000 (0%)  train_iter 0  elapsed 0:00"));
  clock_.Advance(absl::Seconds(10));
  ProgressState state = At(10000, 5000);
  state.last_eval = 187.4;
  state.best_eval = 195.0;
  progress.Update(state);
  const std::string line =
      "env_step 10000/50000 (20%)  eval 187.4 best 195  train_iter 5000  1000 env_step/s  "
      "elapsed 0:10  left 0:40";
  EXPECT_THAT(screen_.Lines(), ElementsAre(line));
  progress.Finish();
  EXPECT_THAT(screen_.Lines(), ElementsAre(line, ""));
  EXPECT_EQ(screen_.column(), 0);
}

TEST_F(ProgressOnTerminalTest, DrawsAtMostFiveTimesASecond) {
  Progress progress(OnTerminal(&screen_, 120, &clock_));
  // 10 s: at 0, 0.2, ... 9.8.
  for (int i = 0; i < 1000; ++i) {
    progress.Update(At(i, i));
    clock_.Advance(absl::Milliseconds(10));
  }
  EXPECT_EQ(screen_.writes(), 50);
}

TEST_F(ProgressOnTerminalTest, LeavesOutFieldsThatDoNotFit) {
  for (int width = 1; width < 120; ++width) {
    SCOPED_TRACE(width);
    SimulatedClock clock;
    Screen screen(static_cast<size_t>(width));
    ProgressOptions options = OnTerminal(&screen, width, &clock);
    options.max_env_step = 50000;
    Progress progress(options);
    clock.Advance(absl::Seconds(10));
    progress.Update(At(10000, 5000));
    ASSERT_EQ(screen.Lines().size(), 1) << screen.Lines().back();
    ASSERT_LT(screen.Lines()[0].size(), static_cast<size_t>(std::max(width, 2)));
  }
}

// All fields that a run can have, in terminals of several widths.
TEST_F(ProgressOnTerminalTest, ShortensAndLeavesOutTheLeastImportantFields) {
  const auto line_at = [](int width) {
    SimulatedClock clock;
    Screen screen(static_cast<size_t>(width));
    ProgressOptions options = OnTerminal(&screen, width, &clock);
    options.max_env_step = 50000;
    options.values = [] {
      return ProgressValues{{"return", 187.44}, {"loss", 0.012345}, {"eps", 0.31}};
    };
    Progress progress(options);
    clock.Advance(absl::Seconds(10));
    ProgressState state = At(12345, 5000);
    state.last_eval = 187.4;
    state.best_eval = 195;
    progress.Update(state);
    EXPECT_EQ(screen.Lines().size(), 1u) << "at width " << width;
    return screen.Lines()[0];
  };
  EXPECT_EQ(
      line_at(160),
      "env_step 12345/50000 (25%)  return 187.4  eval 187.4 best 195  loss 0.01235  eps 0.31  "
      "train_iter 5000  1234 env_step/s  elapsed 0:10  left 0:30");
  EXPECT_EQ(line_at(80),
            "12345 25%  return 187.4  eval 187.4  loss 0.01235  eps 0.31  1234/s  left 0:30");
  EXPECT_EQ(line_at(78), "12345 25%  return 187.4  eval 187.4  loss 0.01235  1234/s  left 0:30");
  EXPECT_EQ(line_at(41), "25%  return 187.4  eval 187.4  left 0:30");
  EXPECT_EQ(line_at(40), "25%  return 187.4  eval 187.4");
  EXPECT_EQ(line_at(20), "25%  eval 187.4");
  EXPECT_EQ(line_at(4), "25%");
  EXPECT_EQ(line_at(3), "25");
}

TEST_F(ProgressOnTerminalTest, ShowsTheStageOfTheRunBeforeOtherDetails) {
  const auto drawn = [](int columns, const std::string& detail) {
    SimulatedClock clock;
    Screen screen(static_cast<size_t>(columns));
    Progress progress(OnTerminal(&screen, columns, &clock));
    ProgressState state = At(1200, 30);
    state.detail = detail;
    progress.Update(state);
    return screen.Lines().front();
  };
  const std::string detail = "evaluating (collector-0), learner-0 waits for more rows";
  EXPECT_THAT(drawn(120, detail), EndsWith("elapsed 0:00  " + detail));
  EXPECT_EQ(drawn(41, detail), "env_step 1200  train_iter 30  evaluating");
  EXPECT_EQ(drawn(25, "evaluating"), "1200  evaluating");
  EXPECT_EQ(drawn(43, detail.substr(26)), "env_step 1200  train_iter 30  elapsed 0:00");
}

TEST_F(ProgressOnTerminalTest, ColorsTakeNoColumns) {
  options_.style = ProgressStyle::kLine;
  options_.colors = true;
  options_.width = [] { return 12; };
  Progress progress(options_);
  ProgressState state = At(7, 7);
  state.last_eval = state.best_eval = 2;
  progress.Update(state);
  EXPECT_EQ(output_, "\r7  \x1b[32meval 2\x1b[0m");
  output_.clear();
  progress.Clear();
  EXPECT_EQ(output_, absl::StrCat("\r", std::string(9, ' '), "\r"));
}

TEST_F(ProgressOnTerminalTest, AShorterLineLeavesNothingOfALongerOne) {
  Progress progress(OnTerminal(&screen_, 120, &clock_));
  progress.Update(At(123456, 123456));
  clock_.Advance(absl::Seconds(1));
  progress.Update(At(7, 7));
  EXPECT_THAT(screen_.Lines(), ElementsAre("env_step 7  train_iter 7  elapsed 0:01"));
}

TEST_F(ProgressOnTerminalTest, ALineInANarrowerTerminalStaysOneLine) {
  options_.style = ProgressStyle::kLine;
  options_.start = At(123456, 123456);
  int width = 80;
  options_.width = [&width] { return width; };
  Progress progress(options_);
  progress.Update(At(123456, 123456));
  clock_.Advance(absl::Seconds(1));
  width = 20;
  output_.clear();
  progress.Update(At(123457, 123456));
  EXPECT_EQ(output_, "\r123457  1.0/s      ") << "19 columns";
}

TEST_F(ProgressOnTerminalTest, ClearMakesRoomForAMessage) {
  Progress progress(OnTerminal(&screen_, 120, &clock_));
  progress.Update(At(123456, 1));
  progress.Clear();
  screen_.Write("message\n");
  clock_.Advance(absl::Seconds(1));
  progress.Update(At(123457, 1));
  EXPECT_THAT(screen_.Lines(), ElementsAre("message", HasSubstr("env_step 123457")));
}

TEST_F(ProgressOnTerminalTest, OtherMessagesAreOnLinesOfTheirOwn) {
  Screen screen(60);
  Progress progress(OnTerminal(&screen, 60, &clock_));
  progress.Update(At(123456, 1));
  screen.Write(OnOwnLine("a warning", 60));
  screen.Write(OnOwnLine("another one\n", 60));
  clock_.Advance(absl::Seconds(1));
  progress.Update(At(123457, 1));
  progress.Finish();
  EXPECT_THAT(screen.Lines(),
              ElementsAre("a warning", "another one", HasSubstr("env_step 123457"), ""));
}

TEST_F(ProgressToFileTest, WritesWholeLinesAtGrowingIntervals) {
  Progress progress(options_);
  for (int second = 0; second <= 190; ++second) {
    progress.Update(At(second, second));
    clock_.Advance(absl::Seconds(1));
  }
  std::vector<std::string> elapsed;
  for (const absl::string_view line : absl::StrSplit(output_, '\n', absl::SkipEmpty())) {
    elapsed.emplace_back(line.substr(line.find("elapsed")));
  }
  EXPECT_THAT(elapsed, ElementsAre("elapsed 0:01", "elapsed 0:03", "elapsed 0:07", "elapsed 0:15",
                                   "elapsed 0:31", "elapsed 1:03", "elapsed 2:03", "elapsed 3:03"));
  EXPECT_THAT(output_, Not(HasSubstr("\r")));
  EXPECT_THAT(output_, EndsWith("\n"));
}

TEST_F(ProgressToFileTest, ClearWritesNothing) {
  Progress progress(options_);
  clock_.Advance(absl::Seconds(1));
  progress.Update(At(1, 1));
  const std::string before = output_;
  progress.Clear();
  EXPECT_EQ(output_, before);
}

TEST_F(ProgressTest, TheDestructorShowsTheLastStateOnce) {
  {
    Progress progress(options_);
    progress.Update(At(5, 2));
    EXPECT_EQ(output_, "");
    progress.Finish();
    progress.Update(At(6, 2));
    progress.Finish();
  }
  EXPECT_EQ(output_, "env_step 5  train_iter 2  elapsed 0:00\n");
}

TEST_F(ProgressTest, RateAndTimeLeftAreThoseOfTheLastTenSeconds) {
  options_.max_env_step = 100000;
  Progress progress(options_);
  // 80 s at 1000 steps a second, then 120 s at 10.
  int64_t env_step = 0;
  for (int second = 1; second <= 200; ++second) {
    clock_.Advance(absl::Seconds(1));
    env_step += second <= 80 ? 1000 : 10;
    progress.Update(At(env_step, 0));
  }
  output_.clear();
  progress.Finish();
  EXPECT_EQ(output_,
            "env_step 81200/100000 (81%)  train_iter 0  10.0 env_step/s  elapsed 3:20  "
            "left 31:20\n");
}

TEST_F(ProgressTest, ARunWithoutEnvStepsHasARateOfTrainIterations) {
  ProgressOptions options = OnTerminal(&screen_, 120, &clock_);
  options.has_env_steps = false;
  options.max_train_iter = 4000;
  Progress progress(options);
  progress.Update(At(0, 0));
  clock_.Advance(absl::Seconds(10));
  progress.Update(At(0, 1000));
  EXPECT_THAT(screen_.Lines(),
              ElementsAre("train_iter 1000/4000 (25%)  100 train_iter/s  elapsed 0:10  left 0:30"));
}

TEST_F(ProgressTest, AResumedRunCountsFromWhereItBegan) {
  options_.start = At(40000, 20000);
  options_.max_env_step = 50000;
  Progress progress(options_);
  clock_.Advance(absl::Seconds(10));
  progress.Update(At(41000, 20500));
  EXPECT_EQ(output_,
            "env_step 41000/50000 (82%)  train_iter 20500  100 env_step/s  elapsed 0:10  "
            "left 1:30\n");
}

// A run that was resumed is told its counters after it was begun, when no time has passed.
TEST_F(ProgressTest, ShowsNoRateBeforeATenthOfASecond) {
  ProgressOptions options = OnTerminal(&screen_, 120, &clock_);
  options.max_env_step = 90000;
  Progress progress(options);
  clock_.Advance(absl::Nanoseconds(55));
  progress.Update(At(20016, 100));
  EXPECT_THAT(screen_.Lines(),
              ElementsAre("env_step 20016/90000 (22%)  train_iter 100  elapsed 0:00"));
}

TEST_F(ProgressTest, TheFirstBudgetToEndDecidesTheTimeLeft) {
  options_.max_env_step = 1'000'000'000;
  options_.max_train_iter = 200;
  Progress progress(options_);
  clock_.Advance(absl::Seconds(10));
  progress.Update(At(1000, 100));
  EXPECT_THAT(output_, HasSubstr("train_iter 100/200 (50%)"));
  EXPECT_THAT(output_, EndsWith("left 0:10\n"));
}

TEST_F(ProgressTest, SoDoesALimitOfTime) {
  options_.max_env_step = 1'000'000'000;
  options_.max_seconds = 60;
  Progress progress(options_);
  clock_.Advance(absl::Seconds(10));
  progress.Update(At(1000, 100));
  EXPECT_THAT(output_, EndsWith("left 0:50\n"));
}

// A learner that went back to a checkpoint.
TEST_F(ProgressTest, TheRateCountsFromWhereTheCountersWentBackTo) {
  options_.max_train_iter = 1000;
  Progress progress(options_);
  clock_.Advance(absl::Seconds(5));
  progress.Update(At(5000, 500));
  clock_.Advance(absl::Milliseconds(10));
  progress.Update(At(5000, 400));
  clock_.Advance(absl::Seconds(2));
  output_.clear();
  progress.Update(At(5200, 420));
  EXPECT_EQ(output_,
            "env_step 5200  train_iter 420/1000 (42%)  100 env_step/s  elapsed 0:07  left 0:58\n");
}

TEST_F(ProgressToFileTest, WritesJsonOnceASecond) {
  options_.style = ProgressStyle::kJson;
  options_.max_env_step = 100;
  options_.values = [] {
    return ProgressValues{{"loss", std::numeric_limits<double>::quiet_NaN()}, {"eps", 0.5}};
  };
  Progress progress(options_);
  for (int i = 0; i < 8; ++i) {
    clock_.Advance(absl::Milliseconds(500));
    ProgressState state = At(10 * (i + 1), i);
    if (i == 7) state.last_eval = state.best_eval = 9.5;
    state.detail = "the learner waits for \"data\"\xff";
    progress.Update(state);
  }
  const std::vector<std::string> lines = absl::StrSplit(output_, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines.back(),
            R"({"env_step":80,"max_env_step":100,"train_iter":7,"max_train_iter":null,)"
            R"("env_steps_per_second":20.0,"train_iters_per_second":1.75,"eval":9.5,)"
            R"("best_eval":9.5,"elapsed_seconds":4.0,"left_seconds":1.0,)"
            R"("values":{"loss":null,"eps":0.5},"detail":"the learner waits for \"data\"�"})");
}

TEST_F(ProgressToFileTest, OffWritesNothing) {
  options_.style = ProgressStyle::kOff;
  Progress progress(options_);
  clock_.Advance(absl::Seconds(100));
  progress.Update(At(1, 1));
  progress.Finish();
  EXPECT_EQ(output_, "");
}

TEST_F(ProgressTest, ShowsNoTimeLeftWithoutProgress) {
  options_.max_env_step = 100;
  Progress progress(options_);
  clock_.Advance(absl::Hours(1));
  progress.Update(At(0, 0));
  EXPECT_EQ(output_, "env_step 0/100 (0%)  train_iter 0  0.0 env_step/s  elapsed 1:00:00\n");
}

TEST_F(ProgressTest, SeveralThreadsMayUpdate) {
  ProgressOptions options = ToFile(&output_, Clock::Real());
  {
    Progress progress(options);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&progress] {
        for (int i = 0; i < 1000; ++i) progress.Update(At(i, i));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_THAT(output_, HasSubstr("env_step 999"));
}

TEST(ProgressToTest, AFileIsNotATerminal) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ProgressOptions options = ProgressTo(file);
  EXPECT_EQ(options.style, ProgressStyle::kPlain);
  EXPECT_FALSE(options.colors);
  EXPECT_GT(options.width(), 0);
  Progress(options).Finish();
  std::rewind(file);
  char line[100] = {};
  ASSERT_NE(std::fgets(line, sizeof(line), file), nullptr);
  EXPECT_THAT(line, testing::StartsWith("env_step 0"));
  std::fclose(file);
}

TEST(FormatVarTest, HasSixDecimals) {
  EXPECT_EQ(FormatVar(0.001), "0.001000");
  EXPECT_EQ(FormatVar(-12345), "-12345.000000");
  EXPECT_EQ(FormatVar(std::numeric_limits<double>::quiet_NaN()), "nan");
}

// The expected text was printed by Python's tabulate with tablefmt "grid".
TEST(FormatVarGridTest, PutsFourVarsIntoAGrid) {
  EXPECT_EQ(FormatVarGrid({{"cur_lr_avg", FormatVar(0.001)},
                           {"loss", FormatVar(12.5)},
                           {"q", "missing"},
                           {"c", FormatVar(1)},
                           {"fifth", FormatVar(-1)}}),
            "+-------+------------+-----------+---------+----------+\n"
            "| Name  | cur_lr_avg | loss      | q       | c        |\n"
            "+-------+------------+-----------+---------+----------+\n"
            "| Value | 0.001000   | 12.500000 | missing | 1.000000 |\n"
            "+-------+------------+-----------+---------+----------+\n"
            "+-------+-----------+\n"
            "| Name  | fifth     |\n"
            "+-------+-----------+\n"
            "| Value | -1.000000 |\n"
            "+-------+-----------+\n");
}

TEST(FormatVarGridTest, IsEmptyWithoutVars) { EXPECT_EQ(FormatVarGrid({}), ""); }

TEST(FormatTableTest, AlignsNumbersToTheRight) {
  EXPECT_EQ(FormatTable({"episode", "return", "end"},
                        {{"1", "195.5", "truncated"}, {"10", "-3", "terminated"}}),
            "episode  return  end\n"
            "      1   195.5  truncated\n"
            "     10      -3  terminated\n");
}

TEST(FormatTableTest, ShowsAHeaderAlone) { EXPECT_EQ(FormatTable({"a", "b"}, {}), "a  b\n"); }

}  // namespace
}  // namespace ding
