// The shipped configs learn what worker/learning_bars.txt asks of them: its rows with "test".
// tools/learning_bars runs all rows.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/serial_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

struct Bar {
  std::string name;
  std::string config;
  int seeds = 0;
  double share = 1;  // of the seeds that must reach it; of an even number the median wants one more
  double bar = 0;
  std::string env_steps;
};

// How a test of it is called in messages.
void PrintTo(const Bar& bar, std::ostream* out) { *out << bar.name; }

// The fields of a row up to "in"; none for a row that is not ours, and for comments.
std::vector<Bar> ParseRow(const std::string& line) {
  const std::vector<std::string> fields =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (fields.empty() || absl::StartsWith(fields[0], "#")) return {};
  EXPECT_GE(fields.size(), 7u) << line;
  if (fields.size() < 7 || fields[6] != "test") return {};
  EXPECT_EQ(fields.size(), 7u) << "a row with a check is for tools/learning_bars: " << line;
  Bar bar;
  bar.name = fields[0];
  bar.config = fields[1];
  bar.env_steps = fields[5];
  EXPECT_TRUE(absl::SimpleAtoi(fields[2], &bar.seeds)) << line;
  EXPECT_TRUE(absl::SimpleAtod(fields[4], &bar.bar)) << line;
  absl::string_view rule = fields[3];
  if (rule == "median") {
    bar.share = (bar.seeds / 2 + 1.0) / bar.seeds;
  } else if (rule != "every") {
    EXPECT_TRUE(absl::ConsumePrefix(&rule, "share=") && absl::SimpleAtod(rule, &bar.share)) << line;
  }
  return {bar};
}

std::vector<Bar> QuickBars() {
  const absl::StatusOr<std::string> text = ReadFile("worker/learning_bars.txt");
  EXPECT_THAT(text, IsOk());
  std::vector<Bar> bars;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(*text, '\n'))) {
    for (const Bar& bar : ParseRow(line)) bars.push_back(bar);
  }
  return bars;
}

SerialResult Train(const Bar& bar, int seed) {
  std::string folder = absl::StrCat(testing::TempDir(), "/learning_XXXXXX");
  SerialOptions options;
  options.exp_dir = mkdtemp(folder.data());
  std::vector<std::string> settings = {absl::StrCat("seed=", seed)};
  if (bar.env_steps != "-") settings.push_back(absl::StrCat("max_env_step=", bar.env_steps));
  const absl::StatusOr<ExperimentConfig> config =
      LoadExperimentConfig(absl::StrCat("worker/configs/", bar.config, ".textproto"), settings);
  EXPECT_THAT(config, IsOk());
  const absl::StatusOr<std::unique_ptr<SerialPipeline>> pipeline =
      SerialPipeline::Create(*config, options);
  EXPECT_THAT(pipeline, IsOk());
  SerialResult result;
  EXPECT_THAT((*pipeline)->Run(&result), IsOk());
  EXPECT_THAT(RemoveRecursively(options.exp_dir), IsOk());
  return result;
}

class LearningTest : public testing::TestWithParam<Bar> {};

// A policy that learns nothing stays far below each bar (CartPole near 20, Pendulum near -1,200): a
// wrong sign in a loss, a return without its bootstrap or ratios of other rows all miss them.
TEST_P(LearningTest, ReachesItsBar) {
  const Bar& bar = GetParam();
  std::vector<double> results;
  for (int seed = 0; seed < bar.seeds; ++seed) {
    results.push_back(Train(bar, seed).eval_value.value_or(-1e300));
  }
  const auto reached = std::count_if(results.begin(), results.end(),
                                     [&bar](double result) { return result >= bar.bar; });
  EXPECT_GE(static_cast<double>(reached), bar.share * bar.seeds - 1e-9)
      << "the seeds' results: " << testing::PrintToString(results);
}

INSTANTIATE_TEST_SUITE_P(Quick, LearningTest, testing::ValuesIn(QuickBars()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ding
