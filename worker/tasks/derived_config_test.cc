#include "ding_worker/worker/tasks/derived_config.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr char kSerial[] = R"(
env { type: "CartPole-v0" }
policy {
  type: "dqn"
  learn { update_per_collect: 5 batch_size: 64 }
  collect { n_sample: 8 }
  eval { evaluator { eval_freq: 40 } }
})";

ExperimentConfig Config(const std::vector<std::string>& settings, const std::string& text) {
  return ParseExperimentConfig(text, "config", settings).value();
}

ExperimentConfig Derive(const std::vector<std::string>& settings = {}, bool on_policy = false) {
  ExperimentConfig config = Config(settings, kSerial);
  DeriveParallelConfig(on_policy, &config);
  return config;
}

TEST(DeriveParallelConfigTest, DrawsAsOftenAsTheSerialRun) {
  const ExperimentConfig config = Derive();
  EXPECT_EQ(config.policy().collect().collector().collector_num(), 2);
  const ReplayRatioConfig& ratio = config.policy().other().replay_buffer().replay_ratio();
  EXPECT_EQ(ratio.min(), 5 * 64 / 8);
  EXPECT_EQ(ratio.max(), 5 * 64 / 8);
  EXPECT_EQ(config.policy().learn().update_per_collect(), 1);
  EXPECT_EQ(config.policy().eval().evaluator().eval_freq(), 1000) << "the default";
  EXPECT_EQ(config.env().collector_episode_num(), 1);
  EXPECT_THAT(
      config.system().derived(),
      AllOf(Contains(StartsWith("policy.collect.collector.collector_num: 2  # ")),
            Contains(StartsWith("policy.other.replay_buffer.replay_ratio: { min: 40 max: 40 }  #")),
            Contains(StartsWith("policy.learn.update_per_collect: not 5  # left out: ")),
            Contains(StartsWith("policy.eval.evaluator.eval_freq: not 40  # left out: "))));
}

TEST(DeriveParallelConfigTest, TheRowsOfAllPlayersCount) {
  ExperimentConfig config = Config({}, kSerial);
  DeriveParallelConfig(/*on_policy=*/false, &config, /*players=*/2);
  EXPECT_EQ(config.policy().other().replay_buffer().replay_ratio().min(), 5 * 64 / 8 / 2);
}

TEST(DeriveParallelConfigTest, ChangesNothingTheSecondTime) {
  const ExperimentConfig once = Derive();
  ExperimentConfig twice = once;
  DeriveParallelConfig(/*on_policy=*/false, &twice);
  EXPECT_EQ(once.SerializeAsString(), twice.SerializeAsString());
}

TEST(DeriveParallelConfigTest, AConfigForSeveralProcessesStays) {
  const std::vector<std::string> settings = {"policy.collect.collector.collector_num=3",
                                             "policy.learn.update_per_collect=1",
                                             "policy.eval.evaluator.eval_freq=1000"};
  const ExperimentConfig config = Derive(settings);
  EXPECT_EQ(config.SerializeAsString(), Config(settings, kSerial).SerializeAsString());
  EXPECT_THAT(config.system().derived(), IsEmpty());
}

TEST(DeriveParallelConfigTest, KeepsWhatTheConfigSaysOfSeveralProcesses) {
  const ExperimentConfig config =
      Derive({"policy.collect.collector.collector_num=3",
              "policy.other.replay_buffer.replay_ratio={max: 9}",
              "policy.other.commander.eval_interval=2", "env.collector_episode_num=4"});
  EXPECT_EQ(config.policy().collect().collector().collector_num(), 3);
  EXPECT_EQ(config.policy().other().replay_buffer().replay_ratio().min(), 0);
  EXPECT_EQ(config.policy().other().replay_buffer().replay_ratio().max(), 9);
  EXPECT_EQ(config.policy().other().commander().eval_interval(), 2);
  EXPECT_EQ(config.env().collector_episode_num(), 4);
  EXPECT_EQ(config.policy().learn().update_per_collect(), 1);
}

TEST(DeriveParallelConfigTest, AnOnPolicyPolicyHasNoReplayRatio) {
  const ExperimentConfig config = Derive({"policy.learn.update_per_collect=1"}, true);
  EXPECT_EQ(config.policy().other().replay_buffer().replay_ratio().min(), 0);
  EXPECT_EQ(config.policy().collect().collector().collector_num(), 2);
}

TEST(DeriveParallelConfigTest, EpisodesAreTrainingDataAndFitATask) {
  const ExperimentConfig config =
      Derive({"policy.collect={n_episode: 40 collector { type: \"episode\" }}",
              "policy.other.replay_buffer.type=episode"});
  EpisodeCollectorParams params;
  ASSERT_TRUE(config.policy().collect().collector().params().UnpackTo(&params));
  EXPECT_TRUE(params.get_train_sample());
  EXPECT_EQ(config.env().collector_episode_num(), 3) << "20 of a collector, in 8 envs";
  EXPECT_EQ(config.policy().other().replay_buffer().replay_ratio().min(), 5 * 64 / 40);
}

TEST(DeriveParallelConfigTest, SequencesLieWithinAHandOver) {
  const ExperimentConfig config =
      Derive({"policy.collect={n_sample: 8 unroll_len: 20}",
              "policy.other.replay_buffer={type: \"sequence\" replay_buffer_size: 300 params { "
              "[type.googleapis.com/ding.SequenceBufferConfig] { unroll_len: 20 overlap: 10 "
              "cross_episodes: true } } }"});
  SequenceBufferConfig params;
  ASSERT_TRUE(config.policy().other().replay_buffer().params().UnpackTo(&params));
  EXPECT_FALSE(params.cross_episodes());
  EXPECT_TRUE(params.padding());
  EXPECT_EQ(config.policy().collect().n_sample(), 16) << "of each of the 8 envs of 2 collectors";
  EXPECT_EQ(config.policy().other().replay_buffer().replay_buffer_size(), 4 * 16 * 20);
  // 320 sequences for 8 samples, each of which becomes two sequences.
  EXPECT_EQ(config.policy().other().replay_buffer().replay_ratio().min(), 5 * 64 / 16);
}

TEST(PrepareParallelConfigTest, AsksThePolicyWhetherItIsOnPolicy) {
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig config,
      PrepareParallelConfig(
          Config({"policy.type=ppo", "policy.learn.update_per_collect=1"}, kSerial), "config",
          Clock::Real()));
  EXPECT_EQ(config.policy().other().replay_buffer().replay_ratio().min(), 0);
  EXPECT_THAT(config.system().derived(), Contains(HasSubstr("collector_num: 2")));
}

TEST(PrepareParallelConfigTest, AsksTheEnvHowManyPlayersItHas) {
  std::vector<std::string> settings = {"env.type=TicTacToe",
                                       "policy.collect.collector.type=sample_1v1"};
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig self_play,
      PrepareParallelConfig(Config(settings, kSerial), "config", Clock::Real()));
  EXPECT_EQ(self_play.policy().other().replay_buffer().replay_ratio().min(), 5 * 64 / 8 / 2);
  settings.emplace_back("opponent.type=random");
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig of_one,
      PrepareParallelConfig(Config(settings, kSerial), "config", Clock::Real()));
  EXPECT_EQ(of_one.policy().other().replay_buffer().replay_ratio().min(), 5 * 64 / 8);
}

// It asks no env, which a data set does not need.
TEST(PrepareParallelConfigTest, ADataSetNeedsOneCollector) {
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig config,
      PrepareParallelConfig(Config({}, "data_set { path: \"a.episodes\" } policy { type: \"bc\" }"),
                            "config", Clock::Real()));
  EXPECT_EQ(config.policy().collect().collector().collector_num(), 1);
  EXPECT_EQ(config.policy().other().replay_buffer().replay_ratio().min(), 0);
}

// As tools/new_env writes it for continuous actions.
TEST(PrepareParallelConfigTest, ScaledRewardsRunInParallel) {
  const auto prepared = PrepareParallelConfig(Config({}, R"(
        max_env_step: 200000
        env { type: "Pendulum-v1" collector_env_num: 8 n_evaluator_episode: 50 stop_value: -1.7 }
        policy {
          type: "ppo"
          discount_factor: 0.95
          params {
            [type.googleapis.com/ding.PpoConfig] {
              actor_critic { gae_lambda: 0.95 scale_reward: true }
              epoch_per_collect: 10
            }
          }
          collect { n_sample: 1024 }
          eval { evaluator { eval_freq: 320 } }
        })"),
                                              "config", Clock::Real());
  EXPECT_THAT(prepared.status(), IsOk());
}

TEST(PrepareParallelConfigTest, RefusesEverythingInOneMessage) {
  const auto prepared =
      PrepareParallelConfig(Config({"policy.type=ppo", "policy.learn.update_per_collect=3",
                                    "policy.random_collect_size=7", "system.store_url=mem:"},
                                   kSerial),
                            "my.textproto", Clock::Real());
  EXPECT_THAT(
      prepared.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(StartsWith("my.textproto cannot run in parallel:\n  "),
                     HasSubstr("system.store_url is 'mem:'"),
                     HasSubstr("policy.learn.update_per_collect is 3, which has no effect in a "
                               "parallel run whose policy is on-policy: leave it out; "),
                     HasSubstr("policy.random_collect_size is 7, which has no effect"))));
}

TEST(PrepareParallelConfigTest, RedisWithTlsDecidesAboutItsDisk) {
  for (const char* const scheme : {"redis", "rediss"}) {
    const auto prepared =
        PrepareParallelConfig(Config({absl::StrCat("system.store_url=", scheme, ":host:1/x"),
                                      "system.coordinator.journal=JOURNAL_IN_STORE",
                                      "system.coordinator.journal_sync=EVERY"},
                                     kSerial),
                              "my.textproto", Clock::Real());
    EXPECT_THAT(prepared.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("whose `appendfsync` decides that")));
  }
}

TEST(PrepareParallelConfigTest, TheEnvsOwnErrorIsNotOneOfParallelRuns) {
  const auto prepare = [](std::vector<std::string> settings) {
    settings.emplace_back(
        "env={type: \"TicTacToe-vs-random\" params { "
        "[type.googleapis.com/ding.BoardGameConfig] { search_depth: 3 } } }");
    return PrepareParallelConfig(Config(settings, kSerial), "my.textproto", Clock::Real()).status();
  };
  EXPECT_THAT(prepare({}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("search_depth"), Not(HasSubstr("in parallel")))));
  EXPECT_THAT(prepare({"system.store_url=mem:"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(StartsWith("my.textproto cannot run in parallel:\n  "),
                             HasSubstr("system.store_url is 'mem:'"), HasSubstr("search_depth"))));
}

}  // namespace
}  // namespace ding
