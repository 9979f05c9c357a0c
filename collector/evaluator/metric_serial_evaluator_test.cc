#include "ding_worker/collector/evaluator/metric_serial_evaluator.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using Options = MetricSerialEvaluator::Options;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Batch Filled(SpecPtr spec, const std::vector<int64_t>& actions) {
  const int64_t rows = static_cast<int64_t>(actions.size());
  BatchBuilder builder = *BatchBuilder::Create(std::move(spec), std::max<int64_t>(rows, 1));
  if (builder.spec().field(0).is_discrete()) {
    std::copy(actions.begin(), actions.end(), builder.column<int64_t>(0).begin());
  } else {
    for (float& value : builder.column<float>(0)) value = 0;
  }
  return std::move(builder).Seal(rows);
}

LabelledBatch Labelled(const std::vector<int64_t>& actions) {
  return {Filled(MakeSpec({Box("obs", {1})}).value(), actions),
          Filled(MakeSpec({Discrete("action", 4)}).value(), actions)};
}

struct Fixture {
  explicit Fixture(std::vector<LabelledBatch> batches, Options options = {},
                   const IMetric* metric = nullptr)
      : data(std::move(batches)) {
    deps.metrics = sink;
    deps.name = "eval";
    evaluator = *MetricSerialEvaluator::Create(
        options, &data, metric != nullptr ? metric : &accuracy, &policy, deps);
  }
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  EvalDataInMemory data;
  ActionAccuracy accuracy;
  FakePolicy policy;  // whose actions are 0, 1, 2, 3, 0, ...
  std::unique_ptr<MetricSerialEvaluator> evaluator;
};

EvalOptions At(int64_t train_iter) {
  EvalOptions options;
  options.train_iter = train_iter;
  options.envstep = 10 * train_iter;
  return options;
}

TEST(MetricSerialEvaluatorTest, APerfectPolicyStopsTheTraining) {
  Options options;
  options.stop_value = {{"accuracy", 0.75}};
  Fixture f({Labelled({0, 1, 2, 3}), Labelled({0, 1})}, options);
  EXPECT_TRUE(f.evaluator->ShouldEval(0));
  EXPECT_FALSE(f.evaluator->ShouldEval(49));
  DING_ASSERT_OK_AND_ASSIGN(const MetricEvalResult first, f.evaluator->Eval(At(0)));
  EXPECT_EQ(first.metric.Get("accuracy"), 1.0);
  EXPECT_FALSE(first.stop) << "before training";
  f.policy.rows = 0;
  DING_ASSERT_OK_AND_ASSIGN(const MetricEvalResult second, f.evaluator->Eval(At(1)));
  EXPECT_TRUE(second.stop);
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/accuracy"), ElementsAre(1, 1));
  EXPECT_THAT(f.sink->ValuesOf("eval_step/data_length"), ElementsAre(6, 6));
}

// A metric of a user that throws in the function of this name.
class ThrowingMetric : public ActionAccuracy {
 public:
  explicit ThrowingMetric(std::string function) : function_(std::move(function)) {}
  absl::StatusOr<NamedValues> Eval(const ColumnsView& output,
                                   const ColumnsView& label) const override {
    ThrowIn("Eval");
    return ActionAccuracy::Eval(output, label);
  }
  NamedValues ReduceMean(absl::Span<const NamedValues> values,
                         absl::Span<const int64_t> rows) const override {
    ThrowIn("ReduceMean");
    return ActionAccuracy::ReduceMean(values, rows);
  }
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override {
    ThrowIn("GreaterOrEqual");
    return ActionAccuracy::GreaterOrEqual(a, b);
  }

 private:
  void ThrowIn(const std::string& function) const {
    if (function == function_) throw std::runtime_error("out of ideas");
  }
  const std::string function_;
};

TEST(MetricSerialEvaluatorTest, AMetricThatThrowsIsAnError) {
  Options options;
  options.stop_value = {{"accuracy", 0.75}};
  for (const char* const function : {"Eval", "ReduceMean", "GreaterOrEqual"}) {
    const ThrowingMetric metric(function);
    Fixture f({Labelled({0, 1})}, options, &metric);
    EXPECT_THAT(f.evaluator->Eval(At(1)).status(),
                StatusIs(absl::StatusCode::kInternal,
                         AllOf(testing::StartsWith("eval: "),
                               HasSubstr("metric: it threw an exception: out of ideas"))))
        << function;
  }
}

TEST(MetricSerialEvaluatorTest, AShortBatchCountsByItsRows) {
  // 3 of 4 rows are right in one batch and 0 of 1 in the other.
  Fixture f({Labelled({0, 1, 2, 0}), Labelled({3})});
  DING_ASSERT_OK_AND_ASSIGN(const MetricEvalResult result, f.evaluator->Eval(At(1)));
  EXPECT_DOUBLE_EQ(*result.metric.Get("accuracy"), 3 / 5.0);
  EXPECT_FALSE(result.stop) << "without a stop value";
}

TEST(MetricSerialEvaluatorTest, SavesTheBest) {
  Fixture f({Labelled({0, 1, 2, 3})});
  int saved = 0;
  EvalOptions options = At(1);
  options.save_checkpoint = [&](absl::string_view name) {
    EXPECT_EQ(name, "ckpt_best");
    ++saved;
    return absl::OkStatus();
  };
  const auto eval = [&](int64_t first_action) {
    f.policy.rows = first_action;
    EXPECT_THAT(f.evaluator->Eval(options), IsOk());
    return saved;
  };
  EXPECT_EQ(eval(1), 1) << "the first, with nothing right";
  EXPECT_EQ(eval(0), 2);
  EXPECT_EQ(eval(1), 2);
  EXPECT_EQ(eval(0), 3) << "as good as the best";

  StateDict state;
  ASSERT_THAT(f.evaluator->SaveState(&state), IsOk());
  Fixture resumed({Labelled({0, 1, 2, 3})});
  ASSERT_THAT(resumed.evaluator->LoadState(&state), IsOk());
  resumed.policy.rows = 1;
  EXPECT_THAT(resumed.evaluator->Eval(options), IsOk());
  EXPECT_EQ(saved, 3);
  options.save_checkpoint = [](absl::string_view) { return absl::ResourceExhaustedError("full"); };
  resumed.policy.rows = 0;
  EXPECT_THAT(resumed.evaluator->Eval(options),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("saving ckpt_best")));
}

// A metric whose values a test sets.
class FixedMetric : public IMetric {
 public:
  absl::StatusOr<NamedValues> Eval(const ColumnsView&, const ColumnsView&) const override {
    if (throws) throw std::runtime_error("thrown");
    return NamedValues{{"good", 1.0}, {"loss", value}};
  }
  bool GreaterOrEqual(const NamedValues& a, const NamedValues& b) const override {
    return a.GetOr("loss", 0) <= b.GetOr("loss", 0);
  }
  double value = 0;
  bool throws = false;
};

// Without this check a misspelt name would stop training at once.
TEST(MetricSerialEvaluatorTest, RefusesAStopValueThatTheMetricDoesNotHave) {
  Options options;
  options.stop_value = {{"acuracy", 0.9}};
  Fixture f({Labelled({3})}, options);
  EXPECT_THAT(f.evaluator->Eval(At(1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'acuracy'"), HasSubstr("gives accuracy 0"))));
}

TEST(MetricSerialEvaluatorTest, KeepsTheLastResult) {
  Options options;
  options.stop_value = {{"accuracy", 0.5}};
  Fixture f({Labelled({0, 1})}, options);
  EXPECT_FALSE(f.evaluator->last().has_value());
  StateDict none;
  ASSERT_THAT(f.evaluator->SaveState(&none), IsOk());
  ASSERT_THAT(f.evaluator->Eval(At(1)), IsOk());
  StateDict state;
  ASSERT_THAT(f.evaluator->SaveState(&state), IsOk());
  Fixture resumed({Labelled({0, 1})}, options);
  ASSERT_THAT(resumed.evaluator->LoadState(&state), IsOk());
  ASSERT_TRUE(resumed.evaluator->last().has_value());
  EXPECT_TRUE(resumed.evaluator->last()->stop);
  EXPECT_EQ(resumed.evaluator->last()->metric.Get("accuracy"), 1.0);
  ASSERT_THAT(resumed.evaluator->LoadState(&none), IsOk());
  EXPECT_FALSE(resumed.evaluator->last().has_value());
}

TEST(MetricSerialEvaluatorTest, ResetDropsTheResultsAndTheTimeOfTheLastEvaluation) {
  Fixture f({Labelled({0, 1})});
  int saved = 0;
  EvalOptions options = At(1);
  options.save_checkpoint = [&saved](absl::string_view) {
    ++saved;
    return absl::OkStatus();
  };
  ASSERT_TRUE(f.evaluator->ShouldEval(0));
  ASSERT_THAT(f.evaluator->Eval(options), IsOk());
  ASSERT_EQ(saved, 1);

  ASSERT_THAT(f.evaluator->Reset(nullptr, nullptr, nullptr), IsOk());
  EXPECT_FALSE(f.evaluator->last().has_value());
  EXPECT_TRUE(f.evaluator->ShouldEval(0));
  f.policy.rows = 1;  // Its actions are wrong from here on.
  DING_ASSERT_OK_AND_ASSIGN(const MetricEvalResult worse, f.evaluator->Eval(options));
  EXPECT_EQ(worse.metric.Get("accuracy"), 0.0);
  EXPECT_EQ(saved, 2) << "the first result after a reset is the best";

  FakePolicy policy;
  EvalDataInMemory data({Labelled({0, 1, 2, 3})});
  const FixedMetric metric;
  ASSERT_THAT(f.evaluator->Reset(&policy, &data, &metric), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const MetricEvalResult other, f.evaluator->Eval(options));
  EXPECT_EQ(other.metric.Get("good"), 1.0);
  EXPECT_EQ(policy.rows, 4);

  EvalDataInMemory none({});
  EXPECT_THAT(f.evaluator->Reset(nullptr, &none, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("eval: the data have no")));
  EXPECT_TRUE(f.evaluator->last().has_value()) << "nothing has changed";
}

TEST(ActionSquaredErrorTest, IsTheMeanOverElementsAndLessIsBetter) {
  const SpecPtr spec = MakeSpec({Box("action", {2})}).value();
  const auto actions = [&spec](const std::vector<float>& values) {
    BatchBuilder builder = *BatchBuilder::Create(spec, 2);
    std::copy(values.begin(), values.end(), builder.column<float>(0).begin());
    return std::move(builder).Seal(2);
  };
  const ActionSquaredError error;
  const Batch a = actions({0, 1, 2, 3});
  const Batch b = actions({0, 3, 2, 0});
  DING_ASSERT_OK_AND_ASSIGN(const NamedValues value, error.Eval(a.view(), b.view()));
  EXPECT_EQ(value.Get("action_mse"), (4 + 9) / 4.0);
  EXPECT_TRUE(error.GreaterOrEqual({{"action_mse", 1}}, value));
  EXPECT_FALSE(error.GreaterOrEqual(value, {{"action_mse", 1}}));
  const LabelledBatch categories = Labelled({0, 1});
  EXPECT_THAT(error.Eval(categories.label.view(), categories.label.view()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected float32")));
}

TEST(MetricSerialEvaluatorTest, NamesANanValue) {
  FixedMetric metric;
  metric.value = std::numeric_limits<double>::quiet_NaN();
  Fixture f({Labelled({0})}, {}, &metric);
  EXPECT_THAT(f.evaluator->Eval(At(1)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("eval: metric 'loss' is NaN")));
  metric.throws = true;
  EXPECT_THAT(f.evaluator->Eval(At(1)),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("batch 0"), HasSubstr("metric: it threw"))));
}

TEST(MetricSerialEvaluatorTest, NamesProblemsOfTheData) {
  FakePolicy policy;
  const ActionAccuracy accuracy;
  EvalDataInMemory none({});
  Options bad;
  bad.eval_freq = 0;
  bad.stop_value = {{"accuracy", std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_THAT(
      MetricSerialEvaluator::Create(bad, &none, nullptr, nullptr, {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("eval_freq is 0"), HasSubstr("'accuracy' is NaN"),
                     HasSubstr("no batches"), HasSubstr("no metric"), HasSubstr("no policy"))));
  Fixture f({Labelled({0})});
  EXPECT_THAT(f.evaluator->ResetData(nullptr, &accuracy),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no data")));
  LabelledBatch short_of_labels = Labelled({0, 1});
  short_of_labels.label = short_of_labels.label.Slice(0, 1);
  EvalDataInMemory data({Labelled({0}), short_of_labels});
  ASSERT_THAT(f.evaluator->ResetData(&data, &accuracy), IsOk());
  EXPECT_THAT(f.evaluator->Eval(At(1)), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("eval: batch 1: 2 rows and 1 labels")));
  LabelledBatch other_type = Labelled({0});
  other_type.label = other_type.input;
  EvalDataInMemory floats({other_type});
  ASSERT_THAT(f.evaluator->ResetData(&floats, &accuracy), IsOk());
  EXPECT_THAT(f.evaluator->Eval(At(1)), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("the label 'obs' is float32")));
}

TEST(MetricSerialEvaluatorTest, PolicyErrorsNameThePolicy) {
  Fixture f({Labelled({0})});
  f.policy.on_forward = [](absl::Span<const int>) { return absl::DataLossError("lost"); };
  EXPECT_THAT(f.evaluator->Eval(At(1)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("batch 0: policy: lost")));
}

}  // namespace
}  // namespace ding
