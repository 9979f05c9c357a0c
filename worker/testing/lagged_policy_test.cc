#include "ding_worker/worker/testing/lagged_policy.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/impala/impala.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

PolicyConfig Impala() {
  ImpalaConfig impala;
  impala.mutable_actor_critic()->mutable_model()->add_encoder_hidden_size(8);
  impala.mutable_actor_critic()->set_learning_rate(0.01);
  PolicyConfig config;
  config.set_type("impala");
  config.mutable_params()->PackFrom(impala);
  return config;
}

PolicyContext Context() {
  PolicyContext context;
  context.observation = *MakeSpec({Box("obs", {4})});
  context.action = *MakeSpec({Discrete("action", 2)});
  context.seed = 3;
  return context;
}

// Returns what the first call of a collect mode says of the probabilities of the actions that it
// samples.
std::vector<float> Act(Policy* policy) {
  const BatchBuilder obs = *BatchBuilder::Create(Context().observation, 16);
  float value = -1;
  for (float& x : obs.column<float>(0)) x = value += 0.03f;
  const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 16);
  EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
  const auto log_prob = out.column<float>(*out.spec().Find(kColumnLogProb));
  return {log_prob.begin(), log_prob.end()};
}

void Learn(Policy* policy, int updates) {
  std::vector<LearnStep> steps;
  for (int i = 0; i < updates; ++i) {
    const Batch batch = MakeImpalaTestBatch(Context().observation, Context().action, 32, 8, i);
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  }
}

TEST(LaggedPolicyTest, ActsByTheParametersOfSomeUpdatesAgo) {
  for (const int lag : {0, 2}) {
    for (int updates = 0; updates < 5; ++updates) {
      DING_ASSERT_OK_AND_ASSIGN(const auto lagged, CreateLaggedPolicy(Impala(), Context(), lag));
      Learn(lagged.get(), updates);
      DING_ASSERT_OK_AND_ASSIGN(const auto older, create_policy(Impala(), Context()));
      Learn(older.get(), std::max(0, updates - lag));
      EXPECT_EQ(Act(lagged.get()), Act(older.get())) << updates << " updates, lag " << lag;
      DING_ASSERT_OK_AND_ASSIGN(const auto other, create_policy(Impala(), Context()));
      Learn(other.get(), std::max(0, updates - lag) + 1);
      EXPECT_NE(Act(lagged.get()), Act(other.get()));
    }
  }
}

TEST(LaggedPolicyTest, BeginsWithTheModelThatItLoads) {
  DING_ASSERT_OK_AND_ASSIGN(const auto trained, create_policy(Impala(), Context()));
  Learn(trained.get(), 3);
  StateDict model;
  ASSERT_THAT(trained->learn_mode()->SaveModel(&model), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto lagged, CreateLaggedPolicy(Impala(), Context(), 2));
  Learn(lagged.get(), 2);
  ASSERT_THAT(lagged->learn_mode()->LoadModel(&model), IsOk());
  EXPECT_EQ(Act(lagged.get()), Act(trained.get()));
}

TEST(LaggedPolicyTest, RefusesWhatCannotLag) {
  EXPECT_THAT(CreateLaggedPolicy(Impala(), Context(), -1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the lag is -1")));
  PolicyContext acts_only = Context();
  acts_only.modes.learn = false;
  EXPECT_THAT(CreateLaggedPolicy(Impala(), acts_only, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs both its learn mode")));
  PpoConfig params;
  params.mutable_actor_critic()->mutable_model()->add_encoder_hidden_size(8);
  PolicyConfig ppo;
  ppo.set_type("ppo");
  ppo.mutable_params()->PackFrom(params);
  EXPECT_THAT(CreateLaggedPolicy(ppo, Context(), 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("policy 'ppo' learns from data of its current parameters")));
}

}  // namespace
}  // namespace ding
