// The shipped configs learn what they are said to learn.

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/env/board_games/exhaustive_play.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/learning_bars/board_game_bars.h"
#include "ding_worker/worker/serial_pipeline.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kSeeds = 5;

// Calls `judge` with the checkpoint at the end, before it is removed.
SerialResult Train(
    const std::string& config_name, int seed,
    const std::function<void(const std::string& checkpoint)>& judge = [](const std::string&) {}) {
  std::string folder = absl::StrCat(testing::TempDir(), "/learning_XXXXXX");
  SerialOptions options;
  options.exp_dir = mkdtemp(folder.data());
  const absl::StatusOr<ExperimentConfig> config = LoadExperimentConfig(
      absl::StrCat("worker/configs/", config_name), {absl::StrCat("seed=", seed)});
  EXPECT_THAT(config, IsOk());
  const absl::StatusOr<std::unique_ptr<SerialPipeline>> pipeline =
      SerialPipeline::Create(*config, options);
  EXPECT_THAT(pipeline, IsOk());
  SerialResult result;
  EXPECT_THAT((*pipeline)->Run(&result), IsOk());
  judge(JoinPath(options.exp_dir, absl::StrCat("ckpt/iteration_", result.train_iter)));
  EXPECT_THAT(RemoveRecursively(options.exp_dir), IsOk());
  return result;
}

// Every seed stops at 195. DI-engine's example needs about 1,000 env steps, a policy that learns
// nothing never stops.
TEST(LearningTest, CartPoleV0) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    const SerialResult result = Train("cartpole_dqn.textproto", seed);
    EXPECT_TRUE(result.stop) << "seed " << seed;
    EXPECT_GE(*result.eval_value, 195) << "seed " << seed;
    EXPECT_LE(result.env_step, 20000) << "seed " << seed;
  }
}

TEST(LearningTest, CartPoleV1) {
  int reached = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const SerialResult result = Train("cartpole_v1_dqn.textproto", seed);
    if (result.stop && *result.eval_value >= 475 && result.env_step <= 50000) ++reached;
  }
  EXPECT_GE(reached, 4);
}

// Every seed stops at 475; without learning the return stays near 20. A wrong sign in the loss, a
// return without its bootstrap or ratios of other rows all miss it.
TEST(LearningTest, CartPoleByPpo) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    const SerialResult result = Train("cartpole_ppo.textproto", seed);
    EXPECT_TRUE(result.stop) << "seed " << seed;
    EXPECT_GE(*result.eval_value, 475) << "seed " << seed;
    EXPECT_LE(result.env_step, 100000) << "seed " << seed;
  }
}

TEST(LearningTest, CartPoleByA2c) {
  int reached = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const SerialResult result = Train("cartpole_a2c.textproto", seed);
    if (result.stop && *result.eval_value >= 475 && result.env_step <= 500000) ++reached;
  }
  EXPECT_GE(reached, (kSeeds + 1) / 2);
}

// Continuous actions; a policy that learns nothing has about -1,200.
TEST(LearningTest, PendulumByPpo) {
  int reached = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const SerialResult result = Train("pendulum_ppo.textproto", seed);
    if (*result.eval_value >= -300) ++reached;
  }
  EXPECT_GE(reached, (kSeeds + 1) / 2);
}

// Self-play: every seed ends with a policy that no reply can beat, first or second. One that learns
// nothing loses most games; one whose losers do not learn of the winner's move loses dozens as the
// second player.
TEST(LearningTest, TicTacToeBySelfPlay) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    Train("tictactoe_ppo.textproto", seed, [seed](const std::string& checkpoint) {
      for (const int side : {0, 1}) {
        DING_ASSERT_OK_AND_ASSIGN(const AllReplies games, PlayTicTacToe(checkpoint, side));
        EXPECT_EQ(games.lost, 0) << "seed " << seed << ", side " << side << ": "
                                 << games.first_loss;
        EXPECT_GT(games.won, 50) << "seed " << seed << ", side " << side;
      }
    });
  }
}

}  // namespace
}  // namespace ding
