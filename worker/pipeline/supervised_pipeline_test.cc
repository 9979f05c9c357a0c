#include "ding_worker/worker/pipeline/supervised_pipeline.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/testing/demonstrations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kConfig[] = R"(
exp_name: "test"
seed: 3
max_train_iter: 60
data_set { path: "PATH" held_out: 0.25 }
policy {
  type: "bc"
  params { [type.googleapis.com/ding.BcConfig] { model { encoder_hidden_size: [16] } learning_rate: 0.02 } }
  learn { batch_size: 16 learner { hook { save_ckpt_after_iter: 20 log_show_after_iter: 10 } } }
  eval { evaluator { eval_freq: 30 } metric_evaluator { eval_freq: 10 } }
})";

class SupervisedPipelineTest : public testing::Test {
 protected:
  SupervisedPipelineTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/supervised_XXXXXX");
    folder_ = mkdtemp(folder.data());
    options_.exp_dir = folder_;
    options_.metrics = sink_;
    Write(MakeDemonstrations(8));
  }
  ~SupervisedPipelineTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string Path() const { return JoinPath(folder_, "episodes"); }
  void Write(const EpisodeSet& set) { ASSERT_THAT(WriteEpisodes(Path(), set), IsOk()); }

  absl::StatusOr<ExperimentConfig> Config(std::vector<std::string> settings) const {
    settings.insert(settings.begin(), absl::StrCat("data_set.path=", Path()));
    return ParseExperimentConfig(kConfig, "test", settings);
  }
  absl::StatusOr<std::unique_ptr<SupervisedPipeline>> Create(
      const std::vector<std::string>& settings = {}) const {
    absl::StatusOr<ExperimentConfig> config = Config(settings);
    EXPECT_THAT(config, IsOk());
    if (stop_accuracy_.has_value()) {
      MetricEvaluatorConfig& evaluator =
          *config->mutable_policy()->mutable_eval()->mutable_metric_evaluator();
      (*evaluator.mutable_stop_value())["accuracy"] = *stop_accuracy_;
    }
    return SupervisedPipeline::Create(*config, options_);
  }
  absl::Status Run(const std::vector<std::string>& settings, SerialResult* result) const {
    absl::StatusOr<std::unique_ptr<SupervisedPipeline>> pipeline = Create(settings);
    if (!pipeline.ok()) return pipeline.status();
    return (*pipeline)->Run(result);
  }
  std::string Checkpoint(absl::string_view name) const {
    return JoinPath(folder_, absl::StrCat("ckpt/", name));
  }
  std::string Model(absl::string_view name) const {
    return *ReadFile(JoinPath(Checkpoint(name), "model.safetensors"));
  }

  std::string folder_;
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  SerialOptions options_;
  std::optional<double> stop_accuracy_;
};

TEST_F(SupervisedPipelineTest, LearnsAndIsEvaluatedOnHeldOutEpisodes) {
  SerialResult result;
  ASSERT_THAT(Run({"max_train_iter=300"}, &result), IsOk());
  EXPECT_FALSE(result.stop);
  EXPECT_EQ(result.train_iter, 300);
  EXPECT_EQ(result.env_step, 0);
  EXPECT_FALSE(result.eval_value.has_value()) << "there is no env";
  EXPECT_GT(result.metric.GetOr("accuracy", 0), 0.85);
  const std::vector<double> accuracy = sink_->ValuesOf("metric_evaluator_iter/accuracy");
  ASSERT_EQ(accuracy.size(), 31u) << "the last one is at the end";
  EXPECT_LT(accuracy.front(), 0.8);
  // A quarter of the 8 episodes is held out.
  EXPECT_THAT(sink_->ValuesOf("metric_evaluator_iter/data_length"),
              testing::Each(2.0 * kDemonstrationRows));
  EXPECT_THAT(sink_->ScalarTags(), Not(Contains(HasSubstr("_step/"))));
  for (const char* name : {"iteration_20", "iteration_300", "ckpt_best", "resume_300"}) {
    EXPECT_THAT(CheckpointReader::Open(Checkpoint(name)), IsOk()) << name;
  }
  EXPECT_FALSE(PathExists(Checkpoint("ckpt_best_return")));
  EvaluationOptions evaluation;
  evaluation.checkpoint = Checkpoint("ckpt_best");
  EXPECT_THAT(EvaluateCheckpoint(evaluation),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("had no env")));
}

// Whole episodes are held out, and the seed determines which.
TEST_F(SupervisedPipelineTest, NoEpisodeIsBothLearnedFromAndJudgedOn) {
  std::vector<std::vector<float>> held_out_by_seed;
  for (const uint64_t seed : {1, 1, 2}) {
    DING_ASSERT_OK_AND_ASSIGN(const DataSet set, LoadDataSet({Path(), 0.25, seed}, nullptr));
    DING_ASSERT_OK_AND_ASSIGN(const Batch training, set.training.load(0));
    std::vector<int64_t> rows_of(8, 0);
    for (int64_t row = 0; row < training.rows(); ++row) {
      ++rows_of[static_cast<size_t>(training.column<float>(0)[4 * row])];
    }
    EXPECT_EQ(training.rows(), 6 * kDemonstrationRows);
    ASSERT_EQ(set.held_out->size(), 1);
    const LabelledBatch judged = *set.held_out->Get(0);
    ASSERT_EQ(judged.input.rows(), 2 * kDemonstrationRows);
    std::vector<float> episodes;
    for (int64_t row = 0; row < judged.input.rows(); ++row) {
      const float episode = judged.input.column<float>(0)[4 * row];
      EXPECT_EQ(rows_of[static_cast<size_t>(episode)], 0) << "episode " << episode;
      EXPECT_EQ(judged.input.column<int64_t>(1)[row], judged.label.column<int64_t>(0)[row]);
      if (row % kDemonstrationRows == 0) episodes.push_back(episode);
    }
    held_out_by_seed.push_back(episodes);
  }
  EXPECT_EQ(held_out_by_seed[0], held_out_by_seed[1]);
  EXPECT_NE(held_out_by_seed[0], held_out_by_seed[2]);
}

TEST_F(SupervisedPipelineTest, AnOfflinePolicyLearnsFromTransitionsByItsReturns) {
  const std::vector<std::string> cql = {
      "policy.type=cql",
      "policy.params={[type.googleapis.com/ding.CqlConfig]{dqn{model{encoder_hidden_size:16}}}}"};
  const auto learn = [&](const std::string& setting) {
    std::vector<std::string> settings = cql;
    settings.push_back(setting);
    SerialResult result;
    EXPECT_THAT(Run(settings, &result), IsOk());
    return Model("ckpt_best");
  };
  const std::string model = learn("policy.nstep=1");
  EXPECT_NE(learn("policy.nstep=4"), model);
  EXPECT_NE(learn("policy.discount_factor=0.5"), model);
  EXPECT_EQ(learn("policy.nstep=1"), model);
}

TEST_F(SupervisedPipelineTest, RefusesReturnsForAPolicyWithoutRewards) {
  EXPECT_THAT(Create({"policy.nstep=4", "policy.discount_factor=0.5"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy.nstep is 4, which has no effect: 'bc' learns from "
                                       "no rewards: expected 1"),
                             HasSubstr("policy.discount_factor is 0.5"))));
}

TEST_F(SupervisedPipelineTest, StopsByTheMetric) {
  stop_accuracy_ = 0.01;
  SerialResult result;
  ASSERT_THAT(Run({}, &result), IsOk());
  EXPECT_TRUE(result.stop);
  EXPECT_EQ(result.train_iter, 10) << "not before training has begun";
}

TEST_F(SupervisedPipelineTest, SquaredErrorsOfContinuousActions) {
  Write(MakeDemonstrations(8, "mine", Box("obs", {4}), Box("action", {}, {-1}, {1})));
  SerialResult result;
  ASSERT_THAT(Run({"max_train_iter=300"}, &result), IsOk());
  EXPECT_LT(*result.metric.Get("action_mse"), 0.1);
  EXPECT_GT(sink_->ValuesOf("metric_evaluator_iter/action_mse").front(), 0.2);
}

TEST_F(SupervisedPipelineTest, GoesOnByteForByteInTheMiddleOfAnEpoch) {
  SerialResult whole;
  ASSERT_THAT(Run({}, &whole), IsOk());
  const std::string model = Model("iteration_60");
  ASSERT_THAT(RemoveRecursively(Checkpoint("")), IsOk());
  SerialResult half;
  ASSERT_THAT(Run({"max_train_iter=29"}, &half), IsOk());  // an epoch has 8 batches
  const auto resume = [this](SerialResult* result) -> absl::Status {
    DING_ASSIGN_OR_RETURN(const std::optional<ResumePoint> point, OpenNewestResumePoint(folder_));
    if (!point.has_value()) return absl::NotFoundError("no resume point");
    EXPECT_EQ(point->position, 29);
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<SupervisedPipeline> pipeline, Create());
    DING_RETURN_IF_ERROR(pipeline->Resume(point->checkpoint));
    EXPECT_EQ(pipeline->progress().train_iter, 29);
    return pipeline->Run(result);
  };
  const EpisodeSet other = MakeDemonstrations(9);
  Write(other);
  SerialResult resumed;
  EXPECT_THAT(resume(&resumed), StatusIs(absl::StatusCode::kInvalidArgument,
                                         AllOf(HasSubstr("resume point, data_set"),
                                               HasSubstr("other content than when"))));
  Write(MakeDemonstrations(8));
  ASSERT_THAT(resume(&resumed), IsOk());
  EXPECT_EQ(Model("iteration_60"), model);
  EXPECT_EQ(resumed.metric.Get("accuracy"), whole.metric.Get("accuracy"));
}

// A run that was stopped by its metric does not continue.
TEST_F(SupervisedPipelineTest, AStopIsRemembered) {
  stop_accuracy_ = 0.01;
  SerialResult result;
  ASSERT_THAT(Run({}, &result), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::optional<ResumePoint> point, OpenNewestResumePoint(folder_));
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SupervisedPipeline> pipeline, Create());
  ASSERT_THAT(pipeline->Resume(point->checkpoint), IsOk());
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_TRUE(result.stop);
  EXPECT_EQ(result.train_iter, 10);
}

TEST_F(SupervisedPipelineTest, AnInterruptSavesACheckpoint) {
  int asked = 0;
  options_.interrupted = [&asked] { return ++asked > 5; };
  SerialResult result;
  ASSERT_THAT(Run({}, &result), IsOk());
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.train_iter, 5);
  EXPECT_THAT(CheckpointReader::Open(Checkpoint("ckpt_interrupt")), IsOk());
  EXPECT_THAT(CheckpointReader::Open(Checkpoint("resume_5")), IsOk());
}

class NanMetric : public IMetric {
 public:
  absl::StatusOr<NamedValues> Eval(const ColumnsView&, const ColumnsView&) const override {
    return NamedValues{{"odd", std::numeric_limits<double>::quiet_NaN()}};
  }
  bool GreaterOrEqual(const NamedValues&, const NamedValues&) const override { return true; }
};

// A metric that a user registers: the share of wrong rows.
class ErrorRate : public IMetric {
 public:
  absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                   const ColumnsView& label) const override {
    DING_ASSIGN_OR_RETURN(const NamedValues right, ActionAccuracy().Eval(output, label));
    return NamedValues{{"error_rate", 1 - right.GetOr("accuracy", 0)}};
  }
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override {
    return a.GetOr("error_rate", 1) <= b.GetOr("error_rate", 1);
  }
};

DING_REGISTER(MetricRegistry(), "error_rate", std::make_shared<const ErrorRate>(),
              "share of wrong rows");

TEST_F(SupervisedPipelineTest, JudgesByTheMetricOfTheConfig) {
  SerialResult result;
  ASSERT_THAT(Run({"policy.eval.metric_evaluator.metric=error_rate"}, &result), IsOk());
  ASSERT_TRUE(result.metric.Get("error_rate").has_value());
  EXPECT_FALSE(result.metric.Get("accuracy").has_value());
  EXPECT_THAT(sink_->ValuesOf("metric_evaluator_iter/error_rate"), Not(testing::IsEmpty()));
}

TEST_F(SupervisedPipelineTest, AMetricThatIsNanEndsTheRunAndIsNamed) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SupervisedPipeline> pipeline, Create());
  const NanMetric metric;
  ASSERT_THAT(pipeline->SetMetric(&metric), IsOk());
  SerialResult result;
  EXPECT_THAT(pipeline->Run(&result),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("metric 'odd' is NaN")));
}

TEST_F(SupervisedPipelineTest, ADataSetThatCannotBeUsedIsRefused) {
  const auto is_refused = [this](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(Path()), HasSubstr(what)));
  };
  Write(MakeDemonstrations(1));
  EXPECT_THAT(Create(), is_refused("has 1 episode"));

  EpisodeSet wrong = MakeDemonstrations(4);
  BatchBuilder rows = *BatchBuilder::Create(wrong.episodes.rows.spec_ptr(), 4 * kDemonstrationRows);
  CopyRows(wrong.episodes.rows.view(), rows.view(), 0);
  rows.column<int64_t>(1)[33] = 2;
  wrong.episodes.rows = std::move(rows).Seal(4 * kDemonstrationRows);
  Write(wrong);
  EXPECT_THAT(Create(), is_refused("row 33"));

  Write(MakeDemonstrations(4));
  std::string content = *ReadFile(Path());
  ASSERT_THAT(WriteFileAtomically(Path(), content.substr(0, content.size() / 2)), IsOk());
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(Path())));
  content[content.size() / 2] ^= 1;
  ASSERT_THAT(WriteFileAtomically(Path(), content), IsOk());
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(Path())));
  ASSERT_THAT(WriteFileAtomically(Path(), ""), IsOk());
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(Path())));
  ASSERT_THAT(RemoveFile(Path()), IsOk());
  EXPECT_THAT(Create(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(Path()),
                             HasSubstr("tools/train worker/configs/cartpole_ppo.textproto "
                                       "--exp_dir=expert"),
                             HasSubstr("tools/evaluate expert --episodes=50 "
                                       "--record_episodes=" +
                                       Path()))));
}

TEST_F(SupervisedPipelineTest, OtherSpacesThanTheEnvsAreListed) {
  Write(MakeDemonstrations(4, "Walker", Box("obs", {4}), Discrete("action", 3)));
  EXPECT_THAT(Create({"env.type=Pendulum-v1"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("episodes of env 'Walker' do not fit env 'Pendulum-v1'"),
                             HasSubstr("its 'obs' is float32[4], expected float32[3]"),
                             HasSubstr("its 'action' is int64[] in 0..2, expected float32"))));
}

TEST_F(SupervisedPipelineTest, ConfigsOfOtherRunsAreRefused) {
  EXPECT_THAT(Create({"policy.type=random"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'random'")));
  EXPECT_THAT(Config({"max_env_step=5", "data_set.held_out=1", "policy.random_collect_size=3",
                      "policy.eval.metric_evaluator.eval_freq=0",
                      "policy.eval.metric_evaluator.metric=other",
                      "policy.eval.metric_evaluator.type=other"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("max_env_step is 5, expected 0"),
                             HasSubstr("data_set.held_out is 1"),
                             HasSubstr("policy.random_collect_size is 3"),
                             HasSubstr("metric_evaluator.eval_freq is 0"),
                             HasSubstr("metric_evaluator.metric: unknown metric type 'other'"),
                             HasSubstr("metric_evaluator.type: unknown"))));
  // This config has no data set.
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig config,
      Config({"env.type=CartPole-v0", "data_set.path=\"\"", "max_train_iter=1"}));
  EXPECT_THAT(CreatePipeline(config, options_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'bc'"), HasSubstr("data_set.path"))));
}

TEST_F(SupervisedPipelineTest, EnvsAndWrappersWithoutEffectAreRefused) {
  EXPECT_THAT(Create({"env.type=CartPole-v0",
                      "env.wrapper=[{type:'flatten'}, {type:'time_limit' in_evaluation:false}, "
                      "{type:'reward_scale' params {[type.googleapis.com/ding.RewardScaleConfig] "
                      "{scale: 2}}}, {type:'normalize_reward'}]"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("env.wrapper[1].in_evaluation is false"),
                             HasSubstr("env.wrapper[2].type is 'reward_scale'"),
                             HasSubstr("env.wrapper[3].type is 'normalize_reward'"),
                             Not(HasSubstr("env.wrapper[0]")))));
  EXPECT_THAT(Create({"env.stop_value=5", "env.manager.max_retry=2"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("env.stop_value is 5, which has no effect in a run with "
                                       "a data_set and without env.type"),
                             HasSubstr("env.manager.max_retry is 2"))));
}

TEST_F(SupervisedPipelineTest, ParamsReachTheMetricEvaluatorOfAUser) {
  std::string word;
  ScopedRegistration<MetricEvaluatorCreator> registration(
      &MetricEvaluatorRegistry(), "mine",
      [&word](const MetricEvaluatorConfig& config, IEvalData*, const IMetric*, EvalMode*,
              const ComponentDeps&) -> absl::StatusOr<std::unique_ptr<IMetricEvaluator>> {
        ding_user::WordParams params;
        DING_RETURN_IF_ERROR(ReadParams(config, &params));
        word = params.word();
        return absl::AbortedError("the params were read");
      });
  EXPECT_THAT(Create({"policy.eval.metric_evaluator.type=mine",
                      "policy.eval.metric_evaluator.params="
                      "{[type.googleapis.com/ding_user.WordParams]{word:\"hello\"}}"})
                  .status()
                  .message(),
              HasSubstr("the params were read"));
  EXPECT_EQ(word, "hello");
  EXPECT_THAT(
      Create({"policy.eval.metric_evaluator.params="
              "{[type.googleapis.com/ding_user.WordParams]{word:\"hello\"}}"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("params hold a ding_user.WordParams, but type 'metric' takes none")));
}

}  // namespace
}  // namespace ding
