// Trains each policy type with nothing set but the types of env and policy, a number of steps and a
// seed, on tasks on which no default was tuned (env/testing/held_out_envs.h). So a default that does
// not learn is found. The bar of a task is kBar of the way from random actions to a controller that
// is written by hand.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/env/testing/held_out_envs.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr double kBar = 0.7;
constexpr int kSeeds = 3;
constexpr int kEpisodes = 100;

struct Case {
  std::string policy, env;
  int64_t steps = 0;
};

void PrintTo(const Case& trained, std::ostream* out) {
  *out << trained.policy << " in " << trained.env;
}

// Trains by a config without any other setting, and returns the folder of the last checkpoint.
std::string Train(const Case& trained, int seed, const std::string& exp_dir) {
  const std::string text =
      absl::StrCat("env { type: \"", trained.env, "\" } policy { type: \"", trained.policy, "\" }");
  const auto config = ParseExperimentConfig(
      text, "test", {absl::StrCat("seed=", seed), absl::StrCat("max_env_step=", trained.steps)});
  EXPECT_THAT(config, IsOk());
  SerialOptions options;
  options.exp_dir = exp_dir;
  const auto pipeline = CreatePipeline(*config, options);
  EXPECT_THAT(pipeline, IsOk());
  SerialResult result;
  EXPECT_THAT((*pipeline)->Run(&result), IsOk());
  std::printf("%lld env steps, %lld iterations, %.1f s\n", static_cast<long long>(result.env_step),
              static_cast<long long>(result.train_iter), result.wall_seconds);
  return JoinPath(exp_dir, absl::StrCat("ckpt/iteration_", result.train_iter));
}

class HeldOutTest : public testing::TestWithParam<Case> {};

TEST_P(HeldOutTest, DefaultsLearn) {
  const Case& trained = GetParam();
  DING_ASSERT_OK_AND_ASSIGN(const HeldOutReturns known, MeasureHeldOutTask(trained.env, kEpisodes));
  const double bar = known.random + kBar * (known.controller - known.random);
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::string folder = absl::StrCat(testing::TempDir(), "/held_out_XXXXXX");
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    EvaluationOptions options;
    options.checkpoint = Train(trained, seed, folder);
    options.n_episode = kEpisodes;
    options.seed = 1000;
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult played, EvaluateCheckpoint(options));
    EXPECT_GE(played.mean_return, bar) << "seed " << seed;
    std::printf("%s in %s, seed %d: %.2f (random %.2f, bar %.2f, controller %.2f)\n",
                trained.policy.c_str(), trained.env.c_str(), seed, played.mean_return, known.random,
                bar, known.controller);
    std::fflush(stdout);
    EXPECT_THAT(RemoveRecursively(folder), IsOk());
  }
}

constexpr char kDrone[] = "HeldOutDrone";
constexpr char kReacher[] = "HeldOutReacher";
constexpr char kMaze[] = "HeldOutMaze";
constexpr char kSparse[] = "HeldOutSparse";
constexpr char kSparseGrid[] = "HeldOutSparseGrid";

INSTANTIATE_TEST_SUITE_P(
    Policies, HeldOutTest,
    testing::Values(
        Case{"ppo", kDrone, 150000}, Case{"ppo", kReacher, 150000}, Case{"ppo", kSparse, 60000},
        Case{"ppo", kMaze, 40000}, Case{"ppo", kSparseGrid, 60000}, Case{"a2c", kDrone, 200000},
        Case{"a2c", kMaze, 100000}, Case{"impala", kDrone, 200000}, Case{"impala", kMaze, 100000},
        Case{"dqn", kMaze, 10000}, Case{"dqn", kSparseGrid, 40000}, Case{"c51", kMaze, 10000},
        Case{"rainbow", kMaze, 10000}, Case{"qrdqn", kMaze, 10000}, Case{"iqn", kMaze, 10000},
        Case{"r2d2", kSparseGrid, 40000}, Case{"discrete_sac", kMaze, 10000},
        Case{"sac", kDrone, 8000}, Case{"sac", kReacher, 6000}, Case{"sac", kSparse, 6000},
        Case{"td3", kDrone, 8000}, Case{"td3", kReacher, 6000}, Case{"ddpg", kReacher, 6000}),
    [](const auto& info) { return absl::StrCat(info.param.policy, "_", info.param.env); });

}  // namespace
}  // namespace ding
