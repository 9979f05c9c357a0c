// The shipped configs learn what they are said to learn.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/worker/create_pipeline.h"
#include "ding_worker/worker/evaluation.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/pipeline.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kSeeds = 5;

// A folder for runs, which goes with it.
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

// The run is below `exp_dir`.
SerialResult Train(const std::string& config_name, std::vector<std::string> settings, int seed,
                   const std::string& exp_dir) {
  settings.push_back(absl::StrCat("seed=", seed));
  SerialOptions options;
  options.exp_dir = exp_dir;
  const absl::StatusOr<ExperimentConfig> config =
      LoadExperimentConfig(absl::StrCat("worker/configs/", config_name), settings);
  EXPECT_THAT(config, IsOk());
  const absl::StatusOr<std::unique_ptr<Pipeline>> pipeline = CreatePipeline(*config, options);
  EXPECT_THAT(pipeline, IsOk());
  SerialResult result;
  EXPECT_THAT((*pipeline)->Run(&result), IsOk());
  return result;
}

SerialResult Train(const std::string& config_name, int seed) {
  const Folder folder;
  return Train(config_name, {}, seed, folder.Path(""));
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

// 50 episodes of a trained agent are enough for every seed. Without learning the return stays below
// 30, and so it does if rows and labels are not those of each other.
TEST(LearningTest, CartPoleByBehaviourCloning) {
  const Folder folder;
  const SerialResult expert =
      Train("cartpole_ppo.textproto", {}, /*seed=*/0, folder.Path("expert"));
  ASSERT_TRUE(expert.stop);
  EvaluationOptions record;
  record.checkpoint = folder.Path("expert/ckpt/ckpt_best");
  record.n_episode = 50;
  record.record_episodes = folder.Path("episodes");
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult recorded, EvaluateCheckpoint(record));
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::string run = folder.Path(absl::StrCat("bc_", seed));
    const SerialResult result =
        Train("cartpole_bc.textproto", {absl::StrCat("data_set.path=", record.record_episodes)},
              seed, run);
    EXPECT_TRUE(result.stop) << "seed " << seed;
    EXPECT_GE(*result.eval_value, 475) << "seed " << seed;
    EXPECT_EQ(result.eval_value_raw.size(), 10u);
    EXPECT_GE(result.metric.GetOr("accuracy", 0), 0.8) << "seed " << seed;
    // In episodes that did not choose it.
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

}  // namespace
}  // namespace ding
