#include "ding_worker/worker/pipeline/serial_pipeline.h"

#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// Accepts an error with any code whose message `matcher` accepts.
MATCHER_P(FailsWith, matcher, "") {
  *result_listener << arg;
  return !arg.ok() && testing::Matches(matcher)(std::string(arg.message()));
}

// A small DQN run: 2 envs, 4 rows and one update a round, evaluations every 10 iterations.
constexpr char kConfig[] = R"(
exp_name: "test"
max_env_step: 200
env { type: "CartPole-v0" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 learner { hook { save_ckpt_after_iter: 10 } } }
  collect { n_sample: 4 collector { collect_print_freq: 10 } }
  eval { evaluator { eval_freq: 10 } }
})";

class SerialPipelineTest : public testing::Test {
 protected:
  SerialPipelineTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/pipeline_XXXXXX");
    folder_ = mkdtemp(folder.data());
    options_.exp_dir = folder_;
    options_.metrics = sink_;
  }
  ~SerialPipelineTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(
      const std::vector<std::string>& settings = {}) {
    const absl::StatusOr<ExperimentConfig> config =
        ParseExperimentConfig(kConfig, "test", settings);
    EXPECT_THAT(config, IsOk());
    return SerialPipeline::Create(*config, options_);
  }
  // Creates a pipeline and runs it.
  absl::Status Run(const std::vector<std::string>& settings, SerialResult* result) {
    absl::StatusOr<std::unique_ptr<SerialPipeline>> pipeline = Create(settings);
    if (!pipeline.ok()) return pipeline.status();
    return (*pipeline)->Run(result);
  }
  std::string Checkpoint(absl::string_view name) const {
    return JoinPath(folder_, absl::StrCat("ckpt/", name));
  }

  // The train iterations of a checkpoint; -1 if there is none.
  int64_t SavedIteration(absl::string_view name) const {
    const absl::StatusOr<CheckpointReader> checkpoint = CheckpointReader::Open(Checkpoint(name));
    if (!checkpoint.ok()) return -1;
    return std::stoll(checkpoint->info().fields.at("train_iter"));
  }

  std::string folder_;
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  SerialOptions options_;
};

// Registers the env "Scripted" for the duration of a test.
class ScriptedEnvs {
 public:
  ScriptedEnvs()
      : registration_(&EnvRegistry(), "Scripted", [script = script_](const EnvConfig&) {
          return ScriptedEnvFactory(script)();
        }) {}
  ScriptedEnvScript* operator->() { return script_.get(); }

 private:
  std::shared_ptr<ScriptedEnvScript> script_ = std::make_shared<ScriptedEnvScript>();
  ScopedRegistration<EnvCreator> registration_;
};

TEST_F(SerialPipelineTest, RunsUntilItsBudgetIsSpent) {
  SerialResult result;
  ASSERT_THAT(Run({}, &result), IsOk());
  EXPECT_FALSE(result.stop);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.env_step, 200);
  // There are 50 rounds of 4 rows; after the first one there are fewer rows than a batch of 8.
  EXPECT_EQ(result.train_iter, 49);
  ASSERT_TRUE(result.eval_value.has_value());
  EXPECT_THAT(result.eval_value_raw, SizeIs(2));
  for (const char* name : {"iteration_10", "iteration_40", "iteration_49", "ckpt_best"}) {
    EXPECT_THAT(CheckpointReader::Open(Checkpoint(name)), IsOk()) << name;
  }
  EXPECT_THAT(sink_->ScalarTags(), AllOf(Contains("collector_step/reward_mean"),
                                         Contains("evaluator_step/reward_mean")));
}

TEST_F(SerialPipelineTest, StopsWithinARoundAtTheLastIteration) {
  SerialResult result;
  ASSERT_THAT(Run({"max_train_iter=7", "policy.learn.update_per_collect=5"}, &result), IsOk());
  EXPECT_EQ(result.train_iter, 7);
}

TEST_F(SerialPipelineTest, StopsWhenTheStopValueIsReached) {
  SerialResult result;
  ASSERT_THAT(Run({"env.stop_value=1"}, &result), IsOk());
  EXPECT_TRUE(result.stop);
  // The run does not stop before training has begun.
  EXPECT_EQ(result.train_iter, 10);
}

TEST_F(SerialPipelineTest, CollectsAtRandomFirst) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SerialPipeline> pipeline,
                            Create({"policy.random_collect_size=50", "max_env_step=60"}));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_EQ(pipeline->buffer()->count(), 62);  // 50 random rows, and three rounds of 4
  EXPECT_EQ(result.train_iter, 3);
}

TEST_F(SerialPipelineTest, AnInterruptSavesACheckpoint) {
  int asked = 0;
  options_.interrupted = [&asked] { return ++asked == 20; };
  SerialResult result;
  ASSERT_THAT(Run({}, &result), IsOk());
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.env_step, 19 * 4);
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader checkpoint,
                            CheckpointReader::Open(Checkpoint("ckpt_interrupt")));
  EXPECT_EQ(checkpoint.info().fields.at("train_iter"), absl::StrCat(result.train_iter));
}

TEST_F(SerialPipelineTest, GoesOnFromACheckpoint) {
  SerialResult first;
  ASSERT_THAT(Run({"max_env_step=100"}, &first), IsOk());
  SerialResult second;
  ASSERT_THAT(Run({absl::StrCat("policy.learn.learner.hook.load_ckpt_before_run=",
                                Checkpoint(absl::StrCat("iteration_", first.train_iter))),
                   "policy.learn.resume_training=true"},
                  &second),
              IsOk());
  EXPECT_EQ(second.env_step, 200);
  EXPECT_EQ(second.train_iter, first.train_iter + 24);
}

TEST_F(SerialPipelineTest, ACheckpointOfAnotherModelIsRefused) {
  SerialResult result;
  ASSERT_THAT(Run({}, &result), IsOk());
  EXPECT_THAT(Run({absl::StrCat("policy.learn.learner.hook.load_ckpt_before_run=",
                                Checkpoint("iteration_49")),
                   "policy.params.model.encoder_hidden_size=[9]"},
                  &result),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("hook 'load_ckpt_before_run'"),
                             HasSubstr("iteration_49 of a policy 'dqn'"), HasSubstr("encoder"))));
}

TEST_F(SerialPipelineTest, BadNumbersOfAnEnvEndTheRunAndLeaveTheCheckpoints) {
  ScriptedEnvs envs;
  envs->on_step[100] = EnvFault::kNanObservation;
  SerialResult result;
  EXPECT_THAT(Run({"env.type=Scripted"}, &result),
              FailsWith(AllOf(HasSubstr("env "), HasSubstr("nan"))));
  EXPECT_THAT(CheckpointReader::Open(Checkpoint("ckpt_best")), IsOk());
  EXPECT_THAT(CheckpointReader::Open(Checkpoint("iteration_10")), IsOk());
  EXPECT_EQ(SavedIteration("ckpt_exception"), result.train_iter);
}

// Fails at a train iteration, or at the end of the run.
class FailingHook : public LearnerHook {
 public:
  FailingHook(const LearnerHookConfig& config, HookPosition position)
      : LearnerHook(config.name(), config.priority(), position) {}

  absl::Status Call(LearnerView* learner) override {
    const bool too_early = position() == HookPosition::kAfterIter && learner->train_iter() < 13;
    if (too_early) return absl::OkStatus();
    throw std::runtime_error("scripted hook");
  }
};

TEST_F(SerialPipelineTest, AHookThatFailsLeavesACheckpointFromWhichARunGoesOn) {
  ScopedRegistration<LearnerHookCreator> hook(
      &LearnerHookRegistry(), "failing", [](const LearnerHookConfig& config) {
        return std::make_shared<FailingHook>(config, HookPosition::kAfterIter);
      });
  SerialResult first;
  EXPECT_THAT(Run({"policy.learn.learner.hook.hook={type: 'failing'}"}, &first),
              FailsWith(AllOf(HasSubstr("hook 'failing' (after_iter) at iteration 13"),
                              HasSubstr("scripted hook"))));
  EXPECT_EQ(first.train_iter, 13);
  EXPECT_EQ(SavedIteration("ckpt_exception"), 13);
  SerialResult second;
  EXPECT_THAT(Run({absl::StrCat("policy.learn.learner.hook.load_ckpt_before_run=",
                                Checkpoint("ckpt_exception")),
                   "max_train_iter=20"},
                  &second),
              IsOk());
  EXPECT_EQ(second.train_iter, 20);
}

TEST_F(SerialPipelineTest, AHookThatFailsAtTheEndLeavesACheckpoint) {
  ScopedRegistration<LearnerHookCreator> hook(
      &LearnerHookRegistry(), "failing", [](const LearnerHookConfig& config) {
        return std::make_shared<FailingHook>(config, HookPosition::kAfterRun);
      });
  SerialResult result;
  EXPECT_THAT(
      Run({"policy.learn.learner.hook.hook={type: 'failing'}"}, &result),
      FailsWith(AllOf(HasSubstr("hook 'failing' (after_run)"), HasSubstr("scripted hook"))));
  EXPECT_EQ(SavedIteration("ckpt_exception"), 49);
}

// A DQN policy whose learn mode throws at an iteration, and whose model cannot be saved if it is so
// told.
class FailingPolicy : public Policy, private LearnMode {
 public:
  FailingPolicy(std::unique_ptr<Policy> policy, int64_t fails_at, bool can_save)
      : policy_(std::move(policy)), fails_at_(fails_at), can_save_(can_save) {}

  CollectMode* collect_mode() override { return policy_->collect_mode(); }
  LearnMode* learn_mode() override { return this; }
  EvalMode* eval_mode() override { return policy_->eval_mode(); }
  CommandMode* command_mode() override { return policy_->command_mode(); }

 private:
  LearnAttributes attributes() const override { return learn().attributes(); }
  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    if (++iteration_ == fails_at_) throw std::runtime_error("scripted policy");
    return learn().Forward(data, settings, steps);
  }
  std::vector<std::string> monitor_vars() const override { return learn().monitor_vars(); }
  std::string info() const override { return learn().info(); }
  absl::Status SaveModel(StateWriter* writer) const override {
    if (!can_save_ && iteration_ >= fails_at_) throw std::runtime_error("scripted model");
    return learn().SaveModel(writer);
  }
  absl::Status LoadModel(StateReader* reader) override { return learn().LoadModel(reader); }
  absl::Status SaveTrainState(StateWriter* writer) const override {
    return learn().SaveTrainState(writer);
  }
  absl::Status LoadTrainState(StateReader* reader) override {
    return learn().LoadTrainState(reader);
  }
  LearnMode& learn() const { return *policy_->learn_mode(); }

  const std::unique_ptr<Policy> policy_;
  const int64_t fails_at_;
  const bool can_save_;
  int64_t iteration_ = 0;
};

TEST_F(SerialPipelineTest, TheErrorOfTheRunIsReportedWhetherOrNotThePolicyCanBeSaved) {
  for (const bool can_save : {true, false}) {
    SCOPED_TRACE(can_save);
    ScopedRegistration<PolicyCreator> policy(
        &PolicyRegistry(), "failing",
        [can_save](PolicyConfig config,
                   const PolicyContext& context) -> absl::StatusOr<std::unique_ptr<Policy>> {
          config.set_type("dqn");
          absl::StatusOr<std::unique_ptr<Policy>> dqn = create_policy(config, context);
          if (!dqn.ok()) return dqn;
          return std::make_unique<FailingPolicy>(*std::move(dqn), 7, can_save);
        });
    SerialResult result;
    EXPECT_THAT(Run({"policy.type=failing"}, &result),
                FailsWith(AllOf(HasSubstr("train iteration 7"), HasSubstr("scripted policy"))));
    EXPECT_EQ(SavedIteration("ckpt_exception"), can_save ? 6 : -1);
    ASSERT_THAT(RemoveRecursively(Checkpoint("")), IsOk());
  }
}

TEST_F(SerialPipelineTest, TheErrorOfTheRunIsReportedIfNoCheckpointCanBeWritten) {
  ASSERT_THAT(WriteFileAtomically(JoinPath(folder_, "ckpt"), "in the way"), IsOk());
  ScriptedEnvs envs;
  envs->on_every_step = EnvFault::kThrow;
  SerialResult result;
  EXPECT_THAT(Run({"env.type=Scripted", "env.manager.retry_waiting_time=0"}, &result),
              FailsWith(AllOf(HasSubstr("scripted exception"), Not(HasSubstr("ckpt")))));
}

TEST_F(SerialPipelineTest, AnEnvThatThrowsIsNamed) {
  ScriptedEnvs envs;
  envs->on_every_step = EnvFault::kThrow;
  SerialResult result;
  EXPECT_THAT(Run({"env.type=Scripted", "env.manager.retry_waiting_time=0"}, &result),
              FailsWith(AllOf(HasSubstr("env 0"), HasSubstr("scripted exception"))));
}

TEST_F(SerialPipelineTest, AnEnvThatCannotBeResetIsNamed) {
  ScriptedEnvs envs;
  envs->on_every_reset = EnvFault::kError;
  SerialResult result;
  EXPECT_THAT(
      Run({"env.type=Scripted", "env.manager.retry_waiting_time=0", "env.manager.max_retry=3"},
          &result),
      FailsWith(AllOf(HasSubstr("env 0"), HasSubstr("scripted error"))));
}

// Trains on each batch twice; throws instead if there are as many iterations as `throw_at`.
class TwiceLearner : public BaseLearner {
 public:
  TwiceLearner(Parts parts, int64_t throw_at)
      : BaseLearner(std::move(parts)), throw_at_(throw_at) {}

  absl::Status Train(const Batch& data, int64_t envstep, const NamedValues& settings) override {
    if (train_iter() == throw_at_) throw std::runtime_error("out of ideas");
    DING_RETURN_IF_ERROR(BaseLearner::Train(data, envstep, settings));
    return BaseLearner::Train(data, envstep, settings);
  }

 private:
  const int64_t throw_at_;
};

LearnerCreator TwiceLearnerCreator(int64_t throw_at) {
  return [throw_at](const LearnerConfig& config, LearnMode* policy, const ComponentDeps& deps,
                    ProcessGroup* group) -> absl::StatusOr<std::unique_ptr<ILearner>> {
    DING_ASSIGN_OR_RETURN(BaseLearner::Parts parts,
                          ReadBaseLearnerParts(config, policy, deps, group));
    return std::make_unique<TwiceLearner>(std::move(parts), throw_at);
  };
}

TEST_F(SerialPipelineTest, ALearnerOfOnesOwnTrains) {
  const ScopedRegistration<LearnerCreator> twice(&LearnerRegistry(), "twice",
                                                 TwiceLearnerCreator(/*throw_at=*/-1));
  SerialResult result;
  ASSERT_THAT(Run({"policy.learn.learner.type=twice"}, &result), IsOk());
  EXPECT_EQ(result.train_iter, 2 * 49);
  EXPECT_THAT(CheckpointReader::Open(Checkpoint("iteration_98")), IsOk());
}

TEST_F(SerialPipelineTest, ALearnerThatThrowsEndsTheRun) {
  const ScopedRegistration<LearnerCreator> twice(&LearnerRegistry(), "twice",
                                                 TwiceLearnerCreator(/*throw_at=*/12));
  SerialResult result;
  EXPECT_THAT(Run({"policy.learn.learner.type=twice"}, &result),
              FailsWith(HasSubstr("the learner threw an exception: out of ideas")));
  EXPECT_EQ(result.train_iter, 12);
}

TEST_F(SerialPipelineTest, ModulesReportTheirProblemsTogether) {
  EXPECT_THAT(Create({"env.manager.step_timeout=3"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("collector envs: "), HasSubstr("evaluator envs: "),
                             HasSubstr("step_timeout"))));
  EXPECT_THAT(Create({"env.type=Pendulum-v1"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy: "), HasSubstr("action"))));
}

TEST_F(SerialPipelineTest, AlternativesWithoutADefaultStayUnsetInTheResolvedConfig) {
  EXPECT_THAT(Create({"policy.params.target_update_theta=0.01"}), IsOk());
}

TEST_F(SerialPipelineTest, ACheckpointThatCannotBeWrittenEndsTheRun) {
  ASSERT_THAT(WriteFileAtomically(JoinPath(folder_, "ckpt"), "in the way"), IsOk());
  SerialResult result;
  EXPECT_THAT(Run({}, &result), FailsWith(HasSubstr("ckpt")));
}

TEST_F(SerialPipelineTest, ACheckpointAloneStartsAnEvaluation) {
  SerialResult result;
  ASSERT_THAT(Run({}, &result), IsOk());
  EvaluationOptions options;
  options.checkpoint = Checkpoint("ckpt_best");
  options.n_episode = 5;
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult eval, EvaluateCheckpoint(options));
  EXPECT_THAT(eval.episode_return, SizeIs(5));
  options.n_episode = 0;
  EXPECT_THAT(EvaluateCheckpoint(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("n_episode is 0")));
  options.n_episode = 5;
  options.checkpoint = folder_;  // of the run: its ckpt_best
  EXPECT_THAT(EvaluateCheckpoint(options), IsOk());
  options.checkpoint = JoinPath(folder_, "none");
  EXPECT_THAT(EvaluateCheckpoint(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(options.checkpoint)));
}

TEST_F(SerialPipelineTest, AnEvaluationCanBeRecorded) {
  SerialResult result;
  ASSERT_THAT(Run({}, &result), IsOk());
  EvaluationOptions options;
  options.checkpoint = Checkpoint("ckpt_best");
  options.n_episode = 2;  // one per env: the same episodes, no matter how they are played
  options.seed = 3;
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult played, EvaluateCheckpoint(options));
  options.record_episodes = JoinPath(folder_, "episodes");
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult recorded, EvaluateCheckpoint(options));
  EXPECT_THAT(recorded.episode_return, testing::UnorderedElementsAreArray(played.episode_return));
  EXPECT_DOUBLE_EQ(recorded.mean_return, played.mean_return);
  DING_ASSERT_OK_AND_ASSIGN(const EpisodeSet set, ReadEpisodes(options.record_episodes));
  EXPECT_EQ(set.env, "CartPole-v0");
  EXPECT_EQ(*EpisodeReturns(set.episodes), recorded.episode_return);
  EXPECT_TRUE(set.episodes.rows.spec().Find("obs").has_value());
  EXPECT_TRUE(set.episodes.rows.spec().Find("action").has_value());
  options.n_episode = 7;  // more episodes than envs
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult more, EvaluateCheckpoint(options));
  EXPECT_THAT(more.episode_return, SizeIs(7));
  EXPECT_THAT(ReadEpisodes(options.record_episodes)->episodes.segments, SizeIs(7));
  options.record_episodes = JoinPath(folder_, "no/such/folder");
  EXPECT_THAT(EvaluateCheckpoint(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no/such/folder")));
}

// A small PPO run: 2 envs, rounds of 16 rows and of 2 epochs x 2 minibatches.
constexpr char kOnPolicyConfig[] = R"(
exp_name: "test"
max_env_step: 160
env { type: "CartPole-v0" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "ppo"
  params {
    [type.googleapis.com/ding.PpoConfig] {
      actor_critic {
        model { encoder_hidden_size: [8] }
        learning_rate: 0.01
        lr_decay_env_steps: 320
        normalize_obs: true
      }
      epoch_per_collect: 2
    }
  }
  learn { batch_size: 8 learner { hook { log_show_after_iter: 1 } } }
  collect { n_sample: 16 collector { collect_print_freq: 1 } }
  eval { evaluator { eval_freq: 10 } }
})";

class OnPolicyPipelineTest : public SerialPipelineTest {
 protected:
  absl::StatusOr<std::unique_ptr<SerialPipeline>> CreateOnPolicy(
      const std::vector<std::string>& settings = {}) {
    const absl::StatusOr<ExperimentConfig> config =
        ParseExperimentConfig(kOnPolicyConfig, "test", settings);
    EXPECT_THAT(config, IsOk());
    return SerialPipeline::Create(*config, options_);
  }
};

TEST_F(OnPolicyPipelineTest, LearnsOnceFromAllThatWasCollected) {
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, CreateOnPolicy());
  EXPECT_EQ(pipeline->buffer(), nullptr);
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_EQ(result.env_step, 160);
  EXPECT_EQ(result.train_iter, 40) << "10 rounds, each of 2 epochs x 2 minibatches";
  EXPECT_TRUE(result.eval_value.has_value());
}

TEST_F(OnPolicyPipelineTest, TheLearningRateFollowsTheEnvSteps) {
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, CreateOnPolicy());
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  const std::vector<double> rates = sink_->ValuesOf("learner_step/cur_lr_avg");
  ASSERT_FALSE(rates.empty());
  EXPECT_LT(rates.back(), rates.front());
  EXPECT_NEAR(rates.front(), 0.01 * (1 - 16.0 / 320), 1e-9) << "after the first collect";
}

// The policy of this run never changes; an evaluation has 6 episodes in 2 envs.
TEST_F(OnPolicyPipelineTest, EveryEvaluationHasTheSameDifferentEpisodes) {
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline,
                            CreateOnPolicy({"env.type=Pendulum-v1", "env.n_evaluator_episode=6",
                                            "policy.params.actor_critic.learning_rate=0",
                                            "policy.params.actor_critic.normalize_obs=false"}));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  const std::set<double> different(result.eval_value_raw.begin(), result.eval_value_raw.end());
  EXPECT_THAT(different, SizeIs(6));
  const std::vector<double> means = sink_->ValuesOf("evaluator_step/reward_mean");
  ASSERT_THAT(means, SizeIs(testing::Ge(3u)));
  EXPECT_THAT(means, testing::Each(means[0]));
}

TEST_F(OnPolicyPipelineTest, SettingsOfABufferAreRefusedTogether) {
  EXPECT_THAT(CreateOnPolicy({"policy.random_collect_size=5", "policy.learn.update_per_collect=3"})
                  .status(),
              FailsWith(AllOf(HasSubstr("policy.random_collect_size is 5, which has no effect in a "
                                        "run whose policy is on-policy"),
                              HasSubstr("policy.learn.update_per_collect is 3"),
                              Not(HasSubstr("fields of parallel runs")))));
  EXPECT_THAT(CreateOnPolicy({"policy.nstep=3", "policy.priority=true"}).status(),
              FailsWith(AllOf(HasSubstr("nstep is 3"), HasSubstr("priority is set"))));
}

TEST_F(OnPolicyPipelineTest, SeveralLearnersNeedAParallelRun) {
  const auto is_refused = FailsWith(AllOf(
      HasSubstr("policy.learn.learner_num is 2, which has no effect in a "),
      HasSubstr("leave it out; there is one learner; several learn together in a parallel run "
                "(tools/train --parallel)")));
  const char* const setting = "policy.learn.learner_num=2";
  EXPECT_THAT(Create({setting}).status(), is_refused);
  EXPECT_THAT(CreateOnPolicy({setting}).status(), is_refused);
  EXPECT_THAT(Create({setting}).status(), FailsWith(AllOf(HasSubstr("(policy.learn.learner_num)"),
                                                          Not(HasSubstr("log_reduce")))));
  EXPECT_THAT(Create({"policy.learn.learner_num=1"}), IsOk());
}

TEST_F(SerialPipelineTest, ARunMayCollectByEpisodes) {
  const std::vector<std::string> settings = {"policy.collect.collector.type=episode",
                                             "policy.collect.n_episode=2",
                                             "policy.random_collect_size=3", "max_env_step=400"};
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SerialPipeline> pipeline, Create(settings));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_GE(result.env_step, 400);
  EXPECT_EQ((pipeline->collector()->total_episode_count() - 3) % 2, 0)
      << "3 at random, then 2 each";
  EXPECT_EQ(pipeline->buffer()->count(), result.env_step);
}

TEST_F(OnPolicyPipelineTest, EpisodesNeedAdvantages) {
  const std::vector<std::string> by_episodes = {"policy.collect.collector.type=episode",
                                                "policy.collect.n_episode=2"};
  EXPECT_THAT(CreateOnPolicy(by_episodes).status(),
              FailsWith(HasSubstr("policy.collect.collector.params.get_train_sample is false, but "
                                  "'ppo' is on-policy")));
  std::vector<std::string> with_advantages = by_episodes;
  with_advantages.push_back(
      "policy.collect.collector.params="
      "{[type.googleapis.com/ding.EpisodeCollectorParams] {get_train_sample: true}}");
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, CreateOnPolicy(with_advantages));
  SerialResult result;
  EXPECT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_GT(result.train_iter, 0);
}

// Settings for self-play: a game for two players replaces the env.
const std::vector<std::string>& SelfPlay() {
  static const auto* const settings =
      new std::vector<std::string>{"env.type=TicTacToe", "policy.collect.collector.type=sample_1v1",
                                   "policy.eval.evaluator.type=battle_interaction"};
  return *settings;
}

std::vector<std::string> SelfPlayAnd(const std::vector<std::string>& more) {
  std::vector<std::string> settings = SelfPlay();
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

TEST_F(OnPolicyPipelineTest, OnePolicyPlaysAgainstItself) {
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, CreateOnPolicy(SelfPlay()));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_EQ(result.env_step, 160);
  EXPECT_GE(result.train_iter, 20);
  ASSERT_TRUE(result.eval_value.has_value());
  EXPECT_THAT(result.eval_value_raw, testing::Each(testing::AnyOf(-1, 0, 1)));
  EXPECT_THAT(sink_->ScalarTags(), AllOf(Contains("collector_step/reward0_mean"),
                                         Contains("collector_step/reward1_mean"),
                                         Contains("evaluator_step/reward1_mean")));
}

TEST_F(OnPolicyPipelineTest, SelfPlayByEpisodesAndWithAnotherEnvToEvaluate) {
  DING_ASSERT_OK_AND_ASSIGN(
      const auto pipeline,
      CreateOnPolicy({"env.type=TicTacToe", "policy.collect.collector.type=episode_1v1",
                      "policy.collect.n_episode=4", "env.evaluator_type=TicTacToe-vs-perfect"}));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_EQ(pipeline->collector()->total_episode_count() % 4, 0);
  EXPECT_LE(*result.eval_value, 0) << "nobody wins against a perfect player";
}

TEST_F(SerialPipelineTest, SelfPlayFillsAReplayBuffer) {
  DING_ASSERT_OK_AND_ASSIGN(
      const auto pipeline,
      Create(SelfPlayAnd({"policy.random_collect_size=30", "policy.nstep=2"})));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_GT(result.train_iter, 10);
  // In each step one of the two players moves; a few forced moves, and rows that are held back, are
  // missing.
  EXPECT_GT(pipeline->buffer()->count(), result.env_step * 3 / 4);
  EXPECT_LT(pipeline->buffer()->count(), result.env_step + 1);
}

TEST_F(OnPolicyPipelineTest, SelfPlayIsTheSameForTheSameSeed) {
  std::vector<std::string> models;
  for (const char* seed : {"seed=3", "seed=3", "seed=4"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, CreateOnPolicy(SelfPlayAnd({seed})));
    SerialResult result;
    ASSERT_THAT(pipeline->Run(&result), IsOk());
    models.push_back(*ReadFile(
        JoinPath(Checkpoint(absl::StrCat("iteration_", result.train_iter)), "model.safetensors")));
    ASSERT_THAT(RemoveRecursively(Checkpoint("")), IsOk());
  }
  EXPECT_EQ(models[0], models[1]);
  EXPECT_NE(models[0], models[2]);
}

TEST_F(OnPolicyPipelineTest, ACheckpointPlaysAndIsPlayedAgainst) {
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, CreateOnPolicy(SelfPlay()));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EvaluationOptions options;
  options.checkpoint = Checkpoint("ckpt_best");
  options.n_episode = 5;
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult eval, EvaluateCheckpoint(options));
  EXPECT_THAT(eval.episode_return, SizeIs(5));

  const std::string opponent =
      absl::StrCat("policy.eval.opponent_checkpoint=", Checkpoint("ckpt_best"));
  DING_ASSERT_OK_AND_ASSIGN(const auto against, CreateOnPolicy(SelfPlayAnd({opponent})));
  EXPECT_THAT(against->Run(&result), IsOk());
  EXPECT_THAT(CreateOnPolicy({opponent}).status(),
              FailsWith(HasSubstr("policy.eval.opponent_checkpoint is set, but env 'CartPole-v0', "
                                  "which evaluates, has 1 player")));
  EXPECT_THAT(
      CreateOnPolicy(SelfPlayAnd({"policy.eval.opponent_checkpoint=/no/such/run"})).status(),
      FailsWith(AllOf(HasSubstr("policy.eval.opponent_checkpoint"), HasSubstr("/no/such/run"))));
  // This checkpoint is of another game.
  EXPECT_THAT(CreateOnPolicy(SelfPlayAnd({opponent, "env.type=ConnectFour"})).status(),
              FailsWith(AllOf(HasSubstr("policy.eval.opponent_checkpoint"), HasSubstr("encoder"))));
}

TEST_F(OnPolicyPipelineTest, CollectorsAndEvaluatorsOfTheWrongNumberOfPlayersAreRefusedTogether) {
  EXPECT_THAT(
      CreateOnPolicy({"env.type=TicTacToe"}).status(),
      FailsWith(AllOf(HasSubstr("policy.collect.collector.type is 'sample', which is for envs for "
                                "one, but env 'TicTacToe' has 2 players; expected one of: "
                                "episode_1v1, sample_1v1"),
                      HasSubstr("policy.eval.evaluator.type is 'interaction', which is for envs "
                                "for one, but env 'TicTacToe' has 2 players; expected one of: "
                                "battle_interaction, or an env for one as env.evaluator_type"))));
  EXPECT_THAT(
      CreateOnPolicy(SelfPlayAnd({"env.type=CartPole-v0"})).status(),
      FailsWith(AllOf(HasSubstr("'sample_1v1', which is for games, but env 'CartPole-v0' has 1 "
                                "player; expected one of: episode, sample"),
                      HasSubstr("'battle_interaction', which is for games"))));
}

TEST_F(OnPolicyPipelineTest, AnEnvThatEvaluatesMustShowItsPlayerTheSame) {
  EXPECT_THAT(CreateOnPolicy(SelfPlayAnd({"env.evaluator_type=ConnectFour"})).status(),
              FailsWith(AllOf(HasSubstr("env 'ConnectFour', which evaluates, beside 'TicTacToe', "
                                        "which collects: observation"),
                              HasSubstr("obs/board"), HasSubstr("float32[3, 3, 3]"))));
  EXPECT_THAT(CreateOnPolicy({"env.evaluator_type=Acrobot-v1"}).status(),
              FailsWith(AllOf(HasSubstr("which evaluates"), HasSubstr("observation"))));
}

}  // namespace
}  // namespace ding
