// The policies whose fields change in a run (PolicyConfig.schedule): their command mode turns
// schedules into settings, and their collect and learn modes use them. PPO's adapted entropy weight
// is tested here, too.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr char kModel[] = "model { encoder_hidden_size: 8 }";

SpecPtr TwoNumbers() { return *MakeSpec({Box("action", {2}, {-1}, {1})}); }

std::string Params(const std::string& type, const std::string& content) {
  return absl::StrCat("params { [type.googleapis.com/ding.", type, "] {", content, "} } ");
}

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& config, const SpecPtr& action) {
  PolicyConfig parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(config, &parsed)) << config;
  PolicyContext context;
  context.observation = VectorObservation(3);
  context.action = action;
  context.seed = 5;
  return create_policy(parsed, context);
}

std::string Half(const std::string& field) {
  return absl::StrCat("schedule { field: '", field,
                      "' type: 'linear' start: 0.5 end: 0.25 steps: 100 }");
}

struct Case {
  const char* policy;
  const char* params;
  const char* content;
  bool continuous;
  const char* field;
  const char* setting = nullptr;  // none: that of the same name as the field
  bool collects = false;
};

TEST(ScheduledPolicies, TurnSchedulesIntoSettings) {
  const std::string dqn = absl::StrCat("dqn {", kModel, "}");
  const std::string actor_critic = absl::StrCat("actor_critic {", kModel, "}");
  const std::string target =
      absl::StrCat("actor_critic {", kModel, " entropy_weight: 0.01 } target_entropy: 1");
  const std::string continuous = absl::StrCat("continuous {", kModel, "}");
  const Case kCases[] = {
      {"dqn", "DqnConfig", kModel, false, "learning_rate", "lr"},
      {"dqn", "DqnConfig", kModel, false, "eps", nullptr, true},
      {"cql", "CqlConfig", dqn.c_str(), false, "learning_rate", "lr"},
      {"bc", "BcConfig", kModel, false, "learning_rate", "lr"},
      {"ppo", "PpoConfig", actor_critic.c_str(), false, "learning_rate", "lr"},
      {"ppo", "PpoConfig", actor_critic.c_str(), false, "clip_ratio"},
      {"ppo", "PpoConfig", target.c_str(), false, "target_entropy"},
      {"a2c", "A2cConfig", actor_critic.c_str(), true, "entropy_weight"},
      {"impala", "ImpalaConfig", actor_critic.c_str(), true, "learning_rate", "lr"},
      {"sac", "SacConfig", continuous.c_str(), true, "actor_learning_rate"},
      {"sac", "SacConfig", continuous.c_str(), true, "alpha_learning_rate"},
      {"sac", "SacConfig", continuous.c_str(), true, "target_entropy"},
      {"td3", "Td3Config", continuous.c_str(), true, "critic_learning_rate"},
      {"ddpg", "DdpgConfig", continuous.c_str(), true, "exploration_noise", nullptr, true},
      {"td3bc", "Td3BcConfig", continuous.c_str(), true, "actor_learning_rate"},
      {"td3bc", "Td3BcConfig", continuous.c_str(), true, "critic_learning_rate"},
      {"iql", "IqlConfig", continuous.c_str(), true, "actor_learning_rate"},
      {"iql", "IqlConfig", continuous.c_str(), true, "critic_learning_rate"},
      {"discrete_sac", "DiscreteSacConfig", kModel, false, "actor_learning_rate"},
      {"discrete_sac", "DiscreteSacConfig", kModel, false, "critic_learning_rate"},
      {"discrete_sac", "DiscreteSacConfig", kModel, false, "alpha_learning_rate"},
      {"discrete_sac", "DiscreteSacConfig", kModel, false, "target_entropy"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(absl::StrCat(c.policy, " ", c.field));
    const std::string config =
        absl::StrCat("type: '", c.policy, "' ", Params(c.params, c.content), Half(c.field));
    DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                              Create(config, c.continuous ? TwoNumbers() : DiscreteAction(4)));
    const char* const setting = c.setting == nullptr ? c.field : c.setting;
    const NamedValues info = {{"envstep", 60}, {"learner_step", 7}};
    CommandMode* const command = policy->command_mode();
    const NamedValues learn = command->GetSettingLearn(info);
    const NamedValues collect = command->GetSettingCollect(info);
    EXPECT_NEAR((c.collects ? collect : learn).GetOr(setting, -1), 0.35, 1e-12);
    EXPECT_FALSE((c.collects ? learn : collect).Get(setting).has_value());
    EXPECT_THAT(
        Create(absl::StrCat(config, "schedule { field: 'gamma' type: 'linear' steps: 1 }"),
               c.continuous ? TwoNumbers() : DiscreteAction(4)),
        IsInvalid("schedule[1].field is 'gamma', expected a field that may change", c.field));
  }
}

TEST(ScheduledPolicies, RefuseASecondWayToChangeAField) {
  const auto refused = [](const std::string& type, const std::string& params,
                          const std::string& field, const std::string& problem) {
    EXPECT_THAT(Create(absl::StrCat("type: '", type, "' ", params, Half(field)), DiscreteAction(4)),
                IsInvalid(problem));
  };
  refused("dqn", Params("DqnConfig", absl::StrCat(kModel, "lr_decay_env_steps: 5")),
          "learning_rate", "lr_decay_env_steps changes learning_rate, too");
  refused("dqn", Params("DqnConfig", absl::StrCat(kModel, "eps { decay: 5 }")), "eps",
          "eps (type, end, decay) changes eps, too");
  refused("ppo",
          Params("PpoConfig",
                 absl::StrCat("target_entropy: 1 actor_critic {", kModel, "entropy_weight: 0.1 }")),
          "entropy_weight", "target_entropy changes entropy_weight, too");
  refused("random", "", "learning_rate", "expected a field that may change: none");
}

TEST(ScheduledPolicies, RefuseValuesThatATargetEntropyCannotHave) {
  EXPECT_THAT(
      Create(absl::StrCat("type: 'discrete_sac' ", Params("DiscreteSacConfig", kModel),
                          "schedule { field: 'target_entropy' type: 'linear' start: 1.5 end: 0.1 "
                          "steps: 100 }"),
             DiscreteAction(4)),
      IsInvalid("schedule[0]", "1.38629"));
  EXPECT_THAT(
      Create(absl::StrCat("type: 'discrete_sac' ",
                          Params("DiscreteSacConfig", absl::StrCat(kModel, "learn_alpha: false")),
                          Half("alpha_learning_rate")),
             DiscreteAction(4)),
      IsInvalid("expected a field that may change"));
}

TEST(ScheduledPolicies, LearnByTheRatesOfTheSettings) {
  const std::string continuous = absl::StrCat("continuous {", kModel, "}");
  const std::string every = continuous + "actor_update_freq: 1";
  for (const std::string& config :
       {absl::StrCat("type: 'sac' ", Params("SacConfig", continuous)),
        absl::StrCat("type: 'td3' ", Params("Td3Config", every)),
        absl::StrCat("type: 'td3bc' ", Params("Td3BcConfig", every)),
        absl::StrCat("type: 'iql' ", Params("IqlConfig", continuous)),
        absl::StrCat("type: 'discrete_sac' ", Params("DiscreteSacConfig", kModel))}) {
    SCOPED_TRACE(config);
    const SpecPtr action = absl::StrContains(config, "discrete") ? DiscreteAction(4) : TwoNumbers();
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(config, action));
    LearnMode* const learn = policy->learn_mode();
    const Batch batch = MakeTransitionBatch(VectorObservation(3), action, 16, 3);
    const auto model = [&] {
      StateDict saved;
      EXPECT_THAT(learn->SaveModel(&saved), IsOk());
      std::string bytes;
      for (const auto& entry : saved.tensors()) absl::StrAppend(&bytes, entry.second.bytes());
      return bytes;
    };
    std::vector<LearnStep> steps;
    const std::string before = model();
    ASSERT_THAT(
        learn->Forward(batch, {{"actor_learning_rate", 0}, {"critic_learning_rate", 0.25}}, &steps),
        IsOk());
    EXPECT_EQ(*steps[0].scalars.Get("cur_lr"), 0.25);
    EXPECT_EQ(model(), before) << "the actor's rate is 0";
    ASSERT_THAT(learn->Forward(batch, {{"actor_learning_rate", 0.01}}, &steps), IsOk());
    EXPECT_NE(model(), before);
    EXPECT_THAT(learn->Forward(batch, {{"critic_learning_rate", -1}}, &steps),
                IsInvalid("critic_learning_rate", "-1"));
  }
}

// All that IQL learns beside the actor has the rate of the critics.
TEST(ScheduledPolicies, TheStateValueOfIqlLearnsByTheRateOfTheCritics) {
  DING_ASSERT_OK_AND_ASSIGN(
      const auto policy,
      Create(absl::StrCat("type: 'iql' ",
                          Params("IqlConfig", absl::StrCat("continuous {", kModel, "}"))),
             TwoNumbers()));
  LearnMode* const learn = policy->learn_mode();
  // The bytes of what is learned by the rate of the critics.
  const auto parameters = [&] {
    StateDict saved;
    EXPECT_THAT(learn->SaveTrainState(&saved), IsOk());
    std::vector<std::string> bytes;
    for (const auto& [name, tensor] : saved.tensors()) {
      for (const char* const scope : {"critic/", "value/", "distribution/"}) {
        if (absl::StartsWith(name, scope)) bytes.emplace_back(tensor.bytes());
      }
    }
    EXPECT_EQ(bytes.size(),
              19u);  // six for each of two critics and the value, one of the deviation
    return bytes;
  };
  const Batch batch = MakeTransitionBatch(VectorObservation(3), TwoNumbers(), 16, 3);
  std::vector<LearnStep> steps;
  const std::vector<std::string> before = parameters();
  ASSERT_THAT(learn->Forward(batch, {{"critic_learning_rate", 0}}, &steps), IsOk());
  EXPECT_EQ(parameters(), before);
  ASSERT_THAT(learn->Forward(batch, {{"critic_learning_rate", 0.01}}, &steps), IsOk());
  const std::vector<std::string> after = parameters();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_NE(after[i], before[i]) << "tensor " << i;
}

TEST(ScheduledPolicies, TheTemperatureOfDiscreteSacFollowsItsSettings) {
  DING_ASSERT_OK_AND_ASSIGN(
      const auto policy,
      Create(absl::StrCat("type: 'discrete_sac' ", Params("DiscreteSacConfig", kModel)),
             DiscreteAction(4)));
  LearnMode* const learn = policy->learn_mode();
  const Batch batch = MakeTransitionBatch(VectorObservation(3), DiscreteAction(4), 16, 3);
  std::vector<LearnStep> steps;
  ASSERT_THAT(learn->Forward(batch, {{"alpha_learning_rate", 0}}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("alpha"), 1, 1e-12);
  // The entropy is nearly log 4 = 1.39.
  ASSERT_THAT(
      learn->Forward(batch, {{"alpha_learning_rate", 0.1}, {"target_entropy", 0.1}}, &steps),
      IsOk());
  EXPECT_LT(*steps[0].scalars.Get("alpha"), 0.95);
  EXPECT_THAT(learn->Forward(batch, {{"target_entropy", 2}}, &steps),
              IsInvalid("target_entropy is 2"));
}

std::string PpoWithTarget(const std::string& more) {
  return absl::StrCat("type: 'ppo' batch_size: 16 ",
                      Params("PpoConfig", absl::StrCat("actor_critic {", kModel,
                                                       " entropy_weight: 0.01 } "
                                                       "epoch_per_collect: 2 ",
                                                       more)));
}

// The weight moves by the formula of ActorCriticUpdate::target_entropy, computed here from the
// reported entropies.
TEST(AdaptedEntropyWeight, FollowsTheTarget) {
  const std::string config = PpoWithTarget("target_entropy: 1.5 entropy_weight_rate: 0.2");
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(config, DiscreteAction(4)));
  const Batch batch = MakeOnPolicyBatch(VectorObservation(3), DiscreteAction(4), 64, 3);
  double expected = std::log(0.01);
  std::vector<LearnStep> steps;
  for (int call = 0; call < 3; ++call) {
    const double target = call == 2 ? -2 : 1.5;
    NamedValues settings;
    if (call == 2) settings.Set("target_entropy", target);
    ASSERT_THAT(policy->learn_mode()->Forward(batch, settings, &steps), IsOk());
    ASSERT_EQ(steps.size(), 8u);
    for (const LearnStep& step : steps) {
      const double weight = *step.scalars.Get("entropy_weight");
      EXPECT_NEAR(std::log(weight), expected, 1e-9);
      // The loss has this weight.
      const double value_coef = 0.5;
      EXPECT_NEAR(*step.scalars.Get("total_loss"),
                  *step.scalars.Get("policy_loss") + value_coef * *step.scalars.Get("value_loss") -
                      weight * *step.scalars.Get("entropy"),
                  1e-9);
      expected += 0.2 * (target - *step.scalars.Get("entropy"));
    }
  }
  EXPECT_THAT(policy->learn_mode()->Forward(batch, {{"target_entropy", std::nan("")}}, &steps),
              IsInvalid("target_entropy is nan"));
  EXPECT_THAT(policy->learn_mode()->Forward(batch, {{"clip_ratio", 0}}, &steps),
              IsInvalid("clip_ratio is 0"));
}

TEST(AdaptedEntropyWeight, StaysInItsBounds) {
  DING_ASSERT_OK_AND_ASSIGN(
      const auto policy,
      Create(PpoWithTarget("target_entropy: -100 entropy_weight_rate: 1"), DiscreteAction(4)));
  const Batch batch = MakeOnPolicyBatch(VectorObservation(3), DiscreteAction(4), 64, 3);
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  EXPECT_NEAR(*steps.back().scalars.Get("entropy_weight"), 1e-6, 1e-15);
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {{"target_entropy", 100}}, &steps), IsOk());
  EXPECT_NEAR(*steps.back().scalars.Get("entropy_weight"), 1, 1e-12);
}

TEST(AdaptedEntropyWeight, IsPartOfTheTrainState) {
  const std::string config = PpoWithTarget("target_entropy: 1 entropy_weight_rate: 0.2");
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(config, DiscreteAction(4)));
  DING_ASSERT_OK_AND_ASSIGN(const auto resumed, Create(config, DiscreteAction(4)));
  const Batch batch = MakeOnPolicyBatch(VectorObservation(3), DiscreteAction(4), 64, 3);
  std::vector<LearnStep> steps;
  std::vector<LearnStep> steps_of_resumed;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  StateDict saved;
  ASSERT_THAT(policy->learn_mode()->SaveModel(&saved), IsOk());
  ASSERT_THAT(policy->learn_mode()->SaveTrainState(&saved), IsOk());
  ASSERT_THAT(resumed->learn_mode()->LoadModel(&saved), IsOk());
  ASSERT_THAT(resumed->learn_mode()->LoadTrainState(&saved), IsOk());
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  ASSERT_THAT(resumed->learn_mode()->Forward(batch, {}, &steps_of_resumed), IsOk());
  EXPECT_EQ(*steps.back().scalars.Get("entropy_weight"),
            *steps_of_resumed.back().scalars.Get("entropy_weight"));
  EXPECT_EQ(*steps.back().scalars.Get("total_loss"),
            *steps_of_resumed.back().scalars.Get("total_loss"));
}

TEST(AdaptedEntropyWeight, RefusesWhatCannotBeAdapted) {
  EXPECT_THAT(
      Create(absl::StrCat("type: 'ppo' ",
                          Params("PpoConfig",
                                 absl::StrCat("target_entropy: 1 actor_critic {", kModel, "}"))),
             DiscreteAction(4)),
      IsInvalid("entropy_weight is 0, from which it is adapted"));
  EXPECT_THAT(Create(PpoWithTarget("entropy_weight_rate: 0.1"), DiscreteAction(4)),
              IsInvalid("no effect without target_entropy"));
}

}  // namespace
}  // namespace ding
