#include "ding_worker/worker/tasks/parallel_collect.h"

#include <string>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/on_policy_rounds.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kEpisodes[] =
    "policy.collect={n_episode:9 collector{type:\"episode\" collector_num:2 params{"
    "[type.googleapis.com/ding.EpisodeCollectorParams]{get_train_sample:true "
    "reward_shaping:\"mine\"}}}}";

ExperimentConfig Config(const std::vector<std::string>& settings,
                        const std::string& path = "worker/configs/cartpole_ppo.textproto") {
  return LoadExperimentConfig(path, settings).value();
}

std::vector<std::string> Problems(const std::vector<std::string>& settings) {
  std::vector<std::string> problems;
  AppendCollectProblems(Config(settings), &problems);
  return problems;
}

TEST(ParallelCollectTest, ASerialConfigKeepsItsBatch) {
  const ExperimentConfig serial = Config({});
  ASSERT_EQ(MakePolicyConfig(serial).n_sample(), 256);
  const ExperimentConfig parallel =
      Config({"policy.collect.collector.collector_num=3", "policy.eval.evaluator.eval_freq=1000"});
  EXPECT_THAT(FindParallelProblems(parallel), IsEmpty());
  EXPECT_EQ(RoundsOf(parallel).rows, 256) << "of all collectors";
  EXPECT_EQ(RoundsOf(parallel).hand_over_rows, 86);
  EXPECT_EQ(MakeCollectorPolicyConfig(parallel).n_sample(), 86) << "of all envs of a collector";
}

TEST(ParallelCollectTest, EachCollectorHandsOverItsShareOfEpisodes) {
  const ExperimentConfig config = Config({kEpisodes, "policy.collect.collector.max_abnormal=7"});
  EXPECT_EQ(MakeCollectorPolicyConfig(config).n_episode(), 5);
  EXPECT_EQ(RoundsOf(config).rows, 9);
  const ParallelCollectorConfig collector = MakeCollectorConfig(config);
  EXPECT_EQ(collector.max_abnormal(), 7);
  EXPECT_EQ(collector.reward_shaping(), "mine");
}

TEST(ParallelCollectTest, AConfigOfAnEarlierVersionIsRefusedWithTheLineToWrite) {
  EXPECT_THAT(
      Problems({"policy.collect.n_sample=16", "policy.collect.collector_num=2"}),
      ElementsAre(AllOf(HasSubstr("policy.collect.collector_num is 2"),
                        HasSubstr("collect { n_sample: 256 collector { collector_num: 2 } }"))));
  EXPECT_THAT(
      Problems({"policy.collect.n_sample=16"}),
      ElementsAre(AllOf(HasSubstr("policy.collect.collector.collector_num is not set"),
                        HasSubstr("collect { n_sample: 256 collector { collector_num: 2 } }"))));
  EXPECT_THAT(FindParallelProblems(Config({"policy.collect.parallel_collector.max_abnormal=3",
                                           "policy.collect.collector.collector_num=2"})),
              Contains(HasSubstr("write policy.collect.collector { max_abnormal: 3 }")));
  EXPECT_THAT(FindParallelProblems(Config({"policy.collect.parallel_collector.reward_shaping=mine",
                                           "policy.collect.collector.collector_num=2"})),
              Contains(HasSubstr("reward_shaping: \"mine\" }")));
}

TEST(ParallelCollectTest, AmountAndTypeMustFit) {
  EXPECT_THAT(Problems({"policy.collect={n_episode:9 collector{collector_num:2}}"}),
              ElementsAre(HasSubstr("collector 'sample' collects rows")));
  EXPECT_THAT(Problems({kEpisodes, "policy.collect.n_episode=1"}),
              ElementsAre(HasSubstr("one for each of policy.collect.collector.collector_num")));
  EXPECT_THAT(Problems({kEpisodes, "policy.collect.collector.params.get_train_sample=false"}),
              ElementsAre(HasSubstr("expected params { [type.googleapis.com/"
                                    "ding.EpisodeCollectorParams] { get_train_sample: true } }")));
}

}  // namespace
}  // namespace ding
