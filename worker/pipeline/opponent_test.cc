// Serial runs whose policy plays games against the config's opponent: a checkpoint, a policy that
// stays as it is, and one that learns.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/game_envs.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

constexpr char kConfig[] = R"(
seed: 5
max_train_iter: 60
env {
  type: "TicTacToe"
  params { [type.googleapis.com/ding.BoardGameConfig] { first_player: 0 } }
  collector_env_num: 3 evaluator_env_num: 2 n_evaluator_episode: 6
}
policy {
  type: "dqn"
  random_collect_size: 20
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [16] } } }
  learn { batch_size: 8 update_per_collect: 2 learner { hook { save_ckpt_after_iter: 20 log_show_after_iter: 4 } } }
  collect { n_sample: 9 collector { type: "sample_1v1" collect_print_freq: 10 } }
  eval { evaluator { type: "battle_interaction" eval_freq: 20 } }
}
resume { period_seconds: 0 period_rounds: 3 })";

constexpr char kLearns[] =
    "opponent={type:\"dqn\" learns:true params{[type.googleapis.com/ding.DqnConfig]{"
    "model{encoder_hidden_size:[24]}}}}";
constexpr char kStays[] =
    "opponent={type:\"dqn\" params{[type.googleapis.com/ding.DqnConfig]{"
    "model{encoder_hidden_size:[24]}}}}";

using Settings = std::vector<std::string>;

class OpponentTest : public testing::Test {
 protected:
  OpponentTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/opponent_XXXXXX");
    folder_ = mkdtemp(folder.data());
  }
  ~OpponentTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(const std::string& name,
                                                         const Settings& settings) {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                          ParseExperimentConfig(kConfig, "test", settings));
    SerialOptions options;
    options.exp_dir = JoinPath(folder_, name);
    options.interrupted = interrupted_;
    DING_RETURN_IF_ERROR(CreateDirectories(options.exp_dir));
    return SerialPipeline::Create(config, options);
  }
  // Runs, or goes on with, the run in the folder `name`.
  absl::StatusOr<SerialResult> Run(const std::string& name, const Settings& settings) {
    DING_ASSIGN_OR_RETURN(pipeline_, Create(name, settings));
    DING_ASSIGN_OR_RETURN(const std::optional<ResumePoint> point,
                          OpenNewestResumePoint(JoinPath(folder_, name)));
    if (point.has_value()) DING_RETURN_IF_ERROR(pipeline_->Resume(point->checkpoint));
    SerialResult result;
    DING_RETURN_IF_ERROR(pipeline_->Run(&result));
    return result;
  }
  std::string Checkpoint(const std::string& run, const std::string& name) const {
    return absl::StrCat(JoinPath(folder_, run), "/ckpt/", name);
  }
  // How the pipeline judges the settings.
  std::string Refusal(const Settings& settings) {
    const absl::Status status = Create("refused", settings).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  std::string folder_;
  std::function<bool()> interrupted_ = [] { return false; };
  std::unique_ptr<SerialPipeline> pipeline_;
};

// How many more stones than the player the other one has, in each row of the buffer: 0 for player
// 0, which begins, and 1 for player 1.
std::vector<int> StonesBehind(IBuffer* buffer) {
  const Batch rows = buffer->Sample(buffer->count(), /*cur_learner_iter=*/0).value();
  constexpr size_t kCells = 9;
  const absl::Span<const float> boards = rows.column<float>("obs/board");
  std::vector<int> behind;
  for (size_t begin = 0; begin < boards.size(); begin += 3 * kCells) {
    float stones = 0;
    for (size_t i = begin; i < begin + kCells; ++i) stones += boards[i + kCells] - boards[i];
    behind.push_back(static_cast<int>(stones));
  }
  return behind;
}

TEST_F(OpponentTest, APolicyThatStays_TheBufferHasTheRowsOfPlayer0Only) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run("run", {kStays}));
  EXPECT_EQ(result.train_iter, 60);
  EXPECT_THAT(StonesBehind(pipeline_->buffer()),
              AllOf(testing::SizeIs(testing::Gt(20u)), testing::Each(0)));
  EXPECT_EQ(pipeline_->opponent()->buffer(), nullptr);
  EXPECT_FALSE(PathExists(Checkpoint("run", "opponent_iteration_20")));
}

TEST_F(OpponentTest, APolicyThatLearns_HasABufferALearnerAndCheckpointsOfItsOwn) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run("run", {kLearns}));
  EXPECT_EQ(result.train_iter, 60);
  EXPECT_THAT(StonesBehind(pipeline_->buffer()), testing::Each(0));
  EXPECT_THAT(StonesBehind(pipeline_->opponent()->buffer()),
              AllOf(testing::SizeIs(testing::Gt(20u)), testing::Each(1)));
  std::vector<std::string> models;
  for (const char* const name : {"opponent_iteration_20", "opponent_iteration_40"}) {
    DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader saved,
                              CheckpointReader::Open(Checkpoint("run", name)));
    EXPECT_NE(saved.info().fields.at("train_iter"), "0");
    models.push_back(*ReadFile(Checkpoint("run", absl::StrCat(name, "/model.safetensors"))));
  }
  EXPECT_NE(models[0], models[1]) << "it learns";

  // An evaluation of the policy plays the opponent beside it, and the opponent's checkpoint can be
  // played, too.
  EvaluationOptions options;
  options.n_episode = 4;
  for (const char* const name : {"iteration_40", "opponent_iteration_40"}) {
    options.checkpoint = Checkpoint("run", name);
    EXPECT_THAT(EvaluateCheckpoint(options), IsOk()) << name;
  }
  ASSERT_THAT(RemoveRecursively(Checkpoint("run", "opponent_iteration_40")), IsOk());
  options.checkpoint = Checkpoint("run", "iteration_40");
  EXPECT_THAT(EvaluateCheckpoint(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("opponent.learns is true"),
                             HasSubstr("policy.eval.opponent_checkpoint"))));
}

// The checkpoint is an opponent that always plays the same, so that evaluations in a run are those
// of the evaluate program.
TEST_F(OpponentTest, ACheckpoint_PlaysWhileCollectingAndInEvaluations) {
  ASSERT_THAT(Run("teacher", {kStays, "seed=9"}), IsOk());
  const std::string teacher = Checkpoint("teacher", "iteration_60");
  const std::string setting = absl::StrCat("opponent.checkpoint=", teacher);
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run("run", {setting}));
  EXPECT_THAT(StonesBehind(pipeline_->buffer()), testing::Each(0));
  DING_ASSERT_OK_AND_ASSIGN(
      const SerialResult same,
      Run("evaluated", {setting, absl::StrCat("policy.eval.opponent_checkpoint=", teacher)}));
  EXPECT_EQ(result.eval_value_raw, same.eval_value_raw);
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult other, Run("other", {kStays}));
  EXPECT_NE(*ReadFile(Checkpoint("run", "iteration_60/model.safetensors")),
            *ReadFile(Checkpoint("other", "iteration_60/model.safetensors")))
      << "it learns from games against another opponent";

  // One that learns on begins with the checkpoint.
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult on,
                            Run("on", {setting, "opponent.learns=true", "max_train_iter=40"}));
  EXPECT_EQ(on.train_iter, 40);
  EXPECT_TRUE(PathExists(Checkpoint("on", "opponent_iteration_40")));
}

TEST_F(OpponentTest, ARunThatIsResumedEndsWithTheSameBytes) {
  for (const char* const opponent : {kLearns, kStays}) {
    SCOPED_TRACE(opponent);
    const std::string kind = opponent == kLearns ? "learns" : "stays";
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult whole, Run(kind, {opponent}));
    const std::string last = absl::StrCat("resume_", whole.env_step);
    for (const int after : {1, 2, 5}) {
      const std::string parts = absl::StrCat(kind, after);
      int polls = 0;
      interrupted_ = [&] { return ++polls > after; };
      DING_ASSERT_OK_AND_ASSIGN(const SerialResult first, Run(parts, {opponent}));
      EXPECT_TRUE(first.interrupted);
      interrupted_ = [] { return false; };
      DING_ASSERT_OK_AND_ASSIGN(const SerialResult rest, Run(parts, {opponent}));
      EXPECT_EQ(rest.eval_value_raw, whole.eval_value_raw);
      DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader point,
                                CheckpointReader::Open(Checkpoint(kind, last)));
      if (opponent == kLearns) {
        EXPECT_THAT(point.Components(),
                    IsSupersetOf({"opponent_model", "opponent_train_state", "opponent_learner",
                                  "opponent_collect_policy", "opponent_replay_buffer"}));
      }
      for (const std::string& part : point.Components()) {
        const std::string file = absl::StrCat("/", part, ".safetensors");
        EXPECT_TRUE(*ReadFile(Checkpoint(kind, last) + file) ==
                    *ReadFile(Checkpoint(parts, last) + file))
            << part << " after " << after;
      }
    }
  }
}

constexpr char kPpo[] =
    "{actor_critic{model{encoder_hidden_size:[8]} critic{encoder_hidden_size:[8]}}}";

TEST_F(OpponentTest, OnPolicyPoliciesLearnFromTheirOwnRows) {
  const std::string params = absl::StrCat("{[type.googleapis.com/ding.PpoConfig]", kPpo, "}");
  DING_ASSERT_OK_AND_ASSIGN(
      const SerialResult result,
      Run("run",
          {"policy.type=ppo", absl::StrCat("policy.params=", params),
           "policy.random_collect_size=0", "policy.learn.update_per_collect=1", "max_train_iter=10",
           absl::StrCat("opponent={type:\"ppo\" learns:true params", params, "}")}));
  EXPECT_GE(result.train_iter, 10);
  EXPECT_EQ(pipeline_->opponent()->buffer(), nullptr);
  EXPECT_TRUE(
      PathExists(Checkpoint("run", absl::StrCat("opponent_iteration_", result.train_iter))));
}

// The pursuer moves by any distance, and the evader by one of three: two policies that could not
// play each other's part.
TEST_F(OpponentTest, PlayersOfAnAsymmetricGame_LearnEachByItsPolicy) {
  const ScopedRegistration<EnvCreator> registration(
      &EnvRegistry(), "Pursuit", [](const EnvConfig&) { return PursuitEnv::Create(); });
  const Settings settings = {
      "env={type:\"Pursuit\" collector_env_num:3 evaluator_env_num:2 n_evaluator_episode:6}",
      "policy.type=sac", "max_train_iter=40",
      "policy.params={[type.googleapis.com/ding.SacConfig]{continuous{"
      "model{encoder_hidden_size:[8]} critic{encoder_hidden_size:[8]}}}}"};
  EXPECT_THAT(Refusal(settings), HasSubstr("action"));
  Settings with_opponent = settings;
  with_opponent.push_back(kLearns);
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run("run", with_opponent));
  EXPECT_EQ(result.train_iter, 40);
  EXPECT_TRUE(PathExists(Checkpoint("run", "opponent_iteration_40")));
}

TEST_F(OpponentTest, RefusesWhatCannotPlay) {
  EXPECT_THAT(Refusal({kStays, "env={type:\"CartPole-v0\"}", "policy.collect.collector.type=sample",
                       "policy.eval.evaluator.type=interaction"}),
              HasSubstr("opponent is set, but env 'CartPole-v0' has 1 player: expected a game"));
  EXPECT_THAT(Refusal({"opponent.type=chess"}), HasSubstr("opponent.type"));
  EXPECT_THAT(Refusal({"opponent={type:\"random\" learns:true}"}),
              HasSubstr("opponent.learns is true, but policy 'random' does not learn"));
  EXPECT_THAT(Create("random", {"opponent.type=random"}), IsOk());
  EXPECT_THAT(Refusal({"opponent.learns=true"}),
              HasSubstr("expected opponent.type or opponent.checkpoint beside it"));
  EXPECT_THAT(Refusal({kLearns, "policy.collect.overlap=true"}),
              HasSubstr("policy.collect.overlap is true, but opponent.learns is, too"));
  EXPECT_THAT(
      Refusal({absl::StrCat("opponent={type:\"ppo\" learns:true params{[type.googleapis.com/"
                            "ding.PpoConfig]",
                            kPpo, "}}")}),
      HasSubstr("opponent.type is 'ppo', which is on-policy, and policy.type is off-policy"));
  EXPECT_THAT(Refusal({kLearns,
                       "policy.collect.collector.params={[type.googleapis.com/"
                       "ding.BattleSampleCollectorParams]{collect_players:[0]}}"}),
              HasSubstr("collect_players is set, but opponent.learns is true"));
}

TEST_F(OpponentTest, RefusesACheckpointThatDoesNotFit) {
  ASSERT_THAT(Run("four", {"env={type:\"ConnectFour\" collector_env_num:3 evaluator_env_num:2 "
                           "n_evaluator_episode:6}",
                           "max_train_iter=20"}),
              IsOk());
  const std::string four = absl::StrCat("opponent.checkpoint=", Checkpoint("four", "iteration_20"));
  EXPECT_THAT(Refusal({four}), AllOf(HasSubstr("opponent.checkpoint "),
                                     HasSubstr("its env 'ConnectFour', beside 'TicTacToe'"),
                                     HasSubstr("observation"), HasSubstr("expected")));
  EXPECT_THAT(Refusal({four, "opponent.type=c51"}),
              HasSubstr("its policy is 'dqn', but opponent.type is 'c51'"));
  EXPECT_THAT(Create("missing", {"opponent.checkpoint=/no/such/checkpoint"}), Not(IsOk()));
}

}  // namespace
}  // namespace ding
