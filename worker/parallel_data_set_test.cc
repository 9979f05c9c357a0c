// Tests parallel runs with a data set, between the threads of one process: they learn, they learn
// the same as a serial run, also when their learner is replaced, and refuse what has no effect.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "ding_worker/worker/setup/data_set.h"
#include "ding_worker/worker/setup/supervised_setup.h"
#include "ding_worker/worker/tasks/configured_learner.h"
#include "ding_worker/worker/tasks/data_set_learning.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/demonstrations.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kConfig[] = R"(
exp_name: "test"
seed: 3
max_train_iter: 100
data_set { path: "PATH" held_out: 0.25 }
policy {
  type: "bc"
  params { [type.googleapis.com/ding.BcConfig] { model { encoder_hidden_size: [16] } learning_rate: 0.02 } }
  learn { batch_size: 16 send_policy_freq: 5 learner { hook { save_ckpt_after_iter: 20 } } }
  collect { collector { collector_num: 2 } }
  eval { metric_evaluator { eval_freq: 10 } }
  other { commander { eval_interval: 0.02 } }
})";

const std::vector<std::string> kWithEnv = {"env.type=CartPole-v0", "env.evaluator_env_num=2",
                                           "env.n_evaluator_episode=2", "env.stop_value=1000"};

class ParallelDataSetTest : public testing::Test {
 protected:
  ParallelDataSetTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/data_set_XXXXXX");
    folder_ = mkdtemp(folder.data());
    Write(MakeDemonstrations(8));
  }
  ~ParallelDataSetTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string Path() const { return JoinPath(folder_, "episodes"); }
  void Write(const EpisodeSet& set) { ASSERT_THAT(WriteEpisodes(Path(), set), IsOk()); }
  // Writes episodes whose observations have the bounds of the env's.
  void WriteForCartPole() {
    EnvConfig env;
    env.set_type("CartPole-v0");
    const EnvSpec spec = create_env(env).value()->spec();
    Write(MakeDemonstrations(8, spec.name, spec.observation->field(0)));
  }
  ExperimentConfig Config(std::vector<std::string> settings = {}) const {
    settings.insert(settings.begin(), absl::StrCat("data_set.path=", Path()));
    absl::StatusOr<ExperimentConfig> config = ParseExperimentConfig(kConfig, "test", settings);
    EXPECT_THAT(config, IsOk());
    return *std::move(config);
  }
  ComponentDeps Deps(absl::string_view run) const {
    ComponentDeps deps;
    deps.exp_dir = JoinPath(folder_, run);
    deps.seed = 3;
    deps.metrics = sink_;
    return deps;
  }
  // Runs it to its end in parallel, in the folder "parallel".
  InProcessRun Run(const ExperimentConfig& config) {
    EXPECT_THAT(FindParallelProblems(config), IsEmpty());
    const std::unique_ptr<Store> store = create_store("mem:").value();
    InProcessTransport transport;
    InProcessRun run = RunInProcess(config, Deps("parallel"), store.get(), &transport, &transport);
    EXPECT_THAT(run.end, IsOk());
    EXPECT_THAT(run.workers, IsOk());
    EXPECT_THAT(store->List("").value(), IsEmpty());
    return run;
  }
  absl::Status RunSerially(const std::vector<std::string>& settings) const {
    SerialOptions options;
    options.exp_dir = JoinPath(folder_, "serial");
    ExperimentConfig config = Config(settings);
    // A serial run refuses what is for several processes.
    config.mutable_policy()->mutable_collect()->mutable_collector()->clear_collector_num();
    config.mutable_policy()->mutable_learn()->set_send_policy_freq(10);
    config.mutable_policy()->mutable_other()->mutable_commander()->set_eval_interval(60);
    absl::StatusOr<std::unique_ptr<Pipeline>> pipeline = CreatePipeline(config, options);
    if (!pipeline.ok()) return pipeline.status();
    SerialResult result;
    return (*pipeline)->Run(&result);
  }
  std::string Model(absl::string_view run, absl::string_view checkpoint) const {
    return ReadFile(
               JoinPath(folder_, absl::StrCat(run, "/ckpt/", checkpoint, "/model.safetensors")))
        .value_or("none");
  }
  // Why the coordinator refuses it.
  absl::Status Refusal(const ExperimentConfig& config) {
    const std::unique_ptr<Store> store = create_store("mem:").value();
    InProcessTransport transport;
    const auto comm = CommCoordinator::Create(InProcessCommOptions(), &transport).value();
    return MakeCoordinator(config, "run-1", Deps("refused"), store.get(), comm.get(),
                           /*journal=*/nullptr)
        .status();
  }

  std::string folder_;
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
};

TEST_F(ParallelDataSetTest, LearnsTheSameAsASerialRun) {
  const InProcessRun run = Run(Config({"max_train_iter=300"}));
  EXPECT_GE(run.status.train_iter(), 300);
  EXPECT_EQ(run.status.envstep(), 0);
  EXPECT_FALSE(run.status.has_eval_value()) << "there is no env";
  EXPECT_GT(run.status.policy_version(), 300 / 5u - 5);
  // An untrained policy has 0.65.
  const std::vector<double> accuracy = sink_->ValuesOf("metric_evaluator_iter/accuracy");
  ASSERT_GE(accuracy.size(), 30u);
  EXPECT_GT(*std::max_element(accuracy.begin(), accuracy.end()), 0.95);
  EXPECT_THAT(sink_->ScalarTags(), Not(Contains(HasSubstr("_step/"))));
  EXPECT_NE(Model("parallel", "ckpt_best"), "none");

  ASSERT_THAT(RunSerially({"max_train_iter=300"}), IsOk());
  for (const char* name : {"iteration_20", "iteration_160", "iteration_300"}) {
    ASSERT_NE(Model("serial", name), "none") << name;
    EXPECT_EQ(Model("parallel", name), Model("serial", name)) << name;
  }
}

TEST_F(ParallelDataSetTest, IsEvaluatedInTheEnv) {
  WriteForCartPole();
  const InProcessRun run = Run(Config(kWithEnv));
  EXPECT_GE(run.status.train_iter(), 100);
  EXPECT_EQ(run.status.envstep(), 0) << "those of evaluations do not count";
  EXPECT_TRUE(run.status.has_eval_value());
  EXPECT_EQ(run.counters.rows_pushed, 0);
  EXPECT_THAT(sink_->ScalarTags(), Contains("evaluator_iter/reward_mean"));
  EXPECT_THAT(sink_->ScalarTags(), Not(Contains(HasSubstr("collector"))));
  EXPECT_THAT(sink_->ScalarTags(), Not(Contains(HasSubstr("_step/"))));
}

TEST_F(ParallelDataSetTest, TheStopValueOfTheEnvEndsIt) {
  WriteForCartPole();
  std::vector<std::string> settings = kWithEnv;
  settings.insert(settings.end(),
                  {"env.stop_value=5", "env.n_confirm_episode=0", "max_train_iter=1000000"});
  const InProcessRun run = Run(Config(settings));
  EXPECT_TRUE(run.status.converged());
}

TEST_F(ParallelDataSetTest, TheStopValueOfTheMetricEndsIt) {
  ExperimentConfig config = Config({"max_train_iter=1000000"});
  MetricEvaluatorConfig& evaluator =
      *config.mutable_policy()->mutable_eval()->mutable_metric_evaluator();
  (*evaluator.mutable_stop_value())["accuracy"] = 0.85;
  const InProcessRun run = Run(config);
  EXPECT_THAT(run.status.end_reason(), HasSubstr("metric_evaluator.stop_value was reached"));
  EXPECT_LT(run.status.train_iter(), 1000);
}

// The learner leaves the run; another one goes on from what it has saved, with the batch at which
// it was.
TEST_F(ParallelDataSetTest, ALearnerThatIsReplacedLearnsTheSame) {
  const std::vector<std::string> settings = {"max_train_iter=2000",
                                             "policy.eval.metric_evaluator.eval_freq=500",
                                             "policy.learn.learner.hook.save_ckpt_after_iter=1000"};
  const ExperimentConfig config = Config(settings);
  const ComponentDeps deps = Deps("parallel");
  const std::unique_ptr<Store> store = create_store("mem:").value();
  InProcessTransport transport;
  const auto comm = CommCoordinator::Create(InProcessCommOptions(), &transport).value();
  DING_ASSERT_OK_AND_ASSIGN(
      const CoordinatorParts parts,
      MakeCoordinator(config, "run-1", deps, store.get(), comm.get(), /*journal=*/nullptr));
  parts.coordinator->Start();
  ASSERT_THAT(comm->Start(parts.coordinator.get()), IsOk());
  std::atomic<bool> leaves{false};
  struct Leaving {
    absl::StatusOr<EndRun> Run() {
      std::thread watch([this] {
        while (!*leaves) absl::SleepFor(absl::Milliseconds(1));
        learner->Close();
      });
      absl::StatusOr<EndRun> end = learner->Run();
      watch.join();
      return end;
    }
    std::unique_ptr<BaseCommLearner> learner;
    std::atomic<bool>* leaves;
  };
  const auto make = [&](WorkerSession* session) {
    return std::make_unique<BaseCommLearner>(MakeCommLearnerOptions(config), session, store.get(),
                                             MakeTaskLearnerFactory(config, deps));
  };
  WorkerThread first(Hello::LEARNER, "learner-0", &transport, [&](WorkerSession* session) {
    return std::make_unique<Leaving>(Leaving{make(session), &leaves});
  });
  const absl::Time deadline = absl::Now() + kInProcessPatience;
  while (parts.coordinator->status().train_iter() < 200 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  leaves = true;
  first.Join().IgnoreError();  // It says that it was closed.
  const int64_t left_at = parts.coordinator->status().train_iter();
  ASSERT_LT(left_at, 1800) << "too late for a successor";
  WorkerThread second(Hello::LEARNER, "learner-1", &transport, make);
  EXPECT_THAT(parts.coordinator->WaitUntilDone(kInProcessPatience), IsOk());
  EXPECT_THAT(EndInProcessRun(parts.coordinator.get(), comm.get()), IsOk());
  EXPECT_THAT(second.Join(), IsOk());
  ASSERT_THAT(RunSerially(settings), IsOk());
  ASSERT_NE(Model("serial", "iteration_2000"), "none");
  EXPECT_EQ(Model("parallel", "iteration_2000"), Model("serial", "iteration_2000"));
}

TEST_F(ParallelDataSetTest, TheLearnersOfAGroupShareEachBatchOfTheSerialRun) {
  const ExperimentConfig config = Config();
  EnvSpec env;
  DING_ASSERT_OK_AND_ASSIGN(DataSet data, LoadDataSetOf(config, &env));
  ASSERT_EQ(data.training.rows[0] % 16, 8) << "the last batch of an epoch is smaller";
  DING_ASSERT_OK_AND_ASSIGN(const auto serial, EpochsOf(config, data));
  DING_ASSERT_OK_AND_ASSIGN(const auto learning, DataSetLearning::Create(config, std::move(data)));
  const auto obs = [](const Batch& batch) {
    const auto values = batch.column<float>(0);
    return std::vector<float>(values.begin(), values.end());
  };
  for (int64_t train_iter = 0; train_iter < 20; ++train_iter) {
    const std::vector<float> expected = obs(*serial->Next());
    for (const int world_size : {1, 2, 3}) {
      std::vector<float> all;
      for (int rank = 0; rank < world_size; ++rank) {
        DING_ASSERT_OK_AND_ASSIGN(const Batch share,
                                  learning->BatchOf(train_iter, rank, world_size));
        EXPECT_GE(share.rows(), 8 / world_size);
        const std::vector<float> values = obs(share);
        all.insert(all.end(), values.begin(), values.end());
      }
      EXPECT_EQ(all, expected) << train_iter << " of " << world_size;
    }
    // There are fewer rows than learners.
    DING_ASSERT_OK_AND_ASSIGN(const Batch whole, learning->BatchOf(train_iter, 16, 17));
    EXPECT_EQ(obs(whole), expected);
  }
}

TEST_F(ParallelDataSetTest, RefusesWhatHasNoEffect) {
  const auto problems = FindParallelProblems(Config(
      {"policy.collect.n_sample=7", "env.collector_env_num=3", "policy.learn.prefetch_batches=3",
       "policy.learn.data_timeout=3", "policy.collect.collector.max_abnormal=3",
       "policy.other.replay_buffer.replay_buffer_size=77",
       "policy.other.commander.type=\"one_vs_one\"", "env.evaluator_type=CartPole-v0",
       "env.stop_value=9", "env.wrapper=[{type:'reward_clip'}]"}));
  for (const char* path : {"policy.collect.n_sample is 7", "env.collector_env_num is 3",
                           "policy.learn.prefetch_batches is 3", "policy.learn.data_timeout is 3",
                           "policy.collect.collector.max_abnormal is 3",
                           "policy.other.replay_buffer.replay_buffer_size is 77",
                           "env.stop_value is 9", "env.wrapper[0].type is 'reward_clip'"}) {
    EXPECT_THAT(problems,
                Contains(AllOf(HasSubstr(path), HasSubstr("a parallel run with a data_set"))))
        << path;
  }
  EXPECT_THAT(problems, Contains(HasSubstr("commander.type is 'one_vs_one' beside data_set.path")));
  EXPECT_THAT(problems, Contains(HasSubstr("env.type is not set")));
}

TEST_F(ParallelDataSetTest, TheCoordinatorRefusesWhatASerialRunRefuses) {
  EXPECT_THAT(Refusal(Config({"data_set.path=nowhere"})),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'nowhere'")));
  EXPECT_THAT(Refusal(Config({"env.type=CartPole-v0", "data_set.path=\"\""})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'bc'"), HasSubstr("data_set.path"))));
  EXPECT_THAT(Refusal(Config({"policy.nstep=3"})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("learns from no rewards")));
  EXPECT_THAT(Refusal(Config({"policy={type: \"dqn\"}"})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("does not learn from recorded episodes")));
  Write(MakeDemonstrations(8, "Other-v0"));
  EXPECT_THAT(Refusal(Config(kWithEnv)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("Other-v0"), HasSubstr("'obs'"))));
}

}  // namespace
}  // namespace ding
