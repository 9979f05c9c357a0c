#include "ding_worker/worker/config/experiment_config.h"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/worker/config/text_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kMinimal[] = R"(env { type: "CartPole-v0" } policy { type: "dqn" })";

absl::StatusOr<ExperimentConfig> Parse(const std::string& text,
                                       const std::vector<std::string>& settings = {}) {
  return ParseExperimentConfig(text, "test", settings);
}

TEST(ExperimentConfigTest, FillsInDefaultsAndSharesAmongSections) {
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig config,
                            Parse(kMinimal, {"env.stop_value=7", "env.n_evaluator_episode=9",
                                             "policy.nstep=3", "policy.discount_factor=0.5"}));
  EXPECT_EQ(config.exp_name(), "default_experiment");
  EXPECT_TRUE(config.policy().learn().learner().hook().has_save_ckpt_after_iter());
  EXPECT_EQ(config.policy().other().replay_buffer().nstep(), 3);
  EXPECT_EQ(config.policy().other().replay_buffer().discount_factor(), 0.5);
  EXPECT_EQ(config.policy().eval().evaluator().stop_value(), 7);
  EXPECT_EQ(config.policy().eval().evaluator().n_episode(), 9);
  const PolicyConfig policy = MakePolicyConfig(config);
  EXPECT_EQ(policy.nstep(), 3);
  EXPECT_EQ(policy.n_sample(), 16);
}

TEST(ExperimentConfigTest, ResolvedConfigReadsBackAsTheSame) {
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig config, Parse(kMinimal, {"policy.nstep=3"}));
  const std::string text = PrintTextConfig(config);
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig again, Parse(text));
  EXPECT_EQ(PrintTextConfig(again), text);
}

TEST(ExperimentConfigTest, ReportsEveryProblemAtOnce) {
  EXPECT_THAT(
      Parse(R"(
exp_name: "a/b"
max_env_step: -1
env { type: "CartPole-v9" collector_env_num: 0 evaluator_env_num: 6 n_evaluator_episode: 5
      manager { type: "base" max_retry: 0 } }
policy {
  type: "dqm"
  discount_factor: 1.5
  nstep: 0
  learn { batch_size: 0 learner { hook { hook { type: "x" freq: 0 } } } }
  other { replay_buffer { type: "nave" replay_buffer_size: 0 nstep: 2 } }
}
typo: 3)",
            {"policy.learn.batch_sise=1"}),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          AllOf(HasSubstr("exp_name is 'a/b'"),
                HasSubstr("max_env_step is -1, expected at least 0"),
                HasSubstr("env.type: unknown env type 'CartPole-v9'; this program has: Acrobot-v1, "
                          "CartPole-v0"),
                HasSubstr("env.collector_env_num is 0, expected at least 1"),
                HasSubstr("env.n_evaluator_episode is 5, expected at least 6"),
                HasSubstr("env.manager.max_retry is 0"), HasSubstr("unknown policy type 'dqm'"),
                AllOf(HasSubstr("policy.discount_factor is 1.5, expected in [0, 1]"),
                      HasSubstr("policy.nstep is 0"), HasSubstr("policy.learn.batch_size is 0"),
                      HasSubstr("hook[0].type: unknown learner hook type 'x'"),
                      HasSubstr("hook[0].freq is 0"), HasSubstr("unknown buffer type 'nave'"),
                      HasSubstr("replay_buffer_size is 0")),
                HasSubstr("replay_buffer.nstep is 2, but policy.nstep is 0: set only the latter"),
                HasSubstr("test:13:"), HasSubstr("unknown field 'typo'"),
                HasSubstr("--set: cannot set 'policy.learn.batch_sise'"))));
}

TEST(ExperimentConfigTest, RangesOfParams_AreReportedWithAllOtherProblems) {
  const std::string stopper =
      "stopper=[{type:\"no_improvement\" "
      "params{[type.googleapis.com/ding.NoImprovementParams]{evaluations:0}}}]";
  EXPECT_THAT(
      Parse(kMinimal,
            {"policy.nstep=0", "policy.params.learning_rate=-1", "policy.params.grad_clip_norm=-2",
             "policy.params.model.params={[type.googleapis.com/ding.DqnConfig]{huber_delta:-3}}",
             stopper}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("policy.nstep is 0"),
                     HasSubstr("policy.params.learning_rate is -1, expected at least 0"),
                     HasSubstr("policy.params.grad_clip_norm is -2, expected at least 0"),
                     HasSubstr("policy.params.model.params.huber_delta is -3, expected above 0"),
                     HasSubstr("stopper[0].params.evaluations is 0, expected at least 1"))));
}

TEST(ExperimentConfigTest, FieldsOfParallelRunsHaveRangesInAnyRun) {
  EXPECT_THAT(Parse("", {"policy.learn.max_data_age=-1", "policy.collect.collector.collector_num=0",
                         "policy.learn.data_timeout=0", "system.coordinator.lease_seconds=0.01"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy.learn.max_data_age is -1, expected at least 0"),
                             HasSubstr("collector_num is 0, expected at least 1"),
                             HasSubstr("policy.learn.data_timeout is 0, expected above 0"),
                             HasSubstr("lease_seconds is 0.01, expected at least 0.02"))));
}

TEST(ExperimentConfigTest, UnknownType_NamesTheOneThatWasMeant) {
  const auto problem_of = [](const std::string& setting) {
    return std::string(Parse(kMinimal, {setting}).status().message());
  };
  EXPECT_THAT(problem_of("env.type=CartPole-1"), HasSubstr("; did you mean 'CartPole-v1'?"));
  EXPECT_THAT(problem_of("env.type=cartpole"), HasSubstr("; did you mean 'CartPole-v1'?"));
  EXPECT_THAT(problem_of("env.type=Pendulum"), HasSubstr("; did you mean 'Pendulum-v1'?"));
  EXPECT_THAT(problem_of("policy.type=pop"), HasSubstr("; did you mean 'ppo'?"));
  EXPECT_THAT(problem_of("env.type=Basketball"),
              AllOf(HasSubstr("; if it is your own, run a program that links it: "
                              "docs/how_to/own_modules.md"),
                    Not(HasSubstr("did you mean"))));
}

TEST(ExperimentConfigTest, ExpName_ThatIsNoLineOfUtf8_IsRefused) {
  const auto error_of = [](const std::string& name) {
    return ParseExperimentConfig("", "c", {"exp_name=\"" + name + "\""}).status();
  };
  EXPECT_THAT(error_of("a\\377"), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("exp_name is 'a\\xFF', expected text in UTF-8 "
                                                     "without control characters")));
  EXPECT_THAT(error_of("a\\nb"), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("exp_name is 'a\\x0Ab', expected")));
  EXPECT_THAT(error_of("br_\xE5\x90\x8D\xC3\xBC").message(), Not(HasSubstr("exp_name")));
}

TEST(ExperimentConfigTest, MissingTypesAreProblemsUnlessTheFileIsBroken) {
  EXPECT_THAT(Parse("seed: 1"), StatusIs(absl::StatusCode::kInvalidArgument,
                                         AllOf(HasSubstr("2 problems"),
                                               HasSubstr("env.type is missing; this program has: "),
                                               HasSubstr("policy.type is missing"))));
  EXPECT_THAT(Parse("env { type: 3 }"),
              StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("is missing"))));
}

TEST(ExperimentConfigTest, NanIsNotAStopValue) {
  EXPECT_THAT(Parse(kMinimal, {"env.stop_value=nan"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("env.stop_value is nan")));
}

TEST(ExperimentConfigTest, MissingAndEmptyFilesAreRefused) {
  EXPECT_THAT(LoadExperimentConfig("/no/such/file", {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/file")));
  const std::string path = JoinPath(testing::TempDir(), "empty.textproto");
  ASSERT_THAT(WriteFileAtomically(path, ""), IsOk());
  EXPECT_THAT(LoadExperimentConfig(path, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is empty")));
  EXPECT_THAT(LoadExperimentConfig(testing::TempDir(), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(testing::TempDir())));
}

TEST(LoadExperimentConfigTest, AConfigMayComeOutOfAFifo) {
  const std::string path = JoinPath(testing::TempDir(), "config_fifo");
  ASSERT_THAT(RemoveFile(path), IsOk());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto load = [&path](const std::string& text) {
    std::thread writer([&] { std::ofstream(path) << text; });
    auto config = LoadExperimentConfig(path, {"seed=7"});
    writer.join();
    return config;
  };
  // More than a pipe holds at once.
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig config,
                            load(absl::StrCat("# ", std::string(1 << 20, 'x'), "\n", kMinimal)));
  EXPECT_EQ(config.seed(), 7);
  EXPECT_THAT(load("").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config_fifo is empty")));
  EXPECT_THAT(load("typo: 3").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config_fifo:1:")));
  // Nobody writes for more than a second.
  testing::internal::CaptureStderr();
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    std::ofstream(path) << kMinimal;
  });
  EXPECT_THAT(LoadExperimentConfig(path, {}), IsOk());
  late.join();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("waiting for the config: "), HasSubstr("config_fifo' has given 0")));
  EXPECT_THAT(LoadExperimentConfig("/dev/zero", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'/dev/zero' has more than")));
  EXPECT_THAT(LoadExperimentConfig("/dev/null", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/dev/null is empty")));
}

// This function reads all configs: from files, --set, checkpoints, resumed runs and coordinators.
TEST(ParseExperimentConfigTest, AConfigThatIsNestedTooDeepIsRefused) {
  constexpr int kLevels = 10000;
  std::string text = "env { params { ";
  for (int i = 0; i < kLevels; ++i) text += "[type.googleapis.com/google.protobuf.Any] { ";
  text += std::string(kLevels, '}') + " } }";
  EXPECT_THAT(ParseExperimentConfig(text, "test", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("messages are nested more than 50 deep")));
}

TEST(ExperimentConfigTest, TheCapacityOfAReplayBufferIsInRowsOrInBytes) {
  const std::string bytes = "policy.other.replay_buffer.replay_buffer_bytes=";
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig resolved, Parse(kMinimal));
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig config,
                            Parse(PrintTextConfig(resolved), {bytes + "1000000"}));
  EXPECT_EQ(config.policy().other().replay_buffer().replay_buffer_bytes(), 1000000);
  EXPECT_FALSE(config.policy().other().replay_buffer().has_replay_buffer_size());
  EXPECT_THAT(Parse(kMinimal, {bytes + "0"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("policy.other.replay_buffer.replay_buffer_bytes is 0")));
  EXPECT_THAT(
      Parse("policy { other { replay_buffer { replay_buffer_size: 9 replay_buffer_bytes: 9 } } }"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("replay_buffer_bytes"), HasSubstr("replay_buffer_size"),
                     HasSubstr("oneof"))));
}

TEST(ExperimentConfigTest, ACollectIsOfRowsOrOfEpisodesAsItsCollectorSays) {
  const std::string episodes = "policy.collect.collector.type=episode";
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig config,
                            Parse(kMinimal, {episodes, "policy.collect.n_episode=9"}));
  EXPECT_FALSE(config.policy().collect().has_n_sample());
  const PolicyConfig policy = MakePolicyConfig(config);
  EXPECT_EQ(policy.n_episode(), 9);
  EXPECT_FALSE(policy.has_n_sample());
  EXPECT_THAT(Parse(PrintTextConfig(config)), IsOk());

  EXPECT_THAT(FindCollectProblems(config, /*parallel=*/false), IsEmpty());

  const auto problems = [](const std::vector<std::string>& settings) {
    return FindCollectProblems(Parse(kMinimal, settings).value(), /*parallel=*/false);
  };
  EXPECT_THAT(problems({}), IsEmpty());
  EXPECT_THAT(problems({episodes}),
              ElementsAre(HasSubstr("policy.collect.n_episode is not set, expected it in the place "
                                    "of n_sample: collector 'episode' collects episodes")));
  EXPECT_THAT(problems({"policy.collect.collector.type=episode_1v1"}),
              ElementsAre(HasSubstr("collector 'episode_1v1' collects episodes")));
  EXPECT_THAT(problems({"policy.collect.n_episode=9"}),
              ElementsAre(HasSubstr("policy.collect.n_sample is not set, expected it in the place "
                                    "of n_episode: collector 'sample' collects rows")));
  EXPECT_THAT(
      problems({episodes, "policy.collect.n_episode=7", "policy.random_collect_size=3"}),
      ElementsAre(HasSubstr("policy.collect.n_episode is 7, expected at least 8, one for each of "
                            "env.collector_env_num"),
                  HasSubstr("policy.random_collect_size is 3, expected at least 8 episodes")));
  for (const std::string amount : {"n_episode", "n_sample"}) {
    EXPECT_THAT(Parse(kMinimal, {absl::StrCat("policy.collect.", amount, "=0")}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat(amount, " is 0, expected at least 1"))));
  }
  EXPECT_THAT(Parse("policy { collect { n_sample: 9 n_episode: 9 } }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("n_sample"), HasSubstr("n_episode"), HasSubstr("oneof"))));
}

TEST(ExperimentConfigTest, CollectorsAndEvaluatorsAreOfEnvsForOneOrOfGames) {
  EXPECT_THAT(
      Parse(kMinimal,
            {"policy.collect.collector.type=sampel", "policy.eval.evaluator.type=interactive"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("unknown serial collector type 'sampel'; this program has: "
                               "episode, sample; battle collector: episode_1v1, sample_1v1"),
                     HasSubstr("unknown serial evaluator type 'interactive'"),
                     HasSubstr("; battle evaluator: battle_interaction"))));
  EXPECT_THAT(Parse(kMinimal, {"policy.collect.collector.type=sample_1v1",
                               "policy.eval.evaluator.type=battle_interaction"}),
              IsOk());
}

TEST(ExperimentConfigTest, AnotherEnvMayEvaluate) {
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig same, Parse(kMinimal));
  EXPECT_EQ(MakeEvaluatorEnvConfig(same).type(), "CartPole-v0");
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig other,
                            Parse(kMinimal, {"env.evaluator_type=CartPole-v1"}));
  EXPECT_EQ(MakeEvaluatorEnvConfig(other).type(), "CartPole-v1");
  EXPECT_EQ(MakeEnvConfig(other).type(), "CartPole-v0");
  EXPECT_THAT(Parse(kMinimal, {"env.evaluator_type=CartPole-v9"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("env.evaluator_type: unknown env type 'CartPole-v9'")));
  EXPECT_THAT(
      Parse(R"(env { type: "TicTacToe" evaluator_params {
                 [type.googleapis.com/ding.BoardGameConfig] { opening_moves: 1 } } })"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("env.evaluator_params is set, expected env.evaluator_type beside it")));
}

TEST(ExperimentConfigTest, AResolvedConfigCanBeChangedAtTheSourceOfASharedValue) {
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig resolved,
                            ParseExperimentConfig(kMinimal, "test", {"env.stop_value=10"}));
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig changed,
      ParseExperimentConfig(PrintTextConfig(resolved), "test", {"env.stop_value=20"}));
  EXPECT_EQ(changed.policy().eval().evaluator().stop_value(), 20);
}

TEST(ExperimentConfigTest, SeveralLearnersLogTheirMeanUnlessTheConfigSaysOtherwise) {
  const std::string two = "policy.learn.learner_num=2";
  const std::string one = "policy.learn.learner_num=1";
  const std::string field = "policy.learn.learner.hook.log_reduce_after_iter=";
  // Whether the hook is on in the config of a text with some settings, whose resolved config is
  // read with further ones.
  const auto reduces = [](const std::vector<std::string>& settings,
                          const std::vector<std::string>& changes) {
    const ExperimentConfig resolved = Parse(kMinimal, settings).value();
    const ExperimentConfig config = Parse(PrintTextConfig(resolved), changes).value();
    EXPECT_TRUE(config.policy().learn().learner().hook().has_log_reduce_after_iter());
    return config.policy().learn().learner().hook().log_reduce_after_iter();
  };
  EXPECT_FALSE(reduces({}, {}));
  EXPECT_TRUE(reduces({two}, {}));
  EXPECT_FALSE(reduces({two, field + "false"}, {}));
  EXPECT_TRUE(reduces({one, field + "true"}, {}));
  EXPECT_TRUE(reduces({}, {two})) << "a resolved config follows, too";
  EXPECT_FALSE(reduces({two}, {one}));
  EXPECT_FALSE(reduces({two}, {field + "false"}));
}

}  // namespace
}  // namespace ding
