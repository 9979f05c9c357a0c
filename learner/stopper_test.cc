// The stoppers of the registry, and a list of them.
#include "ding_worker/learner/stopper.h"

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/stopper.pb.h"
#include "ding_worker/learner/stopper_registry.h"
#include "gmock/gmock.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

google::protobuf::RepeatedPtrField<StopperConfig> Configs(const std::vector<std::string>& texts) {
  google::protobuf::RepeatedPtrField<StopperConfig> configs;
  for (const std::string& text : texts) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, configs.Add())) << text;
  }
  return configs;
}

std::string NoImprovement(const std::string& params) {
  return "type: 'no_improvement' params { [type.googleapis.com/ding.NoImprovementParams] {" +
         params + "} }";
}
std::string ValueReached(const std::string& params) {
  return "type: 'value_reached' params { [type.googleapis.com/ding.ValueReachedParams] {" + params +
         "} }";
}
std::string WallClock(const std::string& params) {
  return "type: 'wall_clock' params { [type.googleapis.com/ding.WallClockParams] {" + params +
         "} }";
}

StopperList Make(const std::vector<std::string>& texts) {
  absl::StatusOr<StopperList> list = StopperList::Create(Configs(texts), StopperDeps());
  EXPECT_THAT(list, IsOk());
  return *std::move(list);
}

// Says that an evaluation has this mean return.
std::string Why(double mean, StopperList* list) {
  Evaluation evaluation;
  evaluation.mean_return = mean;
  RunMoment now;
  now.evaluation = &evaluation;
  EXPECT_THAT(list->Ask(now), IsOk());
  return list->why();
}

TEST(StopperTest, NoImprovementCountsEvaluationsSinceTheBestOne) {
  StopperList list = Make({NoImprovement("evaluations: 3 min_delta: 1")});
  for (const double mean : {5.0, 6.0, 7.0, 7.5}) EXPECT_EQ(Why(mean, &list), "") << mean;
  EXPECT_THAT(list.Ask(RunMoment()), IsOk());  // There is no evaluation.
  EXPECT_EQ(Why(std::numeric_limits<double>::quiet_NaN(), &list), "");
  EXPECT_EQ(
      Why(8, &list),
      "stopper 'no_improvement': no evaluation of the last 3 was better than 7 by more than 1");
}

TEST(StopperTest, NoImprovementCountsAnewAfterABetterEvaluation) {
  StopperList list = Make({NoImprovement("evaluations: 2")});
  for (const double mean : {5.0, 5.0, 6.0, 1.0}) EXPECT_EQ(Why(mean, &list), "") << mean;
  EXPECT_THAT(Why(6, &list), HasSubstr("no evaluation of the last 2 was better than 6"));
}

TEST(StopperTest, ValueReached) {
  StopperList list = Make({ValueReached("value: -10")});
  EXPECT_EQ(Why(-10.5, &list), "");
  EXPECT_THAT(Why(-10, &list), HasSubstr("the mean return of an evaluation is -10"));
  EXPECT_THAT(Why(-11, &list), HasSubstr("is -10"));  // It stays.
}

// Asks about an evaluation in which half of the episodes have the value.
absl::Status Ask(const std::string& name, double mean, StopperList* list) {
  Evaluation evaluation;
  evaluation.mean_return = 1000;
  if (!name.empty()) evaluation.info[name] = {mean, 2};
  RunMoment now;
  now.evaluation = &evaluation;
  return list->Ask(now);
}

TEST(StopperTest, JudgesByAValueOfTheInfo) {
  StopperList list = Make({ValueReached("value: 0.9 info: 'success'")});
  EXPECT_THAT(Ask("success", 0.8, &list), IsOk());
  EXPECT_THAT(Ask("", 0, &list), IsOk()) << "an evaluation before had it";
  EXPECT_EQ(list.why(), "");
  EXPECT_THAT(Ask("success", 0.95, &list), IsOk());
  EXPECT_EQ(list.why(),
            "stopper 'value_reached': the mean info/success of an evaluation is 0.95, and reaches "
            "0.9");
  StopperList patient = Make({NoImprovement("evaluations: 2 info: 'success'")});
  for (const double mean : {0.5, 0.4, 0.5}) EXPECT_THAT(Ask("success", mean, &patient), IsOk());
  EXPECT_THAT(patient.why(), HasSubstr("no evaluation of the last 2 was better than 0.5"));
}

TEST(StopperTest, RefusesAValueThatNoEvaluationHas) {
  StopperList list = Make({ValueReached("value: 1 info: 'succes'")});
  EXPECT_THAT(Ask("success", 1, &list),
              IsInvalid("stopper 'value_reached': no episode of the evaluation has 'succes' in "
                        "its last info; expected one of success"));
}

TEST(StopperTest, ARunThatGoesOnKnowsThatAnEvaluationHadTheValue) {
  const std::string config = ValueReached("value: 1 info: 'success'");
  StopperList list = Make({config});
  ASSERT_THAT(Ask("success", 0.5, &list), IsOk());
  StateDict state;
  ASSERT_THAT(list.SaveState(&state), IsOk());
  StopperList again = Make({config});
  ASSERT_THAT(again.LoadState(&state), IsOk());
  EXPECT_THAT(Ask("", 0, &again), IsOk());
}

TEST(StopperTest, WallClock) {
  StopperList list = Make({WallClock("seconds: 90")});
  RunMoment now;
  now.elapsed = absl::Seconds(89);
  ASSERT_THAT(list.Ask(now), IsOk());
  EXPECT_EQ(list.why(), "");
  now.elapsed = absl::Seconds(90);
  ASSERT_THAT(list.Ask(now), IsOk());
  EXPECT_EQ(list.why(), "stopper 'wall_clock': it has taken 1m30s");
}

TEST(StopperTest, RefusesWhatCouldNeverStop) {
  StopperDeps deps;
  deps.max_return = 200;
  deps.max_time = absl::Seconds(60);
  deps.max_evaluations = 8;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {NoImprovement("evaluations: 0"), "evaluations is 0, expected at least 1"},
      {NoImprovement("evaluations: 2 min_delta: nan"), "min_delta is nan"},
      {NoImprovement("evaluations: 8"),
       "evaluations is 8, so that it could never stop: expected less than 8, as many as"},
      {ValueReached(""), "value is not set, so that it could never stop"},
      {ValueReached("value: inf"), "value is inf, so that it could never stop"},
      {ValueReached("value: 201"),
       "value is 201, so that it could never stop: expected at most 200"},
      {WallClock("seconds: 0"), "params.seconds is 0, expected above 0"},
      {WallClock(""), "params.seconds is not set, expected above 0"},
      {WallClock("seconds: 60"),
       "seconds is 60, so that it could never stop: expected less than system.max_seconds, 60"},
      {"type: 'wall_clok'", "wall_clok"},
      {"type: 'wall_clock' params { [type.googleapis.com/ding.ValueReachedParams] {} }",
       "ding.WallClockParams"},
  };
  for (const auto& [config, problem] : cases) {
    EXPECT_THAT(StopperList::Create(Configs({config}), deps), IsInvalid(problem)) << config;
  }
  deps.has_evaluations = false;
  for (const std::string& config : {NoImprovement(""), ValueReached("value: 1")}) {
    EXPECT_THAT(StopperList::Create(Configs({config}), deps),
                IsInvalid("it judges evaluations, but this run has none"));
  }
  EXPECT_THAT(StopperList::Create(Configs({WallClock("seconds: 1")}), deps), IsOk());
  deps.has_evaluations = true;
  EXPECT_THAT(StopperList::Create(Configs({NoImprovement("evaluations: 7")}), deps), IsOk());
}

TEST(StopperTest, ReportsAllProblems) {
  EXPECT_THAT(StopperList::Create(Configs({WallClock(""), NoImprovement("evaluations: 0")}), {}),
              IsInvalid("stopper 'wall_clock': params.seconds",
                        "stopper 'no_improvement': params.evaluations is 0"));
}

TEST(StopperTest, GoesOnFromASavedState) {
  const std::vector<std::string> texts = {WallClock("seconds: 90"),
                                          NoImprovement("evaluations: 3")};
  StopperList list = Make(texts);
  for (const double mean : {5.0, 4.0, 4.0}) EXPECT_EQ(Why(mean, &list), "");
  StateDict state;
  ASSERT_THAT(list.SaveState(&state), IsOk());
  StopperList same = Make(texts);
  ASSERT_THAT(same.LoadState(&state), IsOk());
  EXPECT_THAT(Why(4, &same), HasSubstr("no evaluation of the last 3 was better than 5"));
  // Saved again, it is the same.
  StopperList again = Make(texts);
  ASSERT_THAT(again.LoadState(&state), IsOk());
  StateDict saved_again;
  ASSERT_THAT(again.SaveState(&saved_again), IsOk());
  EXPECT_EQ(Why(4, &again), Why(4, &list));
  // One with another config begins anew, and one with the same goes on.
  StopperList other = Make({NoImprovement("evaluations: 2"), WallClock("seconds: 90")});
  ASSERT_THAT(other.LoadState(&state), IsOk());
  EXPECT_EQ(Why(4, &other), "");
  EXPECT_EQ(Why(4, &other), "");
  EXPECT_THAT(Why(4, &other), HasSubstr("no evaluation of the last 2 was better than 4"));
}

TEST(StopperTest, ARunThatWasStoppedStaysSoWithTheSameStoppers) {
  StopperList list = Make({ValueReached("value: 1")});
  const std::string why = Why(2, &list);
  StateDict state;
  ASSERT_THAT(list.SaveState(&state), IsOk());
  StopperList same = Make({ValueReached("value: 1")});
  ASSERT_THAT(same.LoadState(&state), IsOk());
  EXPECT_EQ(same.why(), why);
  StopperList other = Make({ValueReached("value: 3")});
  ASSERT_THAT(other.LoadState(&state), IsOk());
  EXPECT_EQ(other.why(), "");
  StateDict none;
  EXPECT_THAT(other.LoadState(&none), IsOk());  // of a run from before there were stoppers
}

class ThrowingStopper : public IStopper {
 public:
  std::string WhyStop(const RunMoment& /*now*/) override { throw std::runtime_error("no idea"); }
};

TEST(StopperTest, AnExceptionIsAnError) {
  const ScopedRegistration<StopperCreator> registration(
      &StopperRegistry(), "throwing",
      [](const StopperConfig&, const StopperDeps&) { return std::make_unique<ThrowingStopper>(); });
  StopperList list = Make({"type: 'throwing'"});
  EXPECT_THAT(list.Ask(RunMoment()), IsInternal("stopper 'throwing' threw an exception: no idea"));
}

TEST(ValueOfTest, IsTheMeanReturnOrTheMeanOfAnInfoValue) {
  Evaluation evaluation;
  evaluation.mean_return = 7;
  EXPECT_EQ(ValueOf(evaluation, "").value(), 7);
  EXPECT_THAT(ValueOf(evaluation, "success"), IsInvalid("expected an env that gives values"));
  evaluation.info = {{"length", {3, 2}}, {"success", {0.5, 4}}};
  EXPECT_EQ(ValueOf(evaluation, "success").value(), 0.5);
  EXPECT_THAT(ValueOf(evaluation, "succes"),
              IsInvalid("has 'succes' in its last info; expected one of length, success"));
}

TEST(EstimateReturnTest, HasTheStandardErrorOfTheMean) {
  const std::vector<double> returns = {1, 2, 3, 4};
  const ReturnEstimate estimate = EstimateReturn(returns, 2.5);
  EXPECT_EQ(estimate.episodes, 4);
  EXPECT_EQ(estimate.mean, 2.5);
  // The variance is (2.25 + 0.25 + 0.25 + 2.25) / 3.
  EXPECT_DOUBLE_EQ(estimate.standard_error, std::sqrt(5.0 / 3 / 4));
  EXPECT_DOUBLE_EQ(estimate.lower_bound(), 2.5 - std::sqrt(5.0 / 3 / 4));
}

TEST(EstimateReturnTest, EqualReturnsHaveNoError) {
  EXPECT_EQ(EstimateReturn(std::vector<double>(100, 200.0), 200).lower_bound(), 200);
}

TEST(EstimateReturnTest, AnotherScoreHasNoKnownError) {
  const ReturnEstimate estimate = EstimateReturn(std::vector<double>{0, 1}, 0.9);
  EXPECT_EQ(estimate.mean, 0.9);
  EXPECT_EQ(estimate.standard_error, 0);
}

TEST(EstimateReturnDeathTest, NeedsTwoReturns) {
  EXPECT_DEATH(EstimateReturn(std::vector<double>{1}, 1), "a deviation of 1 returns");
}

}  // namespace
}  // namespace ding
