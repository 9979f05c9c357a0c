#include "ding_worker/policy/policy_config.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
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
  EXPECT_THAT(CreatorOf(RefuseDecay)(config, PolicyContext()),
              StatusIs(absl::StatusCode::kInternal, "policy type 'mine': decay is 7"));
  DING_ASSERT_OK_AND_ASSIGN(const ActorDescription description,
                            DescriberOf(DescribeByDecay)(config, Spec()));
  EXPECT_EQ(description.head, "decay 7");

  config.mutable_params()->PackFrom(NetworkConfig());
  const auto is_refused =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ding.NetworkConfig"));
  EXPECT_THAT(CreatorOf(RefuseDecay)(config, PolicyContext()), is_refused);
  EXPECT_THAT(DescriberOf(DescribeByDecay)(config, Spec()), is_refused);
}

TEST(PolicyConfig, ReportsNumbersOutOfRangeAndWithoutEffect) {
  PolicyConfig config;
  config.set_type("mine");
  config.set_unroll_len(4);
  std::vector<std::string> problems;
  RequireSingleRows(config, &problems);
  RequireAtLeastZero(0, "zero", &problems);
  RequireAtLeastZero(std::numeric_limits<double>::infinity(), "rate", &problems);
  RequireAboveZero(0, "clip", &problems);
  RequireAtLeastOne(1, "one", &problems);
  RequireDefaultUnless(/*is_read=*/true, 2.0, 1.0, "read", "it", &problems);
  RequireDefaultUnless(/*is_read=*/false, true, false, "frozen", "statistics", &problems);
  EXPECT_THAT(problems,
              ElementsAre("unroll_len is 4, but mine learns from single rows: must be 1",
                          "rate is inf, must be finite and at least 0",
                          "clip is 0, must be finite and above 0",
                          "frozen is true, which has no effect without statistics: remove it"));
  EXPECT_THAT(StatusOf(problems), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("must be 1; rate is inf, must be finite")));
  EXPECT_THAT(StatusOf({}), IsOk());
}

}  // namespace
}  // namespace ding
