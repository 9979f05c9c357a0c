// Tests games in parallel runs without a league, and the settings of evaluations: collectors play
// and evaluate as those of serial runs do.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/tasks/configured_collector.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

// Settings of an evaluation in the game itself.
const char kInTheGame[] =
    "env={type:\"TicTacToe\" collector_env_num:4 collector_episode_num:4 "
    "evaluator_env_num:4 n_evaluator_episode:40}";
const char kGameEvaluator[] = "policy.eval.evaluator.type=battle_interaction";

class ParallelGamesTest : public testing::Test {
 protected:
  ParallelGamesTest() {
    deps_.exp_dir = absl::StrCat(testing::TempDir(), "/games");
    EXPECT_THAT(RemoveRecursively(deps_.exp_dir), IsOk());
    EXPECT_THAT(CreateDirectories(deps_.exp_dir), IsOk());
  }

  static ExperimentConfig Config(std::vector<std::string> settings,
                                 const std::string& name = "tictactoe_dqn_parallel") {
    settings.push_back("resume.period_seconds=0");
    return LoadExperimentConfig(absl::StrCat("worker/configs/", name, ".textproto"), settings)
        .value();
  }

  // How a coordinator judges the config.
  absl::Status Refusal(const ExperimentConfig& config) const {
    const std::unique_ptr<Store> store = create_store("mem:").value();
    InProcessTransport transport;
    const auto comm = CommCoordinator::Create(InProcessCommOptions(), &transport).value();
    return MakeCoordinator(config, "run-1", deps_, store.get(), comm.get(), /*journal=*/nullptr)
        .status();
  }

  InProcessRun Run(const ExperimentConfig& config) {
    InProcessTransport transport;
    const std::unique_ptr<Store> store = create_store("mem:").value();
    return RunInProcess(config, deps_, store.get(), &transport, &transport);
  }

  // The parameters in a checkpoint of the run.
  std::string ReadModel(const std::string& name) const {
    const absl::StatusOr<std::string> model =
        ReadFile(absl::StrCat(deps_.exp_dir, "/", name, "/model.safetensors"));
    EXPECT_THAT(model, IsOk());
    return model.ok() ? *model : "";
  }
  // A policy of the config with the parameters that follow from `seed`.
  static std::unique_ptr<Policy> PolicyOf(const ExperimentConfig& config, uint64_t seed) {
    const EnvSpec player = SpecOfEnv(config, ComponentDeps().clock).value();
    PolicyContext context = MakePolicyContext(config, player, PolicyModes());
    context.seed = seed;
    return create_policy(MakePolicyConfig(config), context).value();
  }
  static std::shared_ptr<StateDict> ModelOf(const Policy& policy) {
    auto model = std::make_shared<StateDict>();
    EXPECT_THAT(const_cast<Policy&>(policy).learn_mode()->SaveModel(model.get()), IsOk());
    return model;
  }
  // Saves its model as a checkpoint of the run does, and returns the path.
  std::string SaveCheckpoint(const ExperimentConfig& config, Policy* policy) const {
    const std::string path = JoinPath(deps_.exp_dir, "opponent");
    CheckpointInfo info;
    info.kind = kCheckpointKind;
    DescribeRun(config, SpecOfEnv(config, ComponentDeps().clock).value(), &info);
    EXPECT_THAT(
        WriteCheckpoint(
            path, info,
            {{kModelComponent,
              [policy](StateWriter* writer) { return policy->learn_mode()->SaveModel(writer); }}}),
        IsOk());
    return path;
  }

  // Runs one task of a collector of the config.
  absl::StatusOr<CollectorFinishInfo> RunTask(const ExperimentConfig& config,
                                              const CollectorTask& task, FakeLink* link) const {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<TaskCollector> made,
                          MakeTaskCollectorFactory(config, deps_)(task, link));
    DING_RETURN_IF_ERROR(made->collector()->Run());
    return made->collector()->GetFinishInfo();
  }

  ComponentDeps deps_;
};

// The bar is a mean return of 0.7 against random play. A policy that also plays at random gets 0,
// and one that learns with a wrong sign loses nearly all games.
TEST_F(ParallelGamesTest, LearnsBySelfPlayWithoutALeague) {
  const ExperimentConfig config = Config(
      {"env.evaluator_type=TicTacToe-vs-random", "env.stop_value=0.7", "max_train_iter=40000",
       "policy.other.commander.eval_interval=0.3", "policy.learn.batch_size=32"});
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  const InProcessRun run = Run(config);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  EXPECT_TRUE(run.status.converged()) << run.status.eval_value();
  // In each step one of two players moves; a few forced moves are missing.
  EXPECT_GT(run.counters.rows_acknowledged, run.status.envstep() * 3 / 4);
  EXPECT_LE(run.counters.rows_acknowledged, run.status.envstep() + 1);
}

TEST_F(ParallelGamesTest, ANetworkTrainsWhileItIsEvaluatedInTheGame) {
  const ExperimentConfig config =
      Config({kInTheGame, kGameEvaluator, "max_train_iter=300", "env.stop_value=2",
              "policy.other.commander.eval_interval=0.1", "policy.random_collect_size=100"});
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  const InProcessRun run = Run(config);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  EXPECT_GE(run.status.train_iter(), 300);
  EXPECT_TRUE(run.status.has_eval_value());
}

// An evaluation has the returns of one of a serial run: with the same envs, opponent and policy.
TEST_F(ParallelGamesTest, EvaluatesInAGameLikeASerialRun) {
  const ExperimentConfig plain = Config({kInTheGame, kGameEvaluator});
  const std::unique_ptr<Policy> opponent = PolicyOf(plain, 7);
  const ExperimentConfig against = Config(
      {kInTheGame, kGameEvaluator,
       absl::StrCat("policy.eval.opponent_checkpoint=", SaveCheckpoint(plain, opponent.get()))});
  std::vector<std::vector<double>> found;
  for (const ExperimentConfig& config : {plain, against}) {
    const std::unique_ptr<Policy> policy = PolicyOf(config, 1);
    FakeLink link;
    link.Publish(5, ModelOf(*policy));
    CollectorTask task;
    task.set_eval_flag(true);
    DING_ASSERT_OK_AND_ASSIGN(const CollectorFinishInfo info, RunTask(config, task, &link));
    EXPECT_THAT(info.episode_return, AllOf(SizeIs(40), Each(testing::AnyOf(-1, 0, 1))));
    EXPECT_GE(info.step_count, 5 * 40) << "no game has fewer moves";

    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<EnvManager> envs,
                              MakeEvaluatorEnvManager(config, 4, deps_.clock));
    ASSERT_THAT(envs->Seed(Rng::DeriveSeed(config.seed(), "evaluator_env"), /*dynamic=*/true),
                IsOk());
    ComponentDeps deps = deps_;
    deps.name = "serial";
    deps.seed = config.seed();
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ISerialEvaluator> evaluator,
                              MakeEvaluator(config, envs.get(), policy->eval_mode(), deps));
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult expected, evaluator->Eval({}));
    EXPECT_EQ(info.episode_return, expected.episode_return);
    EXPECT_EQ(info.step_count, expected.envstep_count);
    found.push_back(info.episode_return);
  }
  EXPECT_NE(found[0], found[1]) << "the opponents differ";
}

// In each step one of two players moves, and only the moves of the policy are rows.
TEST_F(ParallelGamesTest, PlaysTheOpponentOfTheConfig) {
  const ExperimentConfig plain = Config({kInTheGame, kGameEvaluator});
  const std::unique_ptr<Policy> opponent = PolicyOf(plain, 7);
  const std::string path = SaveCheckpoint(plain, opponent.get());
  const ExperimentConfig config =
      Config({kInTheGame, kGameEvaluator, absl::StrCat("opponent.checkpoint=", path),
              "max_train_iter=300", "env.stop_value=2", "policy.other.commander.eval_interval=0.1",
              "policy.random_collect_size=100"});
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  const InProcessRun run = Run(config);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  EXPECT_GE(run.status.train_iter(), 300);
  EXPECT_TRUE(run.status.has_eval_value());
  EXPECT_GT(run.counters.rows_acknowledged, run.status.envstep() / 3);
  EXPECT_LT(run.counters.rows_acknowledged, run.status.envstep() * 2 / 3);

  // An evaluation is against the same opponent.
  const std::unique_ptr<Policy> policy = PolicyOf(config, 1);
  CollectorTask task;
  task.set_eval_flag(true);
  std::vector<std::vector<double>> found;
  for (const ExperimentConfig& each :
       {config, plain,
        Config({kInTheGame, kGameEvaluator,
                absl::StrCat("policy.eval.opponent_checkpoint=", path)})}) {
    FakeLink link;
    link.Publish(5, ModelOf(*policy));
    DING_ASSERT_OK_AND_ASSIGN(const CollectorFinishInfo info, RunTask(each, task, &link));
    found.push_back(info.episode_return);
  }
  EXPECT_NE(found[0], found[1]) << "at random";
  EXPECT_EQ(found[0], found[2]);
}

constexpr char kLearns[] =
    "opponent={type:\"dqn\" learns:true params{[type.googleapis.com/ding.DqnConfig]{"
    "model{encoder_hidden_size:[24]}}}}";

// The opponent has another model, so that its rows and parameters fit its own learner alone.
TEST_F(ParallelGamesTest, APolicyAndItsOpponentLearn) {
  const ExperimentConfig config = Config(
      {kInTheGame, kGameEvaluator, kLearns, "max_train_iter=600", "env.stop_value=2",
       "policy.other.commander.eval_interval=0.1", "policy.random_collect_size=100",
       "policy.learn.send_policy_freq=20", "policy.learn.learner.hook.save_ckpt_after_iter=100"});
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  const InProcessRun run = Run(config);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  EXPECT_GE(run.status.train_iter(), 600);
  EXPECT_TRUE(run.status.has_eval_value());
  ASSERT_THAT(run.before_close.trained_policy(), SizeIs(2));
  for (const TrainedPolicyStatus& policy : run.before_close.trained_policy()) {
    EXPECT_GT(policy.envstep(), 0) << policy.policy_id();
    EXPECT_GE(policy.train_iter(), 200) << policy.policy_id();
  }
  EXPECT_TRUE(run.before_close.trained_policy(1).eval_return().empty());
  for (const std::string folder : {"ckpt", "ckpt_opponent"}) {
    EXPECT_NE(ReadModel(folder + "/iteration_100"), ReadModel(folder + "/iteration_200"));
  }
}

// In a game of turns the two see each move of the other one, so that their rows differ.
TEST_F(ParallelGamesTest, ATaskSendsTheRowsOfTheOneThatItIsFor) {
  const ExperimentConfig config = Config({kInTheGame, kGameEvaluator, kLearns});
  const std::unique_ptr<Policy> policy = PolicyOf(config, 1);
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig own, OpponentConfig(config));
  const std::unique_ptr<Policy> opponent = PolicyOf(own, 2);
  for (const bool is_opponents : {false, true}) {
    FakeLink link;
    link.Publish(5, ModelOf(is_opponents ? *opponent : *policy), 0);
    link.Publish(7, ModelOf(is_opponents ? *policy : *opponent), 1);
    CollectorTask task;
    task.set_home_seat(is_opponents ? 1 : 0);
    task.add_player()->set_update_policy(true);
    task.add_player()->set_update_policy(false);
    task.add_collect_setting()->set_name(
        "eps");  // 0: the one that learns plays without exploration
    DING_ASSERT_OK_AND_ASSIGN(const CollectorFinishInfo info, RunTask(config, task, &link));
    EXPECT_EQ(info.train_iter, 5);
    EXPECT_THAT(info.episode_return, SizeIs(16));
    int64_t rows = 0;
    for (const FakeLink::Sent& sent : link.sent()) rows += sent.data.size();
    EXPECT_GT(rows, info.step_count / 3);
    EXPECT_LT(rows, info.step_count * 2 / 3);
  }
  // The parameters of the two do not fit each other.
  FakeLink link;
  link.Publish(5, ModelOf(*opponent), 0);
  link.Publish(7, ModelOf(*policy), 1);
  CollectorTask task;
  task.add_player()->set_update_policy(true);
  task.add_player()->set_update_policy(false);
  EXPECT_THAT(RunTask(config, task, &link).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("policy version")));
}

TEST_F(ParallelGamesTest, AnEvaluationIsAgainstTheOpponentsVersion) {
  const ExperimentConfig plain = Config({kInTheGame, kGameEvaluator});
  const std::unique_ptr<Policy> policy = PolicyOf(plain, 1);
  const std::unique_ptr<Policy> opponent = PolicyOf(plain, 7);
  ExperimentConfig learns =
      Config({kInTheGame, kGameEvaluator, "opponent={type:\"dqn\" learns:true}"});
  *learns.mutable_opponent()->mutable_params() = plain.policy().params();
  const ExperimentConfig stays =
      Config({kInTheGame, kGameEvaluator,
              absl::StrCat("opponent.checkpoint=", SaveCheckpoint(plain, opponent.get()))});
  const auto play = [&](const ExperimentConfig& config, const Policy& away) {
    FakeLink link;
    link.Publish(5, ModelOf(*policy), 0);
    link.Publish(7, ModelOf(away), 1);
    CollectorTask task;
    task.set_eval_flag(true);
    for (int i = 0; OpponentLearns(config) && i < 2; ++i) task.add_player();
    const CollectorFinishInfo info = RunTask(config, task, &link).value();
    return std::make_pair(info.episode_return, info.step_count);
  };
  EXPECT_EQ(play(learns, *opponent), play(stays, *opponent));
  EXPECT_NE(play(learns, *PolicyOf(plain, 8)), play(stays, *opponent));
}

// Rounds are filled by the rows of one player.
TEST_F(ParallelGamesTest, AnOnPolicyPolicyLearnsAgainstAnOpponent) {
  const ExperimentConfig config =
      Config({"opponent.type=random", "max_train_iter=40"}, "tictactoe_ppo_parallel");
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  const InProcessRun run = Run(config);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  EXPECT_GE(run.status.train_iter(), 40);
}

TEST_F(ParallelGamesTest, TheOpponentsCheckpointIsLoadedOnce) {
  const ExperimentConfig plain = Config({kInTheGame, kGameEvaluator});
  const std::unique_ptr<Policy> opponent = PolicyOf(plain, 7);
  const std::string path = SaveCheckpoint(plain, opponent.get());
  const ExperimentConfig config =
      Config({kInTheGame, kGameEvaluator, absl::StrCat("opponent.checkpoint=", path)});
  const std::unique_ptr<Policy> policy = PolicyOf(config, 1);
  const auto make = MakeTaskCollectorFactory(config, deps_);
  FakeLink link;
  link.Publish(5, ModelOf(*policy));
  ASSERT_THAT(make(CollectorTask(), &link), IsOk());
  ASSERT_THAT(RemoveRecursively(path), IsOk());
  EXPECT_THAT(make(CollectorTask(), &link), IsOk());
  EXPECT_THAT(MakeTaskCollectorFactory(config, deps_)(CollectorTask(), &link),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("all machines that collect or evaluate must see"),
                             HasSubstr(path))));
}

TEST_F(ParallelGamesTest, RefusesOpponentsThatCannotPlay) {
  const auto refusal = [this](const std::vector<std::string>& settings) {
    return std::string(Refusal(Config(settings)).message());
  };
  EXPECT_THAT(refusal({"opponent.type=dqn", "env.type=TicTacToe-vs-random"}),
              HasSubstr("opponent is set, but env 'TicTacToe-vs-random' has 1 player"));
  EXPECT_THAT(refusal({"opponent.checkpoint=/some/where"}),
              HasSubstr("opponent.checkpoint /some/where"));
  EXPECT_THAT(
      FindParallelProblems(Config({kLearns, "policy.learn.learner_num=2"})),
      ElementsAre("opponent.learns is true, but policy.learn.learner_num is above 1: expected "
                  "1: each of the two has one learner"));
  EXPECT_THAT(
      FindParallelProblems(Config({kLearns, "policy.other.commander.learner_task_space=2"})),
      ElementsAre(HasSubstr("learner_task_space is above 1: expected 1")));
  EXPECT_THAT(refusal({"opponent={type:\"random\" learns:true}"}),
              HasSubstr("policy 'random' does not learn"));
  EXPECT_THAT(refusal({"opponent={type:\"ppo\" learns:true}"}),
              HasSubstr("opponent.type is 'ppo', which is on-policy"));
  EXPECT_THAT(
      std::string(Refusal(Config({kLearns}, "tictactoe_ppo_parallel")).message()),
      HasSubstr("opponent.learns is true, which has no effect in a parallel run whose policy is "
                "on-policy: leave it out; a round has rows of one policy"));
  EXPECT_THAT(
      FindParallelProblems(Config({"opponent.type=dqn"}, "tictactoe_league_parallel")),
      testing::Contains(HasSubstr("opponent.type is \"dqn\", which has no effect in a league")));
}

// The coordinator's machine has the checkpoint, and that of the collectors does not.
TEST_F(ParallelGamesTest, AMachineThatDoesNotSeeTheOpponentSaysSo) {
  const ExperimentConfig plain = Config({kInTheGame, kGameEvaluator});
  const std::unique_ptr<Policy> opponent = PolicyOf(plain, 7);
  const std::string path = SaveCheckpoint(plain, opponent.get());
  const ExperimentConfig config =
      Config({kInTheGame, kGameEvaluator, absl::StrCat("policy.eval.opponent_checkpoint=", path)});
  EXPECT_THAT(Refusal(config), IsOk());
  ASSERT_THAT(RemoveRecursively(path), IsOk());
  EXPECT_THAT(Refusal(config),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("policy.eval.opponent_checkpoint"), HasSubstr(path))));
  FakeLink link;
  CollectorTask task;
  task.set_eval_flag(true);
  EXPECT_THAT(
      RunTask(config, task, &link),
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("all machines that collect or evaluate must see the opponent"),
                     HasSubstr(path))));
}

TEST_F(ParallelGamesTest, WhatDoesNotFitAGameIsRefused) {
  const auto invalid = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(Refusal(Config({})), IsOk());
  EXPECT_THAT(Refusal(Config({kInTheGame})),
              invalid("policy.eval.evaluator.type is 'interaction', which is for envs for one, but "
                      "env 'TicTacToe' has 2 players; expected one of: battle_interaction"));
  EXPECT_THAT(Refusal(Config({kGameEvaluator})),
              invalid("'battle_interaction', which is for games, but env 'TicTacToe-vs-perfect'"));
  EXPECT_THAT(Refusal(Config({"policy.eval.opponent_checkpoint=/some/where"})),
              invalid("policy.eval.opponent_checkpoint is set, but env 'TicTacToe-vs-perfect', "
                      "which evaluates, has 1 player: expected a game"));
  EXPECT_THAT(
      Refusal(Config({"policy.other.replay_buffer={type:\"sequence\"}"})),
      invalid("policy.other.replay_buffer.type is 'sequence', but env 'TicTacToe' is a game of 2 "
              "players, expected a type that draws single rows"));
  ExperimentConfig shaped = Config({});
  EpisodeCollectorParams params;
  params.set_reward_shaping("x");
  shaped.mutable_policy()->mutable_collect()->mutable_collector()->mutable_params()->PackFrom(
      params);
  EXPECT_THAT(Refusal(shaped),
              invalid("policy.collect.collector.params.reward_shaping is 'x', but env "
                      "'TicTacToe' is a game of 2 players, expected none"));
}

TEST_F(ParallelGamesTest, HandsOverWholeEpisodes) {
  std::vector<std::string> settings = {
      "policy.collect.n_episode=6", "env.collector_env_num=2", "env.collector_episode_num=5",
      "policy.collect.collector.type=episode",
      "policy.collect.collector.params={[type.googleapis.com/ding.EpisodeCollectorParams]{"
      "get_train_sample:true}}"};
  const ExperimentConfig config = Config(settings, "cartpole_dqn_parallel_fast");
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  FakeLink link;
  const std::unique_ptr<Policy> policy = PolicyOf(config, 1);
  link.Publish(0, ModelOf(*policy));
  CollectorTask task;
  Setting* const eps = task.add_collect_setting();
  eps->set_name("eps");
  eps->set_value(1);
  DING_ASSERT_OK_AND_ASSIGN(const CollectorFinishInfo info, RunTask(config, task, &link));
  EXPECT_THAT(info.episode_return, SizeIs(10));
  size_t episodes = 0;
  for (const FakeLink::Sent& sent : link.sent()) {
    for (const Segment& segment : sent.data.segments) EXPECT_NE(segment.end, SegmentEnd::kCut);
    episodes += sent.data.segments.size();
    if (episodes < 10) {
      EXPECT_THAT(sent.data.segments, SizeIs(testing::AnyOf(3, 4)));
    }
  }
  EXPECT_EQ(episodes, 10u);

  settings[0] = "policy.collect.n_episode=22";
  EXPECT_THAT(
      FindParallelProblems(Config(settings, "cartpole_dqn_parallel_fast")),
      ElementsAre(AllOf(HasSubstr("policy.collect.n_episode is 22, 11 for each collector, expected "
                                  "at most 10 for each"),
                        HasSubstr("env.collector_episode_num"))));
}

TEST_F(ParallelGamesTest, TensorsOfATask_ReachThePolicy) {
  TensorMap tensors;
  tensors.Set("goal", Tensor::FromSpan<float>({2}, {0.5f, -1}));
  const ExperimentConfig config = Config({}, "cartpole_dqn_parallel_fast");
  const std::unique_ptr<Policy> policy = PolicyOf(config, 1);
  for (const bool eval : {false, true}) {
    FakeLink link;
    link.Publish(0, ModelOf(*policy));
    CollectorTask task;
    task.set_eval_flag(eval);
    ASSERT_THAT(SetCollectTensors(tensors, &task), IsOk());
    EXPECT_THAT(RunTask(config, task, &link).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("the policy takes no tensors, but policy_tensors has 'goal'")));
  }
  FakeLink link;
  CollectorTask task;
  task.set_collect_tensors("no state");
  EXPECT_THAT(RunTask(config, task, &link), Not(IsOk()));
}

// Each evaluation is made by a collector that knows nothing of the others.
TEST_F(ParallelGamesTest, FilmsAnEvaluationWhenItIsDue) {
  const auto config = [](const std::string& mode) {
    return Config({"env.evaluator_env_num=1", "env.n_evaluator_episode=1",
                   absl::StrCat("policy.eval.evaluator.params={"
                                "[type.googleapis.com/ding.InteractionEvaluatorParams]{render{"
                                "render_freq:50 mode:\"",
                                mode, "\"} figure_path:\"videos\" max_video_frames:3}}")},
                  "cartpole_dqn_parallel_fast");
  };
  ASSERT_THAT(FindParallelProblems(config("train_iter")), IsEmpty());
  const std::unique_ptr<Policy> policy = PolicyOf(config("train_iter"), 1);
  const auto evaluate = [&](const std::string& mode, int64_t train_iter, int64_t envstep) {
    FakeLink link;
    link.Publish(train_iter, ModelOf(*policy));
    CollectorTask task;
    task.set_eval_flag(true);
    task.set_envstep(envstep);
    EXPECT_THAT(RunTask(config(mode), task, &link), IsOk());
  };
  evaluate("train_iter", 10, 0);   // 11 iterations after -1
  evaluate("train_iter", 60, 0);   // due
  evaluate("train_iter", 90, 0);   // 30 iterations later
  evaluate("train_iter", 110, 0);  // due
  const std::string folder = JoinPath(deps_.exp_dir, "videos");
  EXPECT_THAT(ListDirectory(folder).value(),
              UnorderedElementsAre("evaluator_train_iter_60_best.gif",
                                   "evaluator_train_iter_110_best.gif"));

  ASSERT_THAT(RemoveRecursively(folder), IsOk());
  evaluate("envstep", 111, 1000);
  evaluate("envstep", 400, 1001);
  EXPECT_THAT(ListDirectory(folder).value(),
              UnorderedElementsAre("evaluator_envstep_1000_best.gif"));

  // A state that cannot be read is a warning, and the evaluation counts.
  ASSERT_THAT(RemoveRecursively(JoinPath(deps_.exp_dir, "evaluator")), IsOk());
  ASSERT_THAT(CreateDirectories(JoinPath(deps_.exp_dir, "evaluator")), IsOk());
  evaluate("envstep", 401, 1002);
  EXPECT_THAT(ListDirectory(folder).value(), SizeIs(2));
}

}  // namespace
}  // namespace ding
