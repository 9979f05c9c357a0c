// How runs in one process end: by a confirmed stop value, by stoppers and by hooks.
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr char kConfig[] = R"(
max_env_step: 2000
env { type: "CartPole-v0" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 learner { hook { save_ckpt_after_iter: 0 } } }
  collect { n_sample: 4 }
  eval { evaluator { eval_freq: 10 } }
}
resume { period_seconds: 0 period_rounds: 1000 })";

constexpr char kNoImprovement[] =
    "stopper=[{type:\"no_improvement\" params{[type.googleapis.com/ding.NoImprovementParams]{"
    "evaluations:3}}}]";

// Episodes of 10 steps. Those of one seed in 30 fail in their last step; the state that it saves
// makes them fail again.
class FailsAtSomeSeeds : public Env {
 public:
  explicit FailsAtSomeSeeds(EnvSpec spec) : spec_(std::move(spec)) {}

  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    seed_ = static_cast<int64_t>(start.seed % 30);
    steps_ = 0;
    obs.field<float>(0)[0] = 0;
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& /*action*/, const RowRef& obs, StepResult* result) override {
    obs.field<float>(0)[0] = static_cast<float>(++steps_);
    result->truncated = steps_ == 10;
    if (result->truncated && seed_ == 0) return absl::InternalError("a bad seed");
    return absl::OkStatus();
  }
  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("seed", seed_));
    return writer->WriteInt("steps", steps_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(seed_, reader->ReadInt("seed"));
    DING_ASSIGN_OR_RETURN(steps_, reader->ReadInt("steps"));
    return absl::OkStatus();
  }

 private:
  const EnvSpec spec_;
  int64_t seed_ = 0;
  int64_t steps_ = 0;
};

DING_REGISTER(
    EnvRegistry(), "fails_at_some_seeds",
    [](const EnvConfig&) -> absl::StatusOr<std::unique_ptr<Env>> {
      EnvSpec spec;
      spec.name = "fails_at_some_seeds";
      DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {1})}));
      DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
      return std::make_unique<FailsAtSomeSeeds>(std::move(spec));
    },
    "for the test");

// Episodes of 10 steps. From one to the next the return falls, and "success" rises.
class SucceedsLater : public Env {
 public:
  explicit SucceedsLater(EnvSpec spec) : spec_(std::move(spec)) {}

  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& /*start*/, const RowRef& obs) override {
    ++episodes_;
    steps_ = 0;
    obs.field<float>(0)[0] = 0;
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& /*action*/, const RowRef& obs, StepResult* result) override {
    obs.field<float>(0)[0] = static_cast<float>(++steps_);
    result->reward = -static_cast<float>(episodes_);
    result->truncated = steps_ == 10;
    if (result->truncated) result->info.Set("success", episodes_);
    return absl::OkStatus();
  }

 private:
  const EnvSpec spec_;
  int episodes_ = 0;
  int steps_ = 0;
};

DING_REGISTER(
    EnvRegistry(), "succeeds_later",
    [](const EnvConfig&) -> absl::StatusOr<std::unique_ptr<Env>> {
      EnvSpec spec;
      spec.name = "succeeds_later";
      DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {1})}));
      DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
      return std::make_unique<SucceedsLater>(std::move(spec));
    },
    "for the test");

class RunEndsTest : public testing::Test {
 protected:
  RunEndsTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/run_ends_XXXXXX");
    folder_ = mkdtemp(folder.data());
  }
  ~RunEndsTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string Path(absl::string_view name) const { return JoinPath(folder_, name); }
  std::string Checkpoint(absl::string_view run, absl::string_view name) const {
    return Path(absl::StrCat(run, "/ckpt/", name));
  }

  // Runs, or goes on with, the run in the folder `name`.
  absl::StatusOr<SerialResult> Run(
      const std::string& name, const std::vector<std::string>& settings,
      const std::function<bool()>& interrupted = [] { return false; }) {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                          ParseExperimentConfig(kConfig, "test", settings));
    SerialOptions options;
    options.exp_dir = Path(name);
    options.interrupted = interrupted;
    DING_RETURN_IF_ERROR(CreateDirectories(options.exp_dir));
    DING_ASSIGN_OR_RETURN(const std::optional<ResumePoint> point,
                          OpenNewestResumePoint(options.exp_dir));
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<SerialPipeline> pipeline,
                          SerialPipeline::Create(config, options));
    if (point.has_value()) DING_RETURN_IF_ERROR(pipeline->Resume(point->checkpoint));
    SerialResult result;
    DING_RETURN_IF_ERROR(pipeline->Run(&result));
    return result;
  }
  // What a component of a checkpoint holds.
  std::string Bytes(absl::string_view run, absl::string_view checkpoint,
                    absl::string_view component) const {
    return *ReadFile(
        JoinPath(Checkpoint(run, checkpoint), absl::StrCat(component, ".safetensors")));
  }
  void ExpectSame(const std::string& a, const std::string& b, const SerialResult& of_a,
                  const SerialResult& of_b) const {
    EXPECT_EQ(of_a.why, of_b.why);
    EXPECT_EQ(of_a.stop, of_b.stop);
    EXPECT_EQ(of_a.env_step, of_b.env_step);
    EXPECT_EQ(of_a.train_iter, of_b.train_iter);
    const std::string last = absl::StrCat("resume_", of_a.env_step);
    for (const char* component :
         {"model", "train_state", "run", "collector_env", "replay_buffer"}) {
      EXPECT_EQ(Bytes(a, last, component), Bytes(b, last, component)) << component;
    }
    EXPECT_EQ(Bytes(a, "ckpt_best", "model"), Bytes(b, "ckpt_best", "model"));
  }

  std::string folder_;
};

// A hook that calls a function.
class FunctionHook : public LearnerHook {
 public:
  using Function = std::function<void(LearnerView*)>;
  FunctionHook(const LearnerHookConfig& config, Function function)
      : LearnerHook(config.name(), config.priority(),
                    config.position() == LearnerHookConfig::AFTER_EVAL ? HookPosition::kAfterEval
                                                                       : HookPosition::kAfterIter),
        function_(std::move(function)) {}
  absl::Status Call(LearnerView* learner) override {
    function_(learner);
    return absl::OkStatus();
  }

 private:
  const Function function_;
};

ScopedRegistration<LearnerHookCreator> RegisterHook(const FunctionHook::Function& function) {
  return ScopedRegistration<LearnerHookCreator>(
      &LearnerHookRegistry(), "function", [function](const LearnerHookConfig& config) {
        return std::make_shared<FunctionHook>(config, function);
      });
}

std::string HookAt(absl::string_view position) {
  return absl::Substitute("policy.learn.learner.hook.hook=[{type:\"function\" position:$0}]",
                          position);
}

TEST_F(RunEndsTest, ABudget) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult steps, Run("a", {"max_env_step=100"}));
  EXPECT_EQ(steps.why, "max_env_step 100 was reached");
  EXPECT_FALSE(steps.stop);
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult iters, Run("b", {"max_train_iter=9"}));
  EXPECT_EQ(iters.why, "max_train_iter 9 was reached");
  EXPECT_EQ(iters.train_iter, 9);
}

TEST_F(RunEndsTest, ABudget_TheLastPolicyIsEvaluated) {
  std::vector<int64_t> evaluated;
  const auto registration = RegisterHook([&evaluated](LearnerView* learner) {
    evaluated.push_back(learner->run_signals()->evaluation()->train_iter);
  });
  const std::string hook = HookAt("AFTER_EVAL");
  for (const char* budget : {"max_env_step=100", "max_train_iter=24"}) {
    evaluated.clear();
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run(budget, {budget, hook}));
    EXPECT_THAT(evaluated, testing::ElementsAre(0, 10, 20, result.train_iter)) << budget;
    ASSERT_TRUE(result.best.has_value());
    EXPECT_EQ(result.best->checkpoint, "ckpt_best");
    DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader best,
                              CheckpointReader::Open(Checkpoint(budget, "ckpt_best")));
    EXPECT_EQ(best.info().fields.at("train_iter"), absl::StrCat(result.best->train_iter));
    // The run has ended: it is evaluated once more, with the same result.
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult again, Run(budget, {budget, hook}));
    EXPECT_EQ(again.eval_value_raw, result.eval_value_raw);
    EXPECT_EQ(again.best->train_iter, result.best->train_iter);
  }
}

TEST_F(RunEndsTest, ABudget_TheLastEvaluationMaySolveTheEnv) {
  DING_ASSERT_OK_AND_ASSIGN(
      const SerialResult result,
      Run("a", {"max_train_iter=9", "env.stop_value=1", "env.n_confirm_episode=4"}));
  EXPECT_EQ(result.train_iter, 9);
  EXPECT_TRUE(result.stop);
  EXPECT_THAT(result.why, StartsWith("env.stop_value 1 was reached"));
}

TEST_F(RunEndsTest, ALargerBudget_TheRunIsAsIfItHadHadItFromTheBeginning) {
  const std::string larger = "max_env_step=400";
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult whole, Run("whole", {larger}));
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult part, Run("part", {"max_env_step=180"}));
  EXPECT_EQ(part.env_step, 180);
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult resumed, Run("part", {larger}));
  EXPECT_EQ(resumed.eval_value_raw, whole.eval_value_raw);
  for (const char* component :
       {"model", "train_state", "collector_env", "evaluator", "evaluator_env", "replay_buffer"}) {
    EXPECT_EQ(Bytes("whole", "resume_400", component), Bytes("part", "resume_400", component))
        << component;
  }
}

TEST_F(RunEndsTest, ALargerBudget_TheRunKnowsTheBestPolicyOfItsLastEvaluation) {
  for (int seed = 0; seed < 20; ++seed) {
    const std::string of_seed = absl::StrCat("seed=", seed);
    const std::string run = absl::StrCat("run", seed);
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult part, Run(run, {"max_env_step=180", of_seed}));
    if (part.best->train_iter != part.train_iter) continue;
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult more, Run(run, {"max_env_step=184", of_seed}));
    EXPECT_GE(more.best->value, part.best->value);
    return;
  }
  FAIL() << "the last policy was never the best one";
}

TEST_F(RunEndsTest, AConfirmedStopValue) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run("a", {"env.stop_value=1"}));
  EXPECT_TRUE(result.stop);
  EXPECT_THAT(result.why,
              StartsWith("env.stop_value 1 was reached: the mean return of 2 episodes"));
  ASSERT_TRUE(result.confirmation.has_value());
  EXPECT_EQ(result.confirmation->episodes, 100);
  EXPECT_GT(result.confirmation->standard_error, 0);
  // The policy of the end is the best one.
  EXPECT_EQ(Bytes("a", "ckpt_best", "model"),
            Bytes("a", absl::StrCat("iteration_", result.train_iter), "model"));

  DING_ASSERT_OK_AND_ASSIGN(const SerialResult without,
                            Run("b", {"env.stop_value=1", "env.n_confirm_episode=0"}));
  EXPECT_TRUE(without.stop);
  EXPECT_FALSE(without.confirmation.has_value());
  EXPECT_EQ(without.env_step, result.env_step) << "confirmations do not count as env steps";
}

TEST_F(RunEndsTest, ALuckyEvaluationIsNotConfirmed) {
  for (int seed = 0; seed < 20; ++seed) {
    const std::string of_seed = absl::StrCat("seed=", seed);
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult lucky,
                              Run(absl::StrCat("a", seed), {"env.stop_value=1", of_seed}));
    const double bound = lucky.confirmation->lower_bound();
    if (*lucky.eval_value <= bound) continue;
    // The evaluation reaches this value, and the confirmation does not.
    const double value = (*lucky.eval_value + bound) / 2;
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult result,
                              Run(absl::StrCat("b", seed), {absl::StrCat("env.stop_value=", value),
                                                            of_seed, "max_env_step=200"}));
    EXPECT_GT(result.train_iter, lucky.train_iter);
    return;
  }
  FAIL() << "there was no lucky evaluation";
}

TEST_F(RunEndsTest, AnInterruptedConfirmationIsPlayedAgain) {
  const std::vector<std::string> settings = {"env.stop_value=1", "env.n_confirm_episode=20"};
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult whole, Run("whole", settings));
  ASSERT_TRUE(whole.stop);
  // There is a question per round, and then one per step of the confirmation.
  int asked = 0;
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult part,
                            Run("resumed", settings, [&] { return ++asked > 30; }));
  ASSERT_TRUE(part.interrupted);
  EXPECT_EQ(part.why, "it was interrupted");
  ASSERT_EQ(part.env_step, whole.env_step) << "it was not interrupted in the confirmation";
  EXPECT_FALSE(part.confirmation.has_value());
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult resumed, Run("resumed", settings));
  ExpectSame("whole", "resumed", whole, resumed);
}

TEST_F(RunEndsTest, AStopperAlsoAfterAnInterruption) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult whole, Run("whole", {kNoImprovement}));
  EXPECT_FALSE(whole.stop);
  EXPECT_FALSE(whole.interrupted);
  EXPECT_THAT(whole.why,
              StartsWith("stopper 'no_improvement': no evaluation of the last 3 was better than"));
  EXPECT_THAT(
      CheckpointReader::Open(Checkpoint("whole", absl::StrCat("iteration_", whole.train_iter))),
      IsOk());
  // Interrupts a second run while its stopper counts evaluations, and resumes it.
  const int64_t rounds = whole.env_step / 4;
  int64_t asked = 0;
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult part, Run("resumed", {kNoImprovement},
                                                         [&] { return ++asked > rounds - 15; }));
  ASSERT_TRUE(part.interrupted);
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult resumed, Run("resumed", {kNoImprovement}));
  ExpectSame("whole", "resumed", whole, resumed);
}

TEST_F(RunEndsTest, ARunThatAStopperHasEndedGoesOnWithoutIt) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult first, Run("a", {kNoImprovement}));
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult again, Run("a", {kNoImprovement}));
  EXPECT_EQ(again.env_step, first.env_step);
  EXPECT_EQ(again.why, first.why);
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult more, Run("a", {}));
  EXPECT_EQ(more.why, "max_env_step 2000 was reached");
}

TEST_F(RunEndsTest, AHookThatSeesEvaluations) {
  std::vector<Evaluation> seen;
  const auto registration = RegisterHook([&seen](LearnerView* learner) {
    seen.push_back(*learner->run_signals()->evaluation());
    if (seen.size() == 3) learner->run_signals()->RequestStop("three are enough");
  });
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run("a", {HookAt("AFTER_EVAL")}));
  EXPECT_EQ(result.why, "a hook: three are enough");
  EXPECT_FALSE(result.stop);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[2].train_iter, 20);
  EXPECT_EQ(seen[2].env_step, result.env_step);
  EXPECT_EQ(seen[2].mean_return, *result.eval_value);
  EXPECT_EQ(seen[2].episode_return, result.eval_value_raw);
}

TEST_F(RunEndsTest, AHookWithinARound) {
  const auto registration = RegisterHook([](LearnerView* learner) {
    if (learner->train_iter() == 7) learner->run_signals()->RequestStop("seven");
    if (learner->train_iter() >= 7) learner->run_signals()->RequestStop("a later one");
  });
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result,
                            Run("a", {HookAt("AFTER_ITER"), "policy.learn.update_per_collect=5"}));
  EXPECT_EQ(result.train_iter, 7);
  EXPECT_EQ(result.why, "a hook: seven");
}

TEST_F(RunEndsTest, ARunWhoseEnvFailed_GetsPastItAfterResumes) {
  int failures = 0;
  while (true) {
    const absl::StatusOr<SerialResult> result = Run(
        "fails", {"env.type=fails_at_some_seeds", "resume.period_rounds=50", "max_env_step=800"});
    if (result.ok()) break;
    ASSERT_THAT(result, StatusIs(absl::StatusCode::kInternal, HasSubstr("a bad seed")));
    ASSERT_LT(++failures, 60) << "it fails at the same step for ever";
  }
  EXPECT_GT(failures, 1);
}

TEST_F(RunEndsTest, BestBy_AValueOfTheInfoChoosesTheBestPolicy) {
  const std::string env = "env.type=succeeds_later";
  ASSERT_THAT(Run("by_return", {env, "max_env_step=400"}), IsOk());
  ASSERT_THAT(Run("by_success", {env, "max_env_step=400", "env.best_by=success"}), IsOk());
  EXPECT_NE(Bytes("by_return", "ckpt_best", "model"), Bytes("by_success", "ckpt_best", "model"))
      << "the first policy, and the last one";
  EXPECT_THAT(Run("by_nothing", {env, "env.best_by=succes"}),
              IsInvalid("env.best_by: no episode of the evaluation has 'succes' in its last info; "
                        "expected one of success"));
}

TEST_F(RunEndsTest, Evaluations_CarryTheInfoOfTheEnv) {
  std::vector<Evaluation> seen;
  const auto registration = RegisterHook(
      [&seen](LearnerView* learner) { seen.push_back(*learner->run_signals()->evaluation()); });
  DING_ASSERT_OK_AND_ASSIGN(
      const SerialResult result,
      Run("a",
          {"env.type=succeeds_later", HookAt("AFTER_EVAL"),
           "stopper=[{type:\"value_reached\" "
           "params{[type.googleapis.com/ding.ValueReachedParams]{value:3 info:\"success\"}}}]"}));
  EXPECT_THAT(result.why,
              StartsWith("stopper 'value_reached': the mean info/success of an evaluation is"));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen[0].info.at("success").count, 2);
  EXPECT_EQ(seen[0].info.at("success").mean, -seen[0].mean_return / 10);
}

TEST_F(RunEndsTest, RefusesAStopperThatCanNeverStop) {
  EXPECT_THAT(Run("a", {"stopper=[{type:\"value_reached\" "
                        "params{[type.googleapis.com/ding.ValueReachedParams]{value:201}}}]"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("stopper 'value_reached': value is 201, so that it could never "
                                 "stop: expected at most 200")));
  // 100 iterations with an evaluation every 10 are 12 evaluations at most.
  const std::string stopper =
      "stopper=[{type:\"no_improvement\" "
      "params{[type.googleapis.com/ding.NoImprovementParams]{evaluations:12}}}]";
  EXPECT_THAT(Run("a", {stopper, "max_train_iter=100"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("evaluations is 12, so that it could never stop: expected less "
                                 "than 12")));
  EXPECT_THAT(Run("a", {"env.n_confirm_episode=1"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("env.n_confirm_episode is 1, expected at least 2, or 0")));
}

// What MLflow shows of a run: the status in its meta.yaml, and its metrics.
class MlflowRunTest : public RunEndsTest {
 protected:
  absl::StatusOr<SerialResult> RunInMlflow(
      std::vector<std::string> settings,
      const std::function<bool()>& interrupted = [] { return false; }) {
    settings.push_back("metrics.sink=[{type:\"mlflow\"}]");
    settings.push_back("resume.period_rounds=10");
    return Run("run", settings, interrupted);
  }
  // The folder of the only run.
  std::string MlflowFolder() const {
    std::string folder = Path("mlruns");
    for (int level = 0; level < 2; ++level) {
      // The name of an id comes before "meta.yaml".
      const std::vector<std::string> names = ListDirectory(folder).value();
      folder = JoinPath(folder, names.at(0));
    }
    return folder;
  }
  std::string Meta() const { return *ReadFile(JoinPath(MlflowFolder(), "meta.yaml")); }
};

TEST_F(MlflowRunTest, ARunIsRunningUntilItEnds) {
  std::vector<std::string> seen;
  const auto hook = RegisterHook([&](LearnerView*) {
    EXPECT_THAT(Meta(), HasSubstr("\nstatus: 1\n"));
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(JoinPath(MlflowFolder(), "metrics"))) {
      if (!file.is_regular_file()) continue;
      seen.push_back(file.path().filename());
      EXPECT_GT(file.file_size(), 0u) << file.path();
    }
  });
  ASSERT_THAT(RunInMlflow({"max_env_step=200", HookAt("AFTER_EVAL")}), IsOk());
  EXPECT_THAT(seen, testing::Contains("reward_mean")) << "an evaluation flushes the metrics";
  EXPECT_THAT(Meta(), HasSubstr("\nstatus: 3\n"));
}

TEST_F(MlflowRunTest, AnInterruptedRunIsKilledAndARunThatIsResumedFinishes) {
  int asked = 0;
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult first,
                            RunInMlflow({"max_env_step=200"}, [&] { return ++asked > 20; }));
  EXPECT_TRUE(first.interrupted);
  EXPECT_THAT(Meta(), HasSubstr("\nstatus: 5\n"));
  ASSERT_THAT(RunInMlflow({"max_env_step=200"}), IsOk());
  EXPECT_THAT(Meta(), HasSubstr("\nstatus: 3\n"));
}

TEST_F(MlflowRunTest, ARunThatCannotBeginIsFailed) {
  const ScopedRegistration<EnvCreator> broken(
      &EnvRegistry(), "Broken-v0", [](const EnvConfig&) -> absl::StatusOr<std::unique_ptr<Env>> {
        return absl::UnavailableError("its simulator is missing");
      });
  EXPECT_THAT(RunInMlflow({"env.type=Broken-v0"}).status().message(), HasSubstr("simulator"));
  EXPECT_THAT(Meta(), HasSubstr("\nstatus: 4\n"));
}

TEST_F(MlflowRunTest, ARunWhoseFirstHookFailsIsFailed) {
  EXPECT_FALSE(RunInMlflow({"policy.learn.learner.hook.load_ckpt_before_run=/no/checkpoint"}).ok());
  EXPECT_THAT(Meta(), HasSubstr("\nstatus: 4\n"));
}

}  // namespace
}  // namespace ding
