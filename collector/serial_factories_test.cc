// Creates every serial collector and evaluator of this package by its name.
#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/metrics/component.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsSupersetOf;

TEST(SerialFactoriesTest, NamesAreRegistered) {
  EXPECT_THAT(SerialCollectorRegistry().Names(), IsSupersetOf({"sample"}));
  EXPECT_THAT(SerialEvaluatorRegistry().Names(), IsSupersetOf({"interaction"}));
}

TEST(SerialFactoriesTest, CreatesTheDefaultCollector) {
  FakeEnvManager envs({});
  FakePolicy policy;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      create_serial_collector(SerialCollectorConfig(), &envs, &policy, ComponentDeps()));
  CollectOptions options;
  options.target = 6;
  EXPECT_THAT(collector->Collect(options), IsOk());
}

TEST(SerialFactoriesTest, DescribesTheCollector) {
  SerialCollectorConfig config;
  config.set_type("sample");
  DING_ASSERT_OK_AND_ASSIGN(const SerialCollectorDescriptor descriptor,
                            get_serial_collector_cls(config));
  EXPECT_EQ(descriptor.name, "sample");
  EXPECT_EQ(descriptor.default_config.collect_print_freq(), 100);
  config.set_type("samples");
  EXPECT_THAT(get_serial_collector_cls(config),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("sample")));
}

TEST(SerialFactoriesTest, CreatesTheDefaultEvaluator) {
  FakeEnvManager envs({});
  FakePolicy policy;
  SerialEvaluatorConfig config;
  config.set_eval_freq(7);
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            create_serial_evaluator(config, &envs, &policy, ComponentDeps()));
  EXPECT_TRUE(evaluator->ShouldEval(0));
  EXPECT_FALSE(evaluator->ShouldEval(6));
  EXPECT_TRUE(evaluator->ShouldEval(7));
  EXPECT_THAT(evaluator->Eval({}), IsOk());
}

TEST(SerialFactoriesTest, ReportsAllProblemsAtOnce) {
  FakeEnvManager envs({});
  FakePolicy policy;
  SerialCollectorConfig collector;
  collector.set_collect_print_freq(0);
  collector.set_max_abnormal(-1);
  collector.mutable_params();
  EXPECT_THAT(create_serial_collector(collector, &envs, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("collect_print_freq is 0"), HasSubstr("max_abnormal is -1"),
                             HasSubstr("params"))));
  SerialEvaluatorConfig evaluator;
  evaluator.set_eval_freq(0);
  evaluator.set_n_episode(0);
  evaluator.mutable_params();
  EXPECT_THAT(create_serial_evaluator(evaluator, &envs, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("eval_freq is 0"), HasSubstr("n_episode is 0"),
                             HasSubstr("params"))));
}

}  // namespace
}  // namespace ding
