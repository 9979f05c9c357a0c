// Tests that the shipped configs learn what worker/learning_bars.txt demands in its rows with
// "test". tools/learning_bars runs all rows.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/env/board_games/exhaustive_play.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/learning_bars/board_game_bars.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

struct Bar {
  std::string name;
  std::string config;
  int seeds = 0;
  double share = 1;  // of the seeds must reach the bar; for the median of an even number, one more
  double bar = 0;
  double lowest = -1e300;  // no seed may be below
  std::string env_steps;
};

// Names the parameter of a test in messages.
void PrintTo(const Bar& bar, std::ostream* out) { *out << bar.name; }

// Parses the fields of a row up to "in". Returns none for a comment, or for a row that is not for
// this test.
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
  if (absl::ConsumePrefix(&rule, "median")) {
    bar.share = (bar.seeds / 2 + 1.0) / bar.seeds;
    if (absl::ConsumePrefix(&rule, ">=")) {
      EXPECT_TRUE(absl::SimpleAtod(rule, &bar.lowest)) << line;
    } else {
      EXPECT_EQ(rule, "") << line;
    }
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

// A folder for runs, which is removed with this object.
class Folder {
 public:
  Folder() {
    std::string folder = absl::StrCat(testing::TempDir(), "/learning_XXXXXX");
    path_ = mkdtemp(folder.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { EXPECT_THAT(RemoveRecursively(path_), IsOk()); }

  std::string Path(absl::string_view name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

// Trains a run in the folder `exp_dir`.
SerialResult Train(const std::string& config_name, std::vector<std::string> settings, int seed,
                   const std::string& exp_dir) {
  settings.push_back(absl::StrCat("seed=", seed));
  SerialOptions options;
  options.exp_dir = exp_dir;
  const absl::StatusOr<ExperimentConfig> config =
      LoadExperimentConfig(absl::StrCat("worker/configs/", config_name, ".textproto"), settings);
  EXPECT_THAT(config, IsOk());
  const absl::StatusOr<std::unique_ptr<Pipeline>> pipeline = CreatePipeline(*config, options);
  EXPECT_THAT(pipeline, IsOk());
  SerialResult result;
  EXPECT_THAT((*pipeline)->Run(&result), IsOk());
  return result;
}

class LearningTest : public testing::TestWithParam<Bar> {};

// A policy that learns nothing stays far below each bar (CartPole near 20, Pendulum near -1,200). A
// wrong sign in a loss, a return without its bootstrap, and ratios of the wrong rows all miss the
// bars.
TEST_P(LearningTest, ReachesItsBar) {
  const Bar& bar = GetParam();
  std::vector<std::string> settings;
  if (bar.env_steps != "-") settings.push_back(absl::StrCat("max_env_step=", bar.env_steps));
  std::vector<double> results;
  for (int seed = 0; seed < bar.seeds; ++seed) {
    const Folder folder;
    const SerialResult result = Train(bar.config, settings, seed, folder.Path(""));
    results.push_back(result.eval_value.value_or(-1e300));
  }
  const auto reached = std::count_if(results.begin(), results.end(),
                                     [&bar](double result) { return result >= bar.bar; });
  EXPECT_GE(static_cast<double>(reached), bar.share * bar.seeds - 1e-9)
      << "the seeds' results: " << testing::PrintToString(results);
  EXPECT_GE(*std::min_element(results.begin(), results.end()), bar.lowest);
}

INSTANTIATE_TEST_SUITE_P(Quick, LearningTest, testing::ValuesIn(QuickBars()),
                         [](const auto& info) { return info.param.name; });

// 50 episodes of a trained agent are enough for every seed. Without learning the return stays below
// 30; the same happens if rows and labels do not belong together.
TEST(LearningTest, CartPoleByBehaviourCloning) {
  const Folder folder;
  const SerialResult expert = Train("cartpole_ppo", {}, /*seed=*/0, folder.Path("expert"));
  ASSERT_TRUE(expert.stop);
  EvaluationOptions record;
  record.checkpoint = folder.Path("expert/ckpt/ckpt_best");
  record.n_episode = 50;
  record.record_episodes = folder.Path("episodes");
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult recorded, EvaluateCheckpoint(record));
  for (int seed = 0; seed < 5; ++seed) {
    const std::string run = folder.Path(absl::StrCat("bc_", seed));
    const SerialResult result =
        Train("cartpole_bc", {absl::StrCat("data_set.path=", record.record_episodes)}, seed, run);
    EXPECT_TRUE(result.stop) << "seed " << seed;
    EXPECT_GE(*result.eval_value, 475) << "seed " << seed;
    EXPECT_EQ(result.eval_value_raw.size(), 10u);
    EXPECT_GE(result.metric.GetOr("accuracy", 0), 0.8) << "seed " << seed;
    // Plays episodes other than those by which the checkpoint was selected.
    EvaluationOptions again;
    again.checkpoint = JoinPath(run, "ckpt/ckpt_best_return");
    again.n_episode = 20;
    again.seed = 99;
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult played, EvaluateCheckpoint(again));
    EXPECT_GE(played.mean_return, 450) << "seed " << seed;
    std::printf("seed %d: %lld iterations, return %g, accuracy %g; of 20 other episodes %g\n", seed,
                static_cast<long long>(result.train_iter), *result.eval_value,
                result.metric.GetOr("accuracy", 0), played.mean_return);
  }
  std::printf("expert: return %g\n", recorded.mean_return);
}

// Self-play: every seed ends with a policy that no reply can beat, whether it plays first or
// second. A policy that learns nothing loses most games. If the losers do not learn from the
// winner's move, it loses dozens of games as the second player.
TEST(LearningTest, TicTacToeBySelfPlay) {
  for (int seed = 0; seed < 5; ++seed) {
    const Folder folder;
    const SerialResult result = Train("tictactoe_ppo", {}, seed, folder.Path(""));
    const std::string last = folder.Path(absl::StrCat("ckpt/iteration_", result.train_iter));
    for (const int side : {0, 1}) {
      DING_ASSERT_OK_AND_ASSIGN(const AllReplies games, PlayTicTacToe(last, side));
      EXPECT_EQ(games.lost, 0) << "seed " << seed << ", side " << side << ": " << games.first_loss;
      EXPECT_GT(games.won, 50) << "seed " << seed << ", side " << side;
    }
  }
}

}  // namespace
}  // namespace ding
