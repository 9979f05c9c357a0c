#include "ding_worker/worker/tasks/configured_collector.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

int64_t EpisodesOfATask(bool eval, const std::vector<std::string>& settings) {
  const ExperimentConfig config =
      LoadExperimentConfig("worker/configs/cartpole_dqn_parallel_fast.textproto", settings).value();
  CollectorTask task;
  task.set_eval_flag(eval);
  FakeLink link;
  const std::unique_ptr<TaskCollector> made =
      MakeTaskCollectorFactory(config, ComponentDeps())(task, &link).value();
  return made->collector()->GetFinishInfo().predefined_episode_count;
}

TEST(ConfiguredCollectorTest, EachEnvOfAnEvaluationPlaysAsManyEpisodesAsAreAskedFor) {
  const auto episodes = [](int envs, int all, int of_each) {
    return EpisodesOfATask(true, {absl::StrCat("env.evaluator_env_num=", envs),
                                  absl::StrCat("env.n_evaluator_episode=", all),
                                  absl::StrCat("env.evaluator_episode_num=", of_each)});
  };
  EXPECT_EQ(episodes(4, 4, 1), 4);
  EXPECT_EQ(episodes(4, 5, 1), 8);
  EXPECT_EQ(episodes(4, 100, 1), 100);
  EXPECT_EQ(episodes(4, 4, 3), 12);
  EXPECT_EQ(episodes(4, 20, 3), 20);
}

TEST(ConfiguredCollectorTest, EvaluationsHaveNoEffectOnWhatACollectingTaskPlays) {
  EXPECT_EQ(EpisodesOfATask(false, {"env.collector_env_num=3", "env.collector_episode_num=2",
                                    "env.n_evaluator_episode=50", "env.evaluator_episode_num=7"}),
            6);
}

}  // namespace
}  // namespace ding
