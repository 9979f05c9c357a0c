// This test is linked statically, like programs, so that a missing alwayslink is found.
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& params) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: 'cql' params { [type.googleapis.com/ding.CqlConfig] { ", params, " } }"),
      &config));
  PolicyContext context;
  context.observation = VectorObservation();
  context.action = DiscreteAction();
  return create_policy(config, context);
}

TEST(CqlFactory, LearnsFromTheTransitionsOfADataSet) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create("alpha: 2"));
  EXPECT_TRUE(policy->learn_mode()->attributes().supervised);
  EXPECT_TRUE(policy->learn_mode()->attributes().transitions);
  EXPECT_THAT(policy->learn_mode()->info(), HasSubstr("double cql on mlp 4-128-128-64, q 64-3"));
}

TEST(CqlFactory, RefusesFieldsOutOfTheirRangesAndWithoutEffect) {
  EXPECT_THAT(Create("alpha: -1 dqn { learning_rate: -2 }"),
              IsInvalid("policy type 'cql'", "alpha is -1", "dqn.learning_rate is -2"));
  EXPECT_THAT(Create("dqn { eps { start: 0.5 } }"),
              IsInvalid("policy type 'cql'",
                        "dqn.eps (type, start, end, decay) has no effect, because "
                        "cql learns from recorded"));
}

}  // namespace
}  // namespace ding
