// This test is linked statically, like programs, so that a missing alwayslink is found.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/distributional/iqn_network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& type, const std::string& message,
                                               const std::string& params,
                                               const std::string& run = "",
                                               SpecPtr observation = VectorObservation()) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: '", type, "' ", run, " params { [type.googleapis.com/ding.", message,
                   "] { ", params, " } }"),
      &config));
  PolicyContext context;
  context.observation = observation;
  context.action = DiscreteAction();
  context.seed = 4;
  return create_policy(config, context);
}

TEST(DistributionalFactory, SaysWhatItIs) {
  DING_ASSERT_OK_AND_ASSIGN(const auto c51, Create("c51", "C51Config", ""));
  EXPECT_THAT(c51->learn_mode()->info(), HasSubstr("double c51 on mlp 4-128-128-64, q 64-153"));
  DING_ASSERT_OK_AND_ASSIGN(
      const auto rainbow,
      Create("rainbow", "RainbowConfig", "dqn { model { dueling: true } } atoms: 11"));
  EXPECT_THAT(rainbow->learn_mode()->info(),
              HasSubstr("double rainbow on noisy mlp 4-128-128-64, dueling q 64-33: "));
  DING_ASSERT_OK_AND_ASSIGN(const auto qrdqn,
                            Create("qrdqn", "QrdqnConfig", "dqn { double_dqn: false }"));
  EXPECT_THAT(qrdqn->learn_mode()->info(), HasSubstr("qrdqn on mlp 4-128-128-64, q 64-600"));
  DING_ASSERT_OK_AND_ASSIGN(const auto iqn, Create("iqn", "IqnConfig", ""));
  EXPECT_THAT(iqn->learn_mode()->info(), HasSubstr("double iqn on iqn 64 cosines, 32 fractions"));
}

TEST(DistributionalFactory, RainbowExploresByNoiseAndWithoutNoiseByEpsilon) {
  DING_ASSERT_OK_AND_ASSIGN(const auto noisy, Create("rainbow", "RainbowConfig", ""));
  EXPECT_EQ(*noisy->command_mode()->GetSettingCollect({{"envstep", 0}}).Get("eps"), 0);
  const std::string eps = "dqn { eps { start: 0.5 } } noise_deviation: ";
  EXPECT_THAT(Create("rainbow", "RainbowConfig", eps + "0.5"),
              IsInvalid("dqn.eps (type, start, end, decay) has no effect, because noise "
                        "explores for rainbow"));
  DING_ASSERT_OK_AND_ASSIGN(const auto plain, Create("rainbow", "RainbowConfig", eps + "0"));
  EXPECT_EQ(*plain->command_mode()->GetSettingCollect({{"envstep", 0}}).Get("eps"), 0.5);
  EXPECT_THAT(plain->learn_mode()->info(), testing::Not(HasSubstr("noisy")));
}

// Returns the actions for some observations, in so many calls.
std::vector<int64_t> Act(Policy* policy, bool collect, int calls) {
  const Batch obs = MakeObservationBatch(VectorObservation(), 64, 3);
  const BatchBuilder out = *BatchBuilder::Create(DiscreteAction(), 64);
  const std::vector<int> env_ids(64);
  std::vector<int64_t> actions;
  for (int call = 0; call < calls; ++call) {
    if (collect) {
      EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), env_ids, {{"eps", 0}}, out.view()),
                  IsOk());
    } else {
      EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), env_ids, {}, out.view()), IsOk());
    }
    const absl::Span<const int64_t> column = out.column<int64_t>(0);
    actions.insert(actions.end(), column.begin(), column.end());
  }
  return actions;
}

TEST(DistributionalFactory, NoiseChangesTheActionsOfTheCollectModeOnly) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            Create("rainbow", "RainbowConfig", "noise_deviation: 2"));
  const std::vector<int64_t> eval = Act(policy.get(), false, 1);
  const std::vector<int64_t> collect = Act(policy.get(), true, 2);
  EXPECT_NE(std::vector<int64_t>(collect.begin(), collect.begin() + 64),
            std::vector<int64_t>(collect.begin() + 64, collect.end()));
  EXPECT_EQ(Act(policy.get(), false, 1), eval);
}

TEST(DistributionalFactory, TargetAndPrioritiesAreThoseOfTheHead) {
  for (const auto& [type, message] : std::vector<std::pair<std::string, std::string>>{
           {"c51", "C51Config"}, {"qrdqn", "QrdqnConfig"}, {"iqn", "IqnConfig"}}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(type, message, "", "priority: true"));
    std::vector<LearnStep> steps;
    const Batch batch = MakeTransitionBatch(VectorObservation(), DiscreteAction(), 16, 1);
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
    ASSERT_EQ(steps[0].priority.size(), 16u);
    for (const float priority : steps[0].priority) EXPECT_GT(priority, 0) << type;
    EXPECT_TRUE(steps[0].scalars.Get("target_q_value").has_value());
  }
}

TEST(DistributionalFactory, BootstrapsAndActsOnLegalActionsOnly) {
  for (const auto& [type, message] : std::vector<std::pair<std::string, std::string>>{
           {"rainbow", "RainbowConfig"}, {"iqn", "IqnConfig"}}) {
    const SpecPtr masked = MaskedObservation(3);
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(type, message, "", "", masked));
    std::vector<LearnStep> steps;
    EXPECT_THAT(policy->learn_mode()->Forward(MakeTransitionBatch(masked, DiscreteAction(), 16, 1),
                                              {}, &steps),
                IsOk());
    const Batch obs = MakeObservationBatch(masked, 64, 3);
    const BatchBuilder out = *BatchBuilder::Create(DiscreteAction(), 64);
    ASSERT_THAT(policy->eval_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
    for (size_t row = 0; row < 64; ++row) {
      const auto action = static_cast<size_t>(out.column<int64_t>(0)[row]);
      EXPECT_EQ(obs.column<uint8_t>("obs/action_mask")[row * 3 + action], 1) << type << row;
    }
  }
}

TEST(DistributionalFactory, ReportsAllProblemsAtOnce) {
  EXPECT_THAT(
      Create("rainbow", "RainbowConfig",
             "dqn { loss: HUBER model { type: 'mpl' } } v_min: 3 v_max: 2", "unroll_len: 4"),
      IsInvalid("policy type 'rainbow': ", "unroll_len is 4, but rainbow learns from single rows",
                "dqn.loss and dqn.huber_delta have no effect", "v_min is 3 and v_max 2",
                "dqn.model: "));
  EXPECT_THAT(Create("iqn", "IqnConfig", "dqn { model { type: 'torch_mlp' } }"),
              IsInvalid("its type is 'torch_mlp'", "must be 'mlp'"));
}

}  // namespace
}  // namespace ding
