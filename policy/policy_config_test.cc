#include "ding_worker/policy/policy_config.h"

#include <limits>
#include <string>
#include <vector>

#include "ding_worker/base/problems.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PolicyConfig, DefaultsAreLegal) {
  std::vector<std::string> problems;
  AppendProblems(PolicyConfig(), &problems);
  AppendProblems(ScheduleConfig(), "eps", &problems);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(ProblemsToStatus(problems, "policy"), IsOk());
}

TEST(PolicyConfig, ReportsAllProblemsAtOnce) {
  PolicyConfig config;
  config.set_batch_size(0);
  config.set_nstep(-2);
  config.set_n_sample(0);
  config.set_n_episode(0);
  config.set_unroll_len(0);
  config.set_discount_factor(std::numeric_limits<double>::quiet_NaN());
  ScheduleConfig eps;
  eps.set_decay(0);
  eps.set_end(std::numeric_limits<double>::infinity());
  std::vector<std::string> problems;
  AppendProblems(config, &problems);
  AppendProblems(eps, "eps", &problems);
  EXPECT_THAT(ProblemsToStatus(problems, "policy type 'x'"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy type 'x': batch_size is 0, must be at least 1"),
                             HasSubstr("nstep is -2"), HasSubstr("n_sample is 0"),
                             HasSubstr("n_episode is 0"), HasSubstr("unroll_len is 0"),
                             HasSubstr("discount_factor is nan, must be in [0, 1]"),
                             HasSubstr("eps.decay is 0, must be above 0"), HasSubstr("to inf"))));
}

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
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("type 'dqn'"), HasSubstr("ding.NetworkConfig"),
                             HasSubstr("ding.ScheduleConfig"))));
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

}  // namespace
}  // namespace ding
