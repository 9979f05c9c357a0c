#include "ding_worker/worker/evaluation/evaluation.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/metrics/video.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

absl::StatusOr<std::unique_ptr<Env>> MakeEnv(const std::string& type) {
  EnvConfig config;
  config.set_type(type);
  return create_env(config);
}

// A CartPole that draws no pictures.
class BlindEnv : public Env {
 public:
  explicit BlindEnv(std::unique_ptr<Env> env) : env_(std::move(env)) {}
  const EnvSpec& spec() const override { return env_->spec(); }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    return env_->Reset(start, obs);
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    return env_->Step(action, obs, result);
  }

 private:
  const std::unique_ptr<Env> env_;
};

absl::StatusOr<std::unique_ptr<Env>> MakeBlindEnv() {
  absl::StatusOr<std::unique_ptr<Env>> env = MakeEnv("CartPole-v0");
  if (!env.ok()) return env.status();
  return std::make_unique<BlindEnv>(*std::move(env));
}

DING_REGISTER(EnvRegistry(), "Blind", WithoutParams(MakeBlindEnv), "draws no pictures");

constexpr char kCartPole[] = R"(
env { type: "CartPole-v0" evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] {
    model { encoder_hidden_size: [8] } eps { start: 0.9 end: 0.9 } } }
  other { replay_buffer { type: "naive" } }
})";

class EvaluationTest : public testing::Test {
 protected:
  EvaluationTest() : folder_(JoinPath(testing::TempDir(), "evaluation_test")) {
    EXPECT_THAT(RemoveRecursively(folder_), IsOk());
    EXPECT_THAT(CreateDirectories(folder_), IsOk());
    options_.checkpoint = JoinPath(folder_, "checkpoint");
    options_.n_episode = 5;
  }

  // Saves the checkpoint of an untrained policy.
  void Save(const std::string& text) {
    const ExperimentConfig config = ParseExperimentConfig(text, "test", {}).value();
    const std::unique_ptr<Env> env = MakeEnv(config.env().type()).value();
    const std::unique_ptr<Policy> policy =
        create_policy(MakePolicyConfig(config),
                      MakePolicyContext(config, PlayerSpec(env->spec()), PolicyModes()))
            .value();
    info_.kind = kCheckpointKind;
    info_.fields["env_step"] = "40";
    DescribeRun(config, env->spec(), &info_);
    EXPECT_THAT(
        WriteCheckpoint(
            options_.checkpoint, info_,
            {{kModelComponent,
              [&](StateWriter* writer) { return policy->learn_mode()->SaveModel(writer); }}}),
        IsOk());
  }

  absl::Status Refusal() const { return EvaluateCheckpoint(options_).status(); }
  std::vector<std::string> Files() const { return ListDirectory(folder_).value(); }

  const std::string folder_;
  CheckpointInfo info_;
  EvaluationOptions options_;
};

TEST_F(EvaluationTest, EqualSeedsGiveEqualEpisodes) {
  Save(kCartPole);
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointEvaluation greedy, EvaluateCheckpoint(options_));
  EXPECT_THAT(greedy.episode_return, SizeIs(5));
  EXPECT_EQ(greedy.env, "CartPole-v0");
  EXPECT_EQ(greedy.env_step, 40);
  EXPECT_EQ(EvaluateCheckpoint(options_)->episode_return, greedy.episode_return);
  options_.sample = true;
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointEvaluation sampled, EvaluateCheckpoint(options_));
  EXPECT_NE(sampled.episode_return, greedy.episode_return);
  EXPECT_EQ(EvaluateCheckpoint(options_)->episode_return, sampled.episode_return);
  options_.seed = 1;
  EXPECT_NE(EvaluateCheckpoint(options_)->episode_return, sampled.episode_return);
}

TEST_F(EvaluationTest, PlaysInAnotherEnvWithTheSameSpaces) {
  Save(kCartPole);
  options_.env = "CartPole-v1";
  EXPECT_EQ(EvaluateCheckpoint(options_)->env, "CartPole-v1");
  options_.env.clear();
  options_.settings = {"env.type=CartPole-v1", "env.manager.type=subprocess"};
  EXPECT_EQ(EvaluateCheckpoint(options_)->env, "CartPole-v1");
}

TEST_F(EvaluationTest, PlaysTheCheckpointOfAParallelRun) {
  Save(ReadFile("worker/configs/cartpole_dqn_parallel.textproto").value());
  EXPECT_THAT(EvaluateCheckpoint(options_)->episode_return, SizeIs(5));
}

TEST_F(EvaluationTest, NamesTheFieldThatDiffersInAnotherEnv) {
  Save(kCartPole);
  options_.env = "CartPole-v0-masked-velocity";
  EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("'CartPole-v0-masked-velocity' does not fit"),
                                        HasSubstr("trained in 'CartPole-v0'"),
                                        HasSubstr("observation: field 'obs' is float32[2]"),
                                        HasSubstr("expected float32[4]"))));
  options_.env = "Orchard-v0";
  EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("field")));
  options_.env = "Nowhere";
  EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'Nowhere'")));
}

TEST_F(EvaluationTest, ASettingThatHasNoEffectIsRefused) {
  Save(kCartPole);
  for (const char* const setting :
       {"policy.learn.batch_size=3", "seed=3", "env.stop_value=3", "env.n_evaluator_episode=3",
        "policy.eval.evaluator.n_episode=3", "policy.eval.evaluator.eval_freq=3"}) {
    options_.settings = {setting};
    EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no effect")))
        << setting;
  }
}

// More envs than the run plays episodes in an evaluation of its own (2).
TEST_F(EvaluationTest, TheNumberOfEnvsMayBeAnother) {
  Save(kCartPole);
  options_.sample = true;
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointEvaluation with_two, EvaluateCheckpoint(options_));
  options_.settings = {"env.evaluator_env_num=5"};
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointEvaluation with_five, EvaluateCheckpoint(options_));
  EXPECT_THAT(with_five.episode_return, SizeIs(5));
  EXPECT_NE(with_five.episode_return, with_two.episode_return);  // each env has seeds of its own
  options_.settings = {"env.evaluator_env_num=0"};
  EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("env.evaluator_env_num is 0, expected at least 1")));
}

TEST_F(EvaluationTest, WrappersOfTheRunMayBeOthers) {
  Save(kCartPole);
  options_.settings = {
      "env.wrapper=[{type:\"time_limit\" "
      "params{[type.googleapis.com/ding.TimeLimitConfig]{max_steps:3}}}]"};
  EXPECT_THAT(EvaluateCheckpoint(options_)->episode_return, Each(3));
}

TEST_F(EvaluationTest, FilmsAnEpisode) {
  Save(kCartPole);
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointEvaluation unfilmed, EvaluateCheckpoint(options_));
  std::vector<double> returns = unfilmed.episode_return;
  std::sort(returns.begin(), returns.end());
  options_.video.path = JoinPath(folder_, "out.gif");
  const std::pair<const char*, double> episodes[] = {
      {"worst", returns[0]}, {"median", returns[2]}, {"best", returns[4]}};
  for (const auto& [episode, value] : episodes) {
    options_.video.episode = episode;
    DING_ASSERT_OK_AND_ASSIGN(const CheckpointEvaluation filmed, EvaluateCheckpoint(options_));
    EXPECT_EQ(filmed.episode_return, unfilmed.episode_return);
    EXPECT_EQ(*filmed.video_return, value) << episode;
    EXPECT_FALSE(filmed.video_is_cut);
    const std::string bytes = ReadFile(options_.video.path).value();
    EXPECT_EQ(bytes.substr(0, 6), "GIF89a");
    EXPECT_EQ(EvaluateCheckpoint(options_)->video_return, filmed.video_return);
    EXPECT_EQ(ReadFile(options_.video.path).value(), bytes);
  }
  EXPECT_THAT(Files(), ElementsAre("checkpoint", "out.gif"));
}

TEST_F(EvaluationTest, AFullDiskLeavesNoHalfVideo) {
  Save(kCartPole);
  options_.video.path = JoinPath(folder_, "out.gif");
  const FileSizeLimit full_disk(1000);
  EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("out.gif")));
  EXPECT_THAT(Files(), ElementsAre("checkpoint"));
}

TEST_F(EvaluationTest, RefusesVideosThatCannotBeMade) {
  Save(kCartPole);
  const auto refused = [&](const std::string& path, absl::StatusCode code, const char* message) {
    options_.video.path = JoinPath(folder_, path);
    EXPECT_THAT(Refusal(), StatusIs(code, HasSubstr(message))) << path;
  };
  refused("out.avi", absl::StatusCode::kInvalidArgument, "ends in '.avi', expected one of: .gif");
  refused("out.mp4", absl::StatusCode::kInvalidArgument, "//metrics:mp4_factory");
  refused("out", absl::StatusCode::kInvalidArgument, "no format");
  refused("no/folder.gif", absl::StatusCode::kNotFound, "no/folder.gif");
  {
    const ScopedRegistration<VideoEncoderFactory> none(&VideoFormatRegistry(), "mine",
                                                       [](int) { return nullptr; });
    refused("out.mine", absl::StatusCode::kInternal,
            "the factory of video format 'mine' returned none");
  }
  options_.video.episode = "longest";
  refused("out.gif", absl::StatusCode::kInvalidArgument, "'longest', expected worst, median or");
  options_.video.episode = "best";
  options_.video.frames_per_second = 0;
  refused("out.gif", absl::StatusCode::kInvalidArgument, "expected 1 to 100");
  options_.video.frames_per_second = 10;
  options_.env = "Blind";
  refused("out.gif", absl::StatusCode::kUnimplemented,
          "CartPole-v0 cannot render: its class has no Render()");
  EXPECT_THAT(Files(), ElementsAre("checkpoint"));
}

TEST(FramesPerSecondTest, ShortEpisodesAreShownSlowly) {
  EXPECT_EQ(FramesPerSecond(0), 50);
  EXPECT_EQ(FramesPerSecond(500), 50);
  EXPECT_EQ(FramesPerSecond(50), 12);
  EXPECT_EQ(FramesPerSecond(9), 2);
  EXPECT_EQ(FramesPerSecond(1), 2);
}

TEST_F(EvaluationTest, RefusesTheVideoOfAGame) {
  Save(R"(
env { type: "TicTacToe" evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  collect { collector { type: "sample_1v1" } }
  eval { evaluator { type: "battle_interaction" } }
  other { replay_buffer { type: "naive" } }
})");
  EXPECT_THAT(EvaluateCheckpoint(options_)->episode_return, SizeIs(5));
  options_.video.path = JoinPath(folder_, "out.gif");
  EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("'TicTacToe' is a game of 2 players")));
  options_.env = "TicTacToe-vs-random";
  options_.settings = {"policy.eval.evaluator.type=interaction"};
  EXPECT_THAT(Refusal(), IsOk());
  EXPECT_THAT(Files(), ElementsAre("checkpoint", "out.gif"));
}

TEST_F(EvaluationTest, APolicyThatIsNotLinkedIsNamed) {
  Save(kCartPole);
  info_.fields["policy"] = "mine";
  info_.fields["config"] = "policy { params { [type.googleapis.com/my.Config] {} } }";
  ASSERT_THAT(WriteCheckpoint(options_.checkpoint, info_, {}), IsOk());
  EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kNotFound,
                                  AllOf(HasSubstr("'mine', which this program does not have"),
                                        HasSubstr("dqn"))));
  info_.fields["policy"] = "dqn";
  ASSERT_THAT(WriteCheckpoint(options_.checkpoint, info_, {}), IsOk());
  EXPECT_THAT(Refusal(), StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("my.Config"), HasSubstr("evaluate_main"))));
}

}  // namespace
}  // namespace ding
