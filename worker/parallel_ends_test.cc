// How parallel runs end: by a confirmed stop value, by stoppers, and by hooks of the learner. Their
// workers are threads of this process.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/best_checkpoints.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Episodes of 10 steps with the return 10, of which every one is a success.
class Succeeds : public Env {
 public:
  explicit Succeeds(EnvSpec spec) : spec_(std::move(spec)) {}

  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& /*start*/, const RowRef& obs) override {
    steps_ = 0;
    obs.field<float>(0)[0] = 0;
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& /*action*/, const RowRef& obs, StepResult* result) override {
    obs.field<float>(0)[0] = static_cast<float>(++steps_);
    result->reward = 1;
    result->truncated = steps_ == 10;
    if (result->truncated) result->info.Set("success", 1);
    return absl::OkStatus();
  }

 private:
  const EnvSpec spec_;
  int steps_ = 0;
};

DING_REGISTER(
    EnvRegistry(), "succeeds",
    [](const EnvConfig&) -> absl::StatusOr<std::unique_ptr<Env>> {
      EnvSpec spec;
      spec.name = "succeeds";
      DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {1})}));
      DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
      return std::make_unique<Succeeds>(std::move(spec));
    },
    "for the test");

class ParallelEndsTest : public testing::Test {
 protected:
  static ExperimentConfig Config(std::vector<std::string> settings) {
    settings.insert(settings.begin(), {"max_train_iter=100000", "env.stop_value=1000"});
    return LoadExperimentConfig("worker/configs/cartpole_dqn_parallel.textproto", settings).value();
  }
  InProcessRun Run(const ExperimentConfig& config) {
    EXPECT_THAT(FindParallelProblems(config), IsEmpty());
    store_ = create_store("mem:").value();
    InProcessTransport transport;
    ComponentDeps deps;
    deps.exp_dir = absl::StrCat(testing::TempDir(), "/exp");
    InProcessRun run = RunInProcess(config, deps, store_.get(), &transport, &transport);
    EXPECT_THAT(run.end, IsOk());
    EXPECT_THAT(run.workers, IsOk());
    return run;
  }

  std::unique_ptr<Store> store_;
};

TEST_F(ParallelEndsTest, AConfirmedStopValue) {
  const InProcessRun run = Run(Config({"env.stop_value=15"}));
  EXPECT_TRUE(run.status.converged());
  EXPECT_THAT(run.status.end_reason(),
              StartsWith("converged: the mean return of an evaluation was"));
  EXPECT_EQ(run.status.confirmation().episodes(), 100);
  EXPECT_GE(run.status.confirmation().mean() - run.status.confirmation().standard_error(), 15);
  EXPECT_EQ(run.status.eval_return_size(), 5) << "those of the evaluation";
  ASSERT_EQ(run.status.best_policy_size(), 1);
  EXPECT_EQ(run.status.best_policy(0).mean_return(), run.status.confirmation().mean());
}

TEST_F(ParallelEndsTest, AStopper) {
  const InProcessRun run =
      Run(Config({"stopper=[{type:\"value_reached\" "
                  "params{[type.googleapis.com/ding.ValueReachedParams]{value:15}}}]"}));
  EXPECT_FALSE(run.status.converged());
  EXPECT_THAT(run.status.end_reason(),
              StartsWith("stopper 'value_reached': the mean return of an evaluation is"));
  EXPECT_GE(run.status.eval_value(), 15);
}

TEST_F(ParallelEndsTest, AStopperThatWatchesTheClock) {
  const InProcessRun run =
      Run(Config({"stopper=[{type:\"wall_clock\" "
                  "params{[type.googleapis.com/ding.WallClockParams]{seconds:1.5}}}]"}));
  EXPECT_EQ(run.status.end_reason(), "stopper 'wall_clock': it has taken 1.5s");
}

TEST_F(ParallelEndsTest, RefusesAStopperThatCanNeverStop) {
  ComponentDeps deps;
  const auto make = [&](const std::vector<std::string>& settings) {
    return MakeCoordinator(Config(settings), "run", deps, nullptr, nullptr, nullptr).status();
  };
  EXPECT_THAT(
      make({"stopper=[{type:\"value_reached\" "
            "params{[type.googleapis.com/ding.ValueReachedParams]{value:201}}}]"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("value is 201, so that it could never stop: expected at most 200")));
  EXPECT_THAT(make({"stopper=[{type:\"no_improvement\"}]", "system.max_seconds=600",
                    "policy.other.commander.eval_interval=60"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("evaluations is 20, so that it could never stop: expected less "
                                 "than 12, as many as the run's budget")));
}

// A hook that calls a function.
class FunctionHook : public LearnerHook {
 public:
  FunctionHook(const LearnerHookConfig& config, HookPosition position,
               std::function<void(LearnerView*)> function)
      : LearnerHook(config.name(), config.priority(), position), function_(std::move(function)) {}
  absl::Status Call(LearnerView* learner) override {
    function_(learner);
    return absl::OkStatus();
  }

 private:
  const std::function<void(LearnerView*)> function_;
};

TEST_F(ParallelEndsTest, AHookThatSeesEvaluations) {
  std::vector<Evaluation> seen;
  const ScopedRegistration<LearnerHookCreator> registration(
      &LearnerHookRegistry(), "function", [&seen](const LearnerHookConfig& config) {
        return std::make_shared<FunctionHook>(
            config, HookPosition::kAfterEval, [&seen](LearnerView* learner) {
              seen.push_back(*learner->run_signals()->evaluation());
              if (seen.size() == 3) learner->run_signals()->RequestStop("three are enough");
            });
      });
  const InProcessRun run =
      Run(Config({"policy.learn.learner.hook.hook=[{type:\"function\" position:AFTER_EVAL}]"}));
  EXPECT_EQ(run.status.end_reason(), "a hook: three are enough");
  EXPECT_FALSE(run.status.converged());
  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen[2].episode_return.size(), 5u);
  EXPECT_GT(seen[2].mean_return, 0);
  EXPECT_GE(seen[2].env_step, seen[1].env_step);
}

TEST_F(ParallelEndsTest, TheInfoOfTheEnv_ReachesHooksAndStoppersAndTheBestPolicy) {
  std::vector<Evaluation> seen;
  const ScopedRegistration<LearnerHookCreator> registration(
      &LearnerHookRegistry(), "function", [&seen](const LearnerHookConfig& config) {
        return std::make_shared<FunctionHook>(
            config, HookPosition::kAfterEval, [&seen](LearnerView* learner) {
              seen.push_back(*learner->run_signals()->evaluation());
              if (seen.size() == 3) learner->run_signals()->RequestStop("three are enough");
            });
      });
  const InProcessRun run =
      Run(Config({"env.type=succeeds", "env.best_by=success",
                  "policy.learn.learner.hook.hook=[{type:\"function\" position:AFTER_EVAL}]"}));
  EXPECT_EQ(run.status.end_reason(), "a hook: three are enough");
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen[0].mean_return, 10);
  EXPECT_EQ(seen[0].info.at("success").mean, 1);
  EXPECT_EQ(seen[0].info.at("success").count, static_cast<int64_t>(seen[0].episode_return.size()));
  ASSERT_EQ(run.status.best_policy_size(), 1);
  EXPECT_EQ(run.status.best_policy(0).mean_return(), 1) << "of env.best_by";
  const InProcessRun stopped = Run(Config({"env.type=succeeds",
                                           "stopper=[{type:\"value_reached\" params{"
                                           "[type.googleapis.com/ding.ValueReachedParams]{value:1 "
                                           "info:\"success\"}}}]"}));
  EXPECT_THAT(stopped.status.end_reason(),
              StartsWith("stopper 'value_reached': the mean info/success of an evaluation is 1"));
}

TEST_F(ParallelEndsTest, TheBestPolicyIsSavedFromTheStore) {
  const ExperimentConfig config = Config({});
  const std::string exp_dir = absl::StrCat(testing::TempDir(), "/best");
  store_ = create_store("mem:").value();
  BestCheckpoints best(config, exp_dir, store_.get());
  RunStatus status;
  best.Update(status);
  EXPECT_FALSE(PathExists(exp_dir));
  BestPolicy* const policy = status.add_best_policy();
  policy->mutable_policy()->set_policy_id("policy_0");
  policy->mutable_policy()->set_key("policy/gone");
  best.Update(status);  // A warning: it is not in the store.
  EXPECT_FALSE(PathExists(JoinPath(exp_dir, "ckpt/ckpt_best")));
  // As a learner stores it.
  DING_ASSERT_OK_AND_ASSIGN(const EnvSpec env, SpecOfEnv(config, Clock::Real()));
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Policy> learner,
      create_policy(MakePolicyConfig(config), MakePolicyContext(config, env, PolicyModes())));
  DING_ASSERT_OK_AND_ASSIGN(const EncodedBatch model, EncodeState([&](StateWriter* writer) {
                              return learner->learn_mode()->SaveModel(writer);
                            }));
  ASSERT_THAT(store_->Put("policy/7", model.pieces()), IsOk());
  policy->mutable_policy()->set_key("policy/7");
  policy->mutable_policy()->set_train_iter(70);
  policy->set_env_step(700);
  best.Update(status);
  EvaluationOptions evaluation;
  evaluation.checkpoint = JoinPath(exp_dir, "ckpt/ckpt_best");
  EXPECT_THAT(EvaluateCheckpoint(evaluation), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader saved,
                            CheckpointReader::Open(evaluation.checkpoint));
  EXPECT_EQ(saved.info().fields.at("train_iter"), "70");
  EXPECT_EQ(saved.info().fields.at("env_step"), "700");
  EXPECT_THAT(RemoveRecursively(exp_dir), IsOk());
}

}  // namespace
}  // namespace ding
