#include "ding_worker/policy/policy_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/schedule.h"
#include "ding_worker/policy/schedule_registry.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PolicyConfig, UnsetSizesStayUnset) {
  PolicyConfig config;
  EXPECT_FALSE(CollectAttributesFromConfig(config).n_sample.has_value());
  EXPECT_FALSE(CollectAttributesFromConfig(config).n_episode.has_value());
  config.set_n_sample(8);
  config.set_unroll_len(3);
  config.set_batch_size(32);
  config.set_priority(true);
  EXPECT_EQ(CollectAttributesFromConfig(config).n_sample, 8);
  EXPECT_EQ(CollectAttributesFromConfig(config).unroll_len, 3);
  EXPECT_EQ(LearnAttributesFromConfig(config).batch_size, 32);
  EXPECT_TRUE(LearnAttributesFromConfig(config).priority);
}

TEST(PolicyConfig, RefusesParamsOfAnotherTypeNamingBoth) {
  PolicyConfig config;
  config.set_type("dqn");
  ScheduleConfig params;
  EXPECT_THAT(UnpackParams(config, &params), IsOk());
  NetworkConfig other;
  config.mutable_params()->PackFrom(other);
  EXPECT_THAT(UnpackParams(config, &params),
              IsInvalid("type 'dqn'", "ding.NetworkConfig", "ding.ScheduleConfig"));
  ScheduleConfig packed;
  packed.set_decay(7);
  config.mutable_params()->PackFrom(packed);
  EXPECT_THAT(UnpackParams(config, &params), IsOk());
  EXPECT_EQ(params.decay(), 7);
}

TEST(PolicyConfig, ScheduleKeepsItsFields) {
  ScheduleConfig config;
  config.set_type(ScheduleConfig::LINEAR);
  config.set_start(1);
  config.set_end(0);
  config.set_decay(10);
  EXPECT_DOUBLE_EQ(ScheduleFromConfig(config).At(5), 0.5);
}

absl::StatusOr<std::unique_ptr<Policy>> RefuseDecay(const PolicyConfig& /*policy*/,
                                                    const ScheduleConfig& params,
                                                    const PolicyContext& /*context*/) {
  return absl::InternalError(absl::StrCat("decay is ", params.decay()));
}

absl::StatusOr<ActorDescription> DescribeByDecay(const PolicyConfig& /*policy*/,
                                                 const ScheduleConfig& params,
                                                 const Spec& /*action*/) {
  ActorDescription description;
  description.head = absl::StrCat("decay ", params.decay());
  return description;
}

TEST(PolicyConfig, CreatorAndDescriberReadTheParams) {
  PolicyConfig config;
  config.set_type("mine");
  ScheduleConfig params;
  params.set_decay(7);
  config.mutable_params()->PackFrom(params);
  const ScopedRegistration<PolicyCreator> mine(&PolicyRegistry(), "mine", RefuseDecay);
  EXPECT_THAT(create_policy(config, PolicyContext()),
              StatusIs(absl::StatusCode::kInternal, "policy type 'mine': decay is 7"));
  DING_ASSERT_OK_AND_ASSIGN(const ActorDescription description,
                            DescriberOf(DescribeByDecay)(config, Spec()));
  EXPECT_EQ(description.head, "decay 7");

  config.mutable_params()->PackFrom(NetworkConfig());
  const auto is_refused = IsInvalid("ding.NetworkConfig");
  EXPECT_THAT(create_policy(config, PolicyContext()), is_refused);
  EXPECT_THAT(DescriberOf(DescribeByDecay)(config, Spec()), is_refused);
}

TEST(PolicyConfig, CreatorReportsAllFieldsOutOfTheirRanges) {
  PolicyConfig config;
  config.set_type("mine");
  config.set_batch_size(0);
  config.set_nstep(-2);
  config.set_n_sample(0);
  config.set_n_episode(0);
  config.set_unroll_len(0);
  config.set_discount_factor(std::numeric_limits<double>::quiet_NaN());
  ScheduleConfig params;
  params.set_end(std::numeric_limits<double>::infinity());
  params.set_decay(0);
  config.mutable_params()->PackFrom(params);
  const ScopedRegistration<PolicyCreator> mine(&PolicyRegistry(), "mine", RefuseDecay);
  EXPECT_THAT(create_policy(config, PolicyContext()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "policy type 'mine': batch_size is 0, expected at least 1; n_sample is 0, "
                       "expected at least 1; n_episode is 0, expected at least 1; unroll_len is 0, "
                       "expected at least 1; discount_factor is nan, expected in [0, 1]; nstep is "
                       "-2, expected at least 1; params.end is inf, expected finite and in [0, 1]; "
                       "params.decay is 0, expected above 0"));
}

TEST(PolicyConfig, ReportsNumbersWithoutEffect) {
  PolicyConfig config;
  config.set_type("mine");
  config.set_unroll_len(4);
  std::vector<std::string> problems;
  RequireSingleRows(config, &problems);
  RequireDefaultUnless(/*is_read=*/true, 2.0, 1.0, "read", "it", &problems);
  RequireDefaultUnless(/*is_read=*/false, true, false, "frozen", "statistics", &problems);
  EXPECT_THAT(problems,
              ElementsAre("unroll_len is 4, but mine learns from single rows: must be 1",
                          "frozen is true, which has no effect without statistics: remove it"));
}

TEST(Schedule, ExpMovesFromStartTowardsEnd) {
  const Schedule schedule{ScheduleKind::kExp, 0.95, 0.1, 10000};
  EXPECT_DOUBLE_EQ(schedule.At(0), 0.95);
  EXPECT_NEAR(schedule.At(10000), 0.1 + 0.85 * 0.36787944117, 1e-10);
  EXPECT_NEAR(schedule.At(5000), 0.1 + 0.85 * 0.60653065971, 1e-10);
  EXPECT_NEAR(schedule.At(1e9), 0.1, 1e-12);
}

TEST(Schedule, LinearReachesEndAfterDecayStepsAndStaysThere) {
  const Schedule schedule{ScheduleKind::kLinear, 1.0, 0.2, 400};
  EXPECT_DOUBLE_EQ(schedule.At(0), 1.0);
  EXPECT_DOUBLE_EQ(schedule.At(100), 0.8);
  EXPECT_DOUBLE_EQ(schedule.At(400), 0.2);
  EXPECT_DOUBLE_EQ(schedule.At(4000), 0.2);
}

TEST(Schedule, MayRise) {
  EXPECT_DOUBLE_EQ((Schedule{ScheduleKind::kLinear, 0.4, 1.0, 10}).At(5), 0.7);
}

TEST(Schedule, IsTheStartBeforeTheFirstStep) {
  EXPECT_DOUBLE_EQ((Schedule{ScheduleKind::kLinear, 1, 0, 10}).At(-1), 1);
  EXPECT_DOUBLE_EQ((Schedule{ScheduleKind::kExp, 1, 0, 10}).At(-1), 1);
}

constexpr double kRate = 0.1;  // the learning rate of the config

// A user's own schedule; it leaves the range between its ends.
class Bump : public ISchedule {
 public:
  explicit Bump(const ScheduleRange& range) : range_(range) {}
  double At(double x) const override {
    const double share = x / range_.steps;
    return range_.start - 4 * share * (1 - share);
  }

 private:
  const ScheduleRange range_;
};

DING_REGISTER(
    ScheduleRegistry(), "bump",
    [](const FieldScheduleConfig&, const ScheduleRange& range) {
      return std::make_unique<Bump>(range);
    },
    "falls by 1 and comes back");

class FieldSchedulesTest : public ::testing::Test {
 protected:
  // Makes schedules of "learning_rate" (setting "lr", at least 0), "eps" (a probability of the
  // collect mode) and "target" (any finite number) from the schedules of `text`.
  FieldSchedules Make(const std::string& text) {
    PolicyConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
    ChangingField rate = {"learning_rate", "lr", kRate};
    rate.rival = rival_;
    ChangingField eps = {"eps", "eps", 0.5, /*collects=*/true};
    eps.most = 1;
    ChangingField target = {"target", "target", -1};
    target.least = -std::numeric_limits<double>::infinity();
    problems_.clear();
    return CreateFieldSchedules(config, {rate, eps, target}, &problems_);
  }

  // Returns the setting at these env steps and train iterations.
  static double At(const FieldSchedules& schedules, double env_step, double train_iter = 0) {
    NamedValues settings;
    schedules.AddLearnSettings({{"envstep", env_step}, {"learner_step", train_iter}}, &settings);
    return settings.GetOr("lr", -1);
  }

  std::string rival_;
  std::vector<std::string> problems_;
};

TEST_F(FieldSchedulesTest, GiveNoSettingsWithoutSchedules) {
  const FieldSchedules schedules = Make("");
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_FALSE(schedules.changes());
  NamedValues settings;
  schedules.AddLearnSettings({{"envstep", 5}}, &settings);
  schedules.AddCollectSettings({{"envstep", 5}}, &settings);
  EXPECT_TRUE(settings.empty());
}

TEST_F(FieldSchedulesTest, EachTypeIsItsFormula) {
  struct Case {
    const char* text;
    double (*expected)(double share);
  };
  const Case kCases[] = {
      {"type: 'linear' end: 0.02", [](double s) { return 0.1 + s * (0.02 - 0.1); }},
      {"type: 'linear'", [](double s) { return 0.1 * (1 - s); }},
      {"type: 'linear' start: 0.3 end: 0.4", [](double s) { return 0.3 + 0.1 * s; }},
      {"type: 'cosine' end: 0.02",
       [](double s) { return 0.02 + 0.08 * std::pow(std::cos(M_PI * s / 2), 2); }},
      {"type: 'exponential' end: 0.001",
       [](double s) { return std::exp(std::log(0.1) + s * std::log(0.01)); }},
      {"type: 'step' end: 0.05", [](double s) { return s < 1 ? 0.1 : 0.05; }},
      {"type: 'constant'", [](double) { return 0.1; }},
      {"type: 'warm_up'", [](double s) { return 0.1 * s; }},
      {"type: 'warm_up' start: 0.05 end: 0.2", [](double s) { return 0.05 + 0.15 * s; }},
  };
  for (const Case& c : kCases) {
    const FieldSchedules schedules =
        Make(std::string("schedule { field: 'learning_rate' steps: 800 ") + c.text + "}");
    ASSERT_THAT(problems_, IsEmpty()) << c.text;
    for (const double step : {-1.0, 0.0, 1.0, 100.0, 399.5, 799.0, 800.0, 801.0, 1e9}) {
      const double share = std::min(std::max(step / 800, 0.0), 1.0);
      EXPECT_NEAR(At(schedules, step), c.expected(share), 1e-15) << c.text << ", step " << step;
    }
  }
}

TEST_F(FieldSchedulesTest, SeveralOfAFieldFollowEachOther) {
  const FieldSchedules schedules = Make(R"(
      schedule { field: "learning_rate" type: "warm_up" steps: 100 }
      schedule { field: "eps" type: "linear" end: 0.1 steps: 10 }
      schedule { field: "learning_rate" type: "step" end: 0.01 steps: 50 }
      schedule { field: "learning_rate" type: "linear" end: 0.005 steps: 100 })");
  ASSERT_THAT(problems_, IsEmpty());
  EXPECT_DOUBLE_EQ(At(schedules, 50), 0.05);
  EXPECT_DOUBLE_EQ(At(schedules, 100), 0.1);
  EXPECT_DOUBLE_EQ(At(schedules, 149), 0.1);
  EXPECT_DOUBLE_EQ(At(schedules, 150), 0.01);
  EXPECT_DOUBLE_EQ(At(schedules, 200), 0.0075);
  EXPECT_DOUBLE_EQ(At(schedules, 1000), 0.005);
  NamedValues collect;
  schedules.AddCollectSettings({{"envstep", 5}}, &collect);
  ASSERT_EQ(collect.size(), 1u) << "the settings of the learn mode are not the collector's";
  EXPECT_DOUBLE_EQ(*collect.Get("eps"), 0.3);
}

TEST_F(FieldSchedulesTest, CountTrainIterationsIfTheConfigSaysSo) {
  const FieldSchedules schedules =
      Make("schedule { field: 'learning_rate' type: 'linear' steps: 10 unit: TRAIN_ITER }");
  EXPECT_DOUBLE_EQ(At(schedules, /*env_step=*/1000, /*train_iter=*/4), 0.06);
}

TEST_F(FieldSchedulesTest, RefuseAScheduleThatNeverEnds) {
  for (const char* const steps : {"", "steps: 0", "steps: -5", "steps: inf", "steps: nan"}) {
    Make(std::string("schedule { field: 'learning_rate' type: 'linear' ") + steps + "}");
    EXPECT_THAT(problems_,
                ElementsAre(HasSubstr("schedule[0], 'linear' of learning_rate: its steps")))
        << steps;
    EXPECT_THAT(problems_, ElementsAre(HasSubstr("so that it never ends"))) << steps;
  }
}

TEST_F(FieldSchedulesTest, RefuseValuesThatTheFieldCannotHave) {
  const auto refused = [this](const std::string& text, const std::string& problem) {
    Make("schedule { steps: 100 " + text + "}");
    EXPECT_THAT(problems_, ElementsAre(HasSubstr(problem))) << text;
  };
  refused("field: 'learning_rate' type: 'linear' end: -0.1",
          "steps is -0.000195313, but learning_rate must be at least 0");
  refused("field: 'learning_rate' type: 'linear' end: nan", "its end is nan");
  refused("field: 'learning_rate' type: 'linear' start: inf", "its start is inf");
  refused("field: 'eps' type: 'linear' end: 1.5", "but eps must be in [0, 1]");
  refused("field: 'learning_rate' type: 'bump'", "but learning_rate must be at least 0");
  refused("field: 'learning_rate' type: 'exponential'", "expected two values above 0");
  refused("field: 'learning_rate' type: 'constant' end: 1", "remove end, or take type 'step'");
  Make("schedule { steps: 100 field: 'target' type: 'bump' }");
  EXPECT_THAT(problems_, IsEmpty()) << "a target may be below 0";
}

TEST_F(FieldSchedulesTest, RefuseWhatTheyDoNotKnow) {
  Make("schedule { steps: 100 field: 'rate' type: 'linear' }");
  EXPECT_THAT(problems_,
              ElementsAre("schedule[0].field is 'rate', expected a field that may change: "
                          "learning_rate, eps, target"));
  Make("schedule { steps: 100 field: 'eps' type: 'quadratic' }");
  EXPECT_THAT(problems_,
              ElementsAre(HasSubstr("unknown schedule type 'quadratic'; this program has: bump, "
                                    "constant, cosine, exponential, linear, step, warm_up")));
  Make(R"(schedule { steps: 100 field: "eps" type: "linear" }
          schedule { steps: 100 field: "eps" type: "linear" unit: TRAIN_ITER })");
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("its unit is TRAIN_ITER, expected that of the "
                                               "schedule before, ENV_STEP")));
  Make(R"(schedule { steps: 100 field: "eps" type: "linear"
            params { [type.googleapis.com/ding.NetworkConfig] {} } })");
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("but type 'linear' takes none")));
  rival_ = "lr_decay_env_steps";
  Make("schedule { steps: 100 field: 'learning_rate' type: 'linear' }");
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("lr_decay_env_steps changes learning_rate, too")));
}

TEST_F(FieldSchedulesTest, TakeAScheduleOfOnesOwn) {
  Make("schedule { steps: 100 field: 'learning_rate' type: 'bump' start: 2 }");
  ASSERT_THAT(problems_, IsEmpty());
  EXPECT_DOUBLE_EQ(
      At(Make("schedule { steps: 100 field: 'learning_rate' type: 'bump' start: 2 }"), 50), 1);
}

}  // namespace
}  // namespace ding
