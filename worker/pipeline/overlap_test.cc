// Overlapped runs (policy.collect.overlap): both threads work at the same time, equal seeds give
// equal bytes, runs that are resumed go on exactly, and errors of either thread end the run.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A small DQN run: 2 envs, 8 rows and two updates a round, evaluations every 10 iterations.
constexpr char kConfig[] = R"(
max_env_step: 200
env { type: "CartPole-v0" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn {
    batch_size: 8
    update_per_collect: 2
    learner { hook { save_ckpt_after_iter: 5 log_show_after_iter: 3 } }
  }
  collect { overlap: true n_sample: 8 collector { collect_print_freq: 3 } }
  eval { evaluator { eval_freq: 10 } }
}
resume { period_seconds: 0 period_rounds: 10 })";

using Settings = std::vector<std::string>;

class OverlapTest : public testing::Test {
 protected:
  OverlapTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/overlap_XXXXXX");
    folder_ = mkdtemp(folder.data());
  }
  ~OverlapTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(const std::string& name,
                                                         const Settings& settings) {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                          ParseExperimentConfig(kConfig, "test", settings));
    SerialOptions options;
    options.exp_dir = JoinPath(folder_, name);
    options.interrupted = interrupted_;
    options.metrics = sink_ = std::make_shared<RecordingSink>();
    DING_RETURN_IF_ERROR(CreateDirectories(options.exp_dir));
    return SerialPipeline::Create(config, options);
  }
  // Runs, or goes on with, the run in the folder `name`. After an error `result` tells how far the
  // run came.
  absl::Status Run(const std::string& name, const Settings& settings, SerialResult* result) {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<SerialPipeline> pipeline, Create(name, settings));
    DING_ASSIGN_OR_RETURN(const std::optional<ResumePoint> point,
                          OpenNewestResumePoint(JoinPath(folder_, name)));
    if (point.has_value()) DING_RETURN_IF_ERROR(pipeline->Resume(point->checkpoint));
    return pipeline->Run(result);
  }
  absl::StatusOr<SerialResult> Run(const std::string& name, const Settings& settings = {}) {
    SerialResult result;
    DING_RETURN_IF_ERROR(Run(name, settings, &result));
    return result;
  }
  std::string Checkpoint(const std::string& run, const std::string& name) const {
    return absl::StrCat(JoinPath(folder_, run), "/ckpt/", name);
  }
  // What was measured, in the order of the records, without durations, speeds and what is measured
  // once a second.
  std::vector<std::string> Measured() const {
    std::vector<std::string> measured;
    for (const RecordingSink::ScalarRecord& record : sink_->scalars()) {
      const std::string& tag = record.tag;
      if (absl::StartsWith(tag, "run_") || absl::StartsWith(tag, "replay_buffer_") ||
          absl::StrContains(tag, "time") || absl::StrContains(tag, "sec") ||
          absl::StrContains(tag, "thruput") || absl::StrContains(tag, "duration")) {
        continue;
      }
      measured.push_back(absl::StrCat(tag, " ", record.step, " ", record.value));
    }
    return measured;
  }
  // Expects the same bytes in all parts of two checkpoints.
  void ExpectSame(const std::string& left, const std::string& right) const {
    DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(left));
    const std::vector<std::string> parts = reader.Components();
    ASSERT_FALSE(parts.empty());
    for (const std::string& part : parts) {
      const std::string file = absl::StrCat("/", part, ".safetensors");
      EXPECT_TRUE(*ReadFile(left + file) == *ReadFile(right + file)) << part;
    }
  }

  std::string folder_;
  std::shared_ptr<RecordingSink> sink_;
  std::function<bool()> interrupted_ = [] { return false; };
};

// ------------------------------------------------------------------------------- at the same time

// A meeting of two threads: each waits for the other.
class Meeting {
 public:
  // Returns whether the other side has come within some seconds.
  bool Come(int side) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    there_[side] = true;
    changed_.SignalAll();
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    while (!there_[1 - side]) {
      if (!changed_.WaitUntil(&mutex_, deadline) && deadline.Passed()) return there_[1 - side];
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool there_[2] ABSL_GUARDED_BY(mutex_) = {};
};

// Calls a function after each iteration.
class CallingHook : public LearnerHook {
 public:
  CallingHook(const LearnerHookConfig& config, std::function<absl::Status(LearnerView*)> call)
      : LearnerHook(config.name(), config.priority(), HookPosition::kAfterIter),
        call_(std::move(call)) {}
  absl::Status Call(LearnerView* learner) override { return call_(learner); }

 private:
  const std::function<absl::Status(LearnerView*)> call_;
};

// The setting by which a run has the hook of a test.
constexpr char kUsesHook[] = "policy.learn.learner.hook.hook={type: 'of_the_test'}";

class HookOfTheTest {
 public:
  explicit HookOfTheTest(const std::function<absl::Status(LearnerView*)>& call)
      : registration_(&LearnerHookRegistry(), "of_the_test",
                      [call](const LearnerHookConfig& config) {
                        return std::make_shared<CallingHook>(config, call);
                      }) {}

 private:
  ScopedRegistration<LearnerHookCreator> registration_;
};

// A policy of DQN that calls a function before it acts in its collect mode.
class CallingPolicy : public Policy, private CollectMode {
 public:
  CallingPolicy(std::unique_ptr<Policy> policy, std::function<absl::Status()> call)
      : policy_(std::move(policy)), call_(std::move(call)) {}
  CollectMode* collect_mode() override { return this; }
  LearnMode* learn_mode() override { return policy_->learn_mode(); }
  EvalMode* eval_mode() override { return policy_->eval_mode(); }
  CommandMode* command_mode() override { return policy_->command_mode(); }

 private:
  const SpecPtr& output_spec() const override { return collect().output_spec(); }
  CollectAttributes attributes() const override {
    CollectAttributes attributes = collect().attributes();
    attributes.keeps_statistics = call_ == nullptr;
    return attributes;
  }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override {
    DING_RETURN_IF_ERROR(call_());
    return collect().Forward(obs, env_ids, settings, out);
  }
  absl::Status LoadModel(StateReader* reader) override { return collect().LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override { return collect().SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return collect().LoadState(reader); }
  CollectMode& collect() const { return *policy_->collect_mode(); }

  const std::unique_ptr<Policy> policy_;
  const std::function<absl::Status()> call_;
};

constexpr char kUsesPolicy[] = "policy.type=of_the_test";

class PolicyOfTheTest {
 public:
  // Without `call` the policy says that it keeps statistics.
  explicit PolicyOfTheTest(const std::function<absl::Status()>& call)
      : registration_(
            &PolicyRegistry(), "of_the_test",
            [call](PolicyConfig config,
                   const PolicyContext& context) -> absl::StatusOr<std::unique_ptr<Policy>> {
              config.set_type("dqn");
              absl::StatusOr<std::unique_ptr<Policy>> dqn = create_policy(config, context);
              if (!dqn.ok()) return dqn;
              return std::make_unique<CallingPolicy>(*std::move(dqn), call);
            }) {}

 private:
  ScopedRegistration<PolicyCreator> registration_;
};

TEST_F(OverlapTest, ARoundIsCollectedWhileTheOneBeforeIsLearnedFrom) {
  Meeting meeting;
  HookOfTheTest hook([&](LearnerView* learner) -> absl::Status {
    if (learner->train_iter() != 1 || meeting.Come(0)) return absl::OkStatus();
    return absl::InternalError("nothing is collected");
  });
  int forwards = 0;
  // Two envs take 4 vector steps for 8 rows: the 6th is in the second round.
  PolicyOfTheTest policy([&]() -> absl::Status {
    if (++forwards != 6 || meeting.Come(1)) return absl::OkStatus();
    return absl::InternalError("nothing is learned");
  });
  ASSERT_THAT(Run("run", {kUsesHook, kUsesPolicy}), IsOk());
}

TEST_F(OverlapTest, ThePolicyThatCollectsIsOneRoundOlder) {
  DING_ASSERT_OK_AND_ASSIGN(auto pipeline, Create("run", {"max_env_step=32"}));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  ASSERT_THAT(pipeline->buffer()->count(), 32);
  DING_ASSERT_OK_AND_ASSIGN(const Batch rows, pipeline->buffer()->Sample(32, result.train_iter));
  const std::optional<int> column = rows.spec().Find("collect_iter");
  ASSERT_TRUE(column.has_value());
  // Without overlap the rows of 4 rounds are of iterations 0, 2, 4 and 6.
  EXPECT_THAT(rows.column<int64_t>(*column), testing::Each(testing::AnyOf(0, 2, 4)));
  EXPECT_THAT(rows.column<int64_t>(*column), testing::Contains(4));
  EXPECT_EQ(result.train_iter, 8);
}

TEST_F(OverlapTest, StepsAndUpdatesAreAsManyAsWithout) {
  const std::vector<Settings> all = {
      {},
      {"policy.random_collect_size=20"},
      {"max_train_iter=31", "max_env_step=0"},
      {"max_train_iter=7", "policy.learn.update_per_collect=5"},
      {"max_train_iter=6", "policy.learn.batch_size=20", "policy.learn.update_per_collect=6"},
      {"policy.learn.batch_size=100"},
  };
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult overlapped, Run(absl::StrCat("on_", i), all[i]));
    Settings off = all[i];
    off.push_back("policy.collect.overlap=false");
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult in_turns, Run(absl::StrCat("off_", i), off));
    EXPECT_EQ(overlapped.env_step, in_turns.env_step);
    EXPECT_EQ(overlapped.train_iter, in_turns.train_iter);
    EXPECT_EQ(overlapped.why, in_turns.why);
  }
}

TEST_F(OverlapTest, LearnsToBalanceAPole) {
  for (const char* const seed : {"seed=0", "seed=1"}) {
    DING_ASSERT_OK_AND_ASSIGN(
        const ExperimentConfig config,
        LoadExperimentConfig("worker/configs/cartpole_dqn.textproto",
                             {seed, "policy.collect.overlap=true", "max_env_step=20000"}));
    SerialOptions options;
    options.exp_dir = folder_;
    DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, SerialPipeline::Create(config, options));
    SerialResult result;
    ASSERT_THAT(pipeline->Run(&result), IsOk());
    EXPECT_TRUE(result.stop) << seed << ": " << result.why;
  }
}

// ----------------------------------------------------------------------------------- determinism

struct Algorithm {
  std::string name;
  Settings settings;
};

void PrintTo(const Algorithm& algorithm, std::ostream* os) { *os << algorithm.name; }

class OverlapOfTest : public OverlapTest, public testing::WithParamInterface<Algorithm> {};

TEST_P(OverlapOfTest, SameSeedSameBytesAndSameMeasurements) {
  std::vector<std::vector<std::string>> measured;
  int64_t env_step = 0;
  for (const char* const run : {"first", "second"}) {
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run(run, GetParam().settings));
    EXPECT_GT(result.train_iter, 20);
    env_step = result.env_step;
    measured.push_back(Measured());
  }
  EXPECT_GT(measured[0].size(), 20u);
  EXPECT_EQ(measured[0], measured[1]);
  for (const std::string& name : {std::string("iteration_5"), std::string("iteration_20"),
                                  std::string("ckpt_best"), absl::StrCat("resume_", env_step)}) {
    SCOPED_TRACE(name);
    ExpectSame(Checkpoint("first", name), Checkpoint("second", name));
  }
}

TEST_P(OverlapOfTest, ARunThatIsResumedEndsWithTheSameBytes) {
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult whole, Run("whole", GetParam().settings));
  for (const int after : {1, 2, 5}) {
    SCOPED_TRACE(after);
    const std::string parts = absl::StrCat("parts_", after);
    int polls = 0;
    interrupted_ = [&] { return ++polls > after; };
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult first, Run(parts, GetParam().settings));
    EXPECT_TRUE(first.interrupted);
    interrupted_ = [] { return false; };
    DING_ASSERT_OK_AND_ASSIGN(const SerialResult rest, Run(parts, GetParam().settings));
    EXPECT_EQ(rest.train_iter, whole.train_iter);
    EXPECT_EQ(rest.eval_value_raw, whole.eval_value_raw);
    const std::string last = absl::StrCat("resume_", whole.env_step);
    ExpectSame(Checkpoint("whole", last), Checkpoint(parts, last));
  }
}

std::vector<Algorithm> Algorithms() {
  const std::string model = "{ encoder_hidden_size: [8] }";
  const auto params = [](const std::string& type, const std::string& fields) {
    return absl::StrCat("policy.params={[type.googleapis.com/ding.", type, "] {", fields, "}}");
  };
  return {
      {"Dqn", {}},
      {"DqnByPriority",
       {"policy.priority=true",
        "policy.other.replay_buffer={type:'advanced' params{[type.googleapis.com/"
        "ding.AdvancedBufferConfig]{}}}"}},
      {"DqnOfNormalizedObservations",
       {"env.wrapper=[{type:'normalize_observation'}, {type:'normalize_reward' "
        "in_evaluation:false}]"}},
      {"DqnInManyThreads", {"env.manager.type=async_thread", "env.manager.wait_num=2"}},
      {"DqnByEpisodes",
       {"policy.collect.collector.type=episode", "policy.collect.n_episode=2",
        "policy.learn.update_per_collect=10", "max_env_step=400"}},
      {"DqnPlaysItself",
       {"env.type=TicTacToe", "policy.collect.collector.type=sample_1v1",
        "policy.eval.evaluator.type=battle_interaction"}},
      {"Rainbow",
       {"policy.type=rainbow", params("RainbowConfig", absl::StrCat("dqn { model ", model, " }"))}},
      {"Sac",
       {"policy.type=sac", "env.type=Pendulum-v1", "policy.random_collect_size=20",
        params("SacConfig", absl::StrCat("continuous { model ", model, " }"))}},
      {"Td3",
       {"policy.type=td3", "env.type=Pendulum-v1", "policy.random_collect_size=20",
        params("Td3Config", absl::StrCat("continuous { model ", model, " }"))}},
  };
}

INSTANTIATE_TEST_SUITE_P(Algorithms, OverlapOfTest, testing::ValuesIn(Algorithms()),
                         [](const testing::TestParamInfo<Algorithm>& info) {
                           return info.param.name;
                         });

// -------------------------------------------------------------------------------------------- ends

TEST_F(OverlapTest, AHookEndsTheRun) {
  HookOfTheTest hook([](LearnerView* learner) {
    if (learner->train_iter() == 13) learner->run_signals()->RequestStop("enough");
    return absl::OkStatus();
  });
  DING_ASSERT_OK_AND_ASSIGN(const SerialResult result, Run("run", {kUsesHook}));
  EXPECT_EQ(result.train_iter, 13);
  EXPECT_EQ(result.why, "a hook: enough");
}

TEST_F(OverlapTest, AnErrorOfTheLearnerEndsTheRun) {
  HookOfTheTest hook([](LearnerView* learner) -> absl::Status {
    if (learner->train_iter() == 13) throw std::runtime_error("scripted hook");
    return absl::OkStatus();
  });
  SerialResult result;
  EXPECT_THAT(Run("run", {kUsesHook}, &result),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("at iteration 13"), HasSubstr("scripted hook"))));
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader saved,
                            CheckpointReader::Open(Checkpoint("run", "ckpt_exception")));
  EXPECT_EQ(saved.info().fields.at("train_iter"), "13");
}

TEST_F(OverlapTest, AnErrorOfAnEnvEndsTheRun) {
  auto script = std::make_shared<ScriptedEnvScript>();
  script->on_step[100] = EnvFault::kThrow;
  ScopedRegistration<EnvCreator> env(&EnvRegistry(), "Scripted", [script](const EnvConfig&) {
    return ScriptedEnvFactory(script)();
  });
  SerialResult result;
  EXPECT_THAT(std::string(Run("run", {"env.type=Scripted"}, &result).message()),
              AllOf(HasSubstr("env "), HasSubstr("scripted exception")));
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader saved,
                            CheckpointReader::Open(Checkpoint("run", "ckpt_exception")));
  EXPECT_EQ(saved.info().fields.at("train_iter"), absl::StrCat(result.train_iter));
}

TEST_F(OverlapTest, ErrorsOfBothThreadsAreReported) {
  HookOfTheTest hook([](LearnerView* learner) {
    return learner->train_iter() < 3 ? absl::OkStatus() : absl::InternalError("scripted hook");
  });
  int forwards = 0;
  PolicyOfTheTest policy([&]() {  // 4 a round
    return ++forwards < 11 ? absl::OkStatus() : absl::InternalError("scripted policy");
  });
  SerialResult result;
  EXPECT_THAT(std::string(Run("run", {kUsesHook, kUsesPolicy}, &result).message()),
              AllOf(HasSubstr("scripted policy"), HasSubstr("; and learning at the same time: "),
                    HasSubstr("scripted hook")));
}

// ---------------------------------------------------------------------------------------- refusals

TEST_F(OverlapTest, APolicyThatLearnsFromItsOwnRowsOnlyIsRefused) {
  EXPECT_THAT(
      Create("run", {"policy.type=ppo", "policy.params={}", "policy.learn.update_per_collect=1"})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("policy.collect.overlap is true"),
                     HasSubstr("a run whose policy is on-policy"),
                     HasSubstr("collecting and learning take turns"))));
}

TEST_F(OverlapTest, APolicyThatKeepsStatisticsIsRefused) {
  PolicyOfTheTest policy(nullptr);
  EXPECT_THAT(Create("run", {kUsesPolicy}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy.collect.overlap is true, but policy 'of_the_test'"),
                             HasSubstr("expected false"))));
  EXPECT_THAT(Create("run", {kUsesPolicy, "policy.collect.overlap=false"}), IsOk());
}

TEST_F(OverlapTest, AResumePointOfARunWithoutIsRefused) {
  ASSERT_THAT(Run("run", {"policy.collect.overlap=false"}), IsOk());
  SerialResult result;
  EXPECT_THAT(std::string(Run("run", {"max_env_step=300"}, &result).message()),
              HasSubstr("overlap"));
}

}  // namespace
}  // namespace ding
