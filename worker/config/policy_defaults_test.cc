#include "ding_worker/worker/config/policy_defaults.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/distributional/distributional.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// A policy of one's own whose defaults are wrong.
DING_REGISTER(PolicyDefaultsRegistry(), "random", "policy.params.nothing=1  # nowhere",
              "a field that does not exist");

// A policy that is made from bc, and has its params in the field `dqn` of its own.
DING_REGISTER(
    PolicyRegistry(), "based_on_bc",
    [](const PolicyConfig&, const C51Config&,
       const PolicyContext&) -> absl::StatusOr<std::unique_ptr<Policy>> {
      return absl::UnimplementedError("for its config only");
    },
    "for the test");
DING_REGISTER(PolicyDefaultsRegistry(), "based_on_bc",
              "[as bc: policy.params.dqn]\npolicy.learn.batch_size=7  # mine", "those of bc");

ExperimentConfig Parse(const std::string& env, const std::string& policy,
                       const std::vector<std::string>& settings = {}) {
  const auto config = ParseExperimentConfig(
      absl::StrCat("env { type: \"", env, "\" } policy { ", policy, " }"), "test", settings);
  EXPECT_THAT(config, IsOk());
  return *config;
}

template <typename Params>
Params ParamsOf(const ExperimentConfig& config) {
  Params params;
  EXPECT_TRUE(config.policy().params().UnpackTo(&params));
  return params;
}

TEST(PolicyDefaultsTest, TypesAlone_DefaultsAreThoseOfTheActions) {
  const ExperimentConfig discrete = Parse("CartPole-v1", "type: \"ppo\"");
  EXPECT_EQ(discrete.policy().collect().n_sample(), 1024);
  EXPECT_EQ(ParamsOf<PpoConfig>(discrete).actor_critic().entropy_weight(), 0.01);
  EXPECT_FALSE(ParamsOf<PpoConfig>(discrete).actor_critic().normalize_obs());
  const ExperimentConfig continuous = Parse("Pendulum-v1", "type: \"ppo\"");
  EXPECT_EQ(continuous.policy().collect().n_sample(), 2048);
  EXPECT_EQ(ParamsOf<PpoConfig>(continuous).actor_critic().entropy_weight(), 0);
  EXPECT_TRUE(ParamsOf<PpoConfig>(continuous).actor_critic().normalize_obs());
}

TEST(PolicyDefaultsTest, FieldThatIsSet_KeepsItsValue) {
  const ExperimentConfig config =
      Parse("Pendulum-v1", "type: \"ppo\" learn { batch_size: 32 }",
            {"policy.params.actor_critic.normalize_obs=false", "policy.discount_factor=0.9"});
  EXPECT_EQ(config.policy().learn().batch_size(), 32);
  EXPECT_EQ(config.policy().discount_factor(), 0.9);
  EXPECT_FALSE(ParamsOf<PpoConfig>(config).actor_critic().normalize_obs());
  EXPECT_TRUE(ParamsOf<PpoConfig>(config).actor_critic().scale_reward());
  EXPECT_EQ(config.policy().collect().n_sample(), 2048);
}

TEST(PolicyDefaultsTest, Networks_AreTakenWhole) {
  const ExperimentConfig config =
      Parse("CartPole-v1", "type: \"ppo\"", {"policy.params.actor_critic.model.activation=TANH"});
  EXPECT_THAT(ParamsOf<PpoConfig>(config).actor_critic().model().encoder_hidden_size(), IsEmpty());
  EXPECT_FALSE(ParamsOf<PpoConfig>(config).actor_critic().has_critic());
  const ExperimentConfig without = Parse("CartPole-v1", "type: \"ppo\"");
  EXPECT_THAT(ParamsOf<PpoConfig>(without).actor_critic().model().encoder_hidden_size(), SizeIs(2));
  EXPECT_TRUE(ParamsOf<PpoConfig>(without).actor_critic().has_critic());
}

TEST(PolicyDefaultsTest, Rates_HoldTogether) {
  EXPECT_GT(Parse("CartPole-v1", "type: \"dqn\"").policy().learn().update_per_collect(), 1);
  EXPECT_GT(Parse("CartPole-v1", "type: \"dqn\"").policy().random_collect_size(), 0);
  for (const char* const rate :
       {"collect { n_sample: 24 }", "learn { update_per_collect: 1 }",
        "collect { n_episode: 8 collector { type: \"episode\" params { "
        "[type.googleapis.com/ding.EpisodeCollectorParams] { get_train_sample: true } } } }"}) {
    const ExperimentConfig config = Parse("CartPole-v1", absl::StrCat("type: \"dqn\" ", rate));
    EXPECT_EQ(config.policy().learn().update_per_collect(), 1) << rate;
    EXPECT_EQ(config.policy().random_collect_size(), 0) << rate;
    EXPECT_EQ(config.policy().other().replay_buffer().replay_buffer_size(), 100000) << rate;
  }
}

TEST(PolicyDefaultsTest, OtherType_HasNoDefaultsOfTheFirst) {
  const BufferConfig sequence =
      Parse("CartPole-v1", "type: \"r2d2\"").policy().other().replay_buffer();
  EXPECT_EQ(sequence.type(), "sequence");
  EXPECT_TRUE(sequence.has_params());
  const BufferConfig naive =
      Parse("CartPole-v1", "type: \"r2d2\" other { replay_buffer { type: \"naive\" } }")
          .policy()
          .other()
          .replay_buffer();
  EXPECT_FALSE(naive.has_params());
  EXPECT_TRUE(Parse("CartPole-v1", "type: \"rainbow\"").policy().priority());
  EXPECT_FALSE(Parse("CartPole-v1", "type: \"rainbow\"", {"policy.other.replay_buffer.type=naive"})
                   .policy()
                   .priority());
  EXPECT_EQ(naive.replay_buffer_size(), 10000);
}

TEST(PolicyDefaultsTest, OtherTargetUpdate_ReplacesTheDefaultOne) {
  const auto by_default = ParamsOf<DqnConfig>(Parse("CartPole-v1", "type: \"dqn\""));
  EXPECT_EQ(by_default.target_update_freq(), 100);
  EXPECT_TRUE(by_default.has_target_update_freq());
  for (const ExperimentConfig& config :
       {Parse("CartPole-v1",
              "type: \"dqn\" params { [type.googleapis.com/ding.DqnConfig] { "
              "target_update_theta: 0.5 } }"),
        Parse("CartPole-v1", "type: \"dqn\"", {"policy.params.target_update_theta=0.5"})}) {
    const auto params = ParamsOf<DqnConfig>(config);
    EXPECT_EQ(params.target_update_theta(), 0.5);
    EXPECT_FALSE(params.has_target_update_freq());
    EXPECT_THAT(params.model().encoder_hidden_size(), SizeIs(3));
    EXPECT_THAT(PrintConfigWithSources(config), Not(HasSubstr("target_update_freq")));
  }
}

// What the policy is made of.
std::string InfoOf(const ExperimentConfig& config) {
  PolicyContext context;
  context.observation = *MakeSpec({Box("obs", {4})});
  context.action = *MakeSpec({Discrete("action", 2)});
  context.modes.collect = context.modes.eval = false;
  const auto policy = create_policy(MakePolicyConfig(config), context);
  EXPECT_THAT(policy, IsOk());
  return (*policy)->learn_mode()->info();
}

// The message of a network has no default for a list.
TEST(PolicyDefaultsTest, PrintedEncoder_IsThatOfANetworkWithoutOne) {
  for (const char* const type : {"dqn", "c51", "rainbow", "qrdqn", "iqn", "cql", "discrete_sac"}) {
    ExperimentConfig config = Parse("CartPole-v1", absl::StrCat("type: \"", type, "\""));
    EXPECT_THAT(PrintConfigWithSources(config),
                HasSubstr(absl::StrCat("encoder_hidden_size: [128, 128, 64]  # default of ", type,
                                       ": DI-engine, DQN\n")));
    const std::string info = InfoOf(config);
    for (const PolicyDefault& line : ListPolicyDefaults(type)) {
      if (!absl::EndsWith(line.path, "encoder_hidden_size")) continue;
      ASSERT_THAT(SetByPath(line.path, "[]", &config), IsOk());
    }
    EXPECT_THAT(PrintTextConfig(config), Not(HasSubstr("encoder_hidden_size")));
    EXPECT_EQ(InfoOf(config), info) << type;
  }
}

TEST(PolicyDefaultsTest, PrintedTargetUpdate_HasItsSource) {
  for (const char* const type : {"dqn", "c51", "rainbow", "qrdqn", "iqn", "cql", "r2d2"}) {
    EXPECT_THAT(PrintConfigWithSources(Parse("CartPole-v1", absl::StrCat("type: \"", type, "\""))),
                HasSubstr(absl::StrCat("target_update_freq: 100  # default of ", type,
                                       ": DI-engine, DQN\n")));
  }
}

// Params that a saved config does not have are those of the messages, which the run was trained by.
TEST(PolicyDefaultsTest, ResolvedConfig_StaysAsItIs) {
  ExperimentConfig saved = Parse("CartPole-v1", "type: \"ppo\"");
  saved.mutable_policy()->clear_params();
  saved.mutable_policy()->mutable_collect()->set_n_sample(8);
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig again,
                            ParseExperimentConfig(PrintTextConfig(saved), "saved", {}));
  PpoConfig params;
  FillInDefaults(&params);
  saved.mutable_policy()->mutable_params()->PackFrom(params);
  EXPECT_EQ(PrintTextConfig(again), PrintTextConfig(saved));
}

TEST(PolicyDefaultsTest, TypesAlone_ThePrintedConfigHasAllParams) {
  for (const std::string& type : PolicyDefaultsRegistry().Names()) {
    if (type == "random") continue;
    const auto config = ParseExperimentConfig(
        absl::StrCat("env { type: \"CartPole-v1\" } policy { type: \"", type, "\" }"), "test", {});
    ASSERT_THAT(config, IsOk());
    const std::string text = PrintTextConfig(*config);
    EXPECT_THAT(text, HasSubstr("learning_rate: ")) << type;
    DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig again,
                              ParseExperimentConfig(text, "saved", {}));
    EXPECT_EQ(PrintTextConfig(again), text);
  }
}

TEST(PolicyDefaultsTest, PolicyMadeFromAnother_HasItsDefaults) {
  const std::string text = PrintConfigWithSources(Parse("CartPole-v1", "type: \"based_on_bc\""));
  EXPECT_THAT(text, HasSubstr("activation: TANH  # default of based_on_bc: SB3, MlpPolicy\n"));
  EXPECT_THAT(text, HasSubstr("batch_size: 7  # default of based_on_bc: mine\n"));
  const auto params = ParamsOf<C51Config>(Parse("CartPole-v1", "type: \"based_on_bc\""));
  EXPECT_THAT(params.dqn().model().encoder_hidden_size(), SizeIs(2));
}

TEST(PolicyDefaultsTest, WithoutAnEnvThatCanBeMade_TheEnvIsTheProblem) {
  const auto config =
      ParseExperimentConfig("env { type: \"Cart\" } policy { type: \"ppo\" }", "test", {});
  EXPECT_THAT(config.status().message(), HasSubstr("unknown env type 'Cart'"));
  EXPECT_THAT(config.status().message(), Not(HasSubstr("a default of policy")));
}

TEST(PolicyDefaultsTest, DefaultOfAFieldThatDoesNotExist_IsRefused) {
  const auto config = ParseExperimentConfig(
      "env { type: \"CartPole-v1\" } policy { type: \"random\" }", "test", {});
  EXPECT_THAT(config.status().message(), HasSubstr("a default of policy 'random': cannot set "
                                                   "'policy.params.nothing'"));
}

TEST(PolicyDefaultsTest, EachDefault_CanBeSetAndHasASource) {
  for (const std::string& type : PolicyDefaultsRegistry().Names()) {
    if (type == "random") continue;
    const std::vector<PolicyDefault> defaults = ListPolicyDefaults(type);
    EXPECT_THAT(defaults, Not(IsEmpty())) << type;
    for (const PolicyDefault& line : defaults) {
      EXPECT_FALSE(line.source.empty()) << type << ": " << line.path;
      ExperimentConfig config;
      config.mutable_policy()->set_type(type);
      config.mutable_policy()->mutable_other()->mutable_replay_buffer()->set_type("sequence");
      EXPECT_THAT(SetByPath(line.path, line.value, &config), IsOk()) << type;
    }
  }
}

TEST(PolicyDefaultsTest, PrintedConfig_HasTheSources) {
  const std::string text = PrintConfigWithSources(Parse("CartPole-v1", "type: \"ppo\""));
  EXPECT_THAT(text, HasSubstr("n_sample: 1024  # default of ppo: Schulman et al. 2017, table 5"));
  EXPECT_THAT(text, HasSubstr("encoder_hidden_size: [64, 64]  # default of ppo: "));
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig again, ParseExperimentConfig(text, "text", {}));
  EXPECT_EQ(PrintConfigWithSources(again), text);
  const std::string other =
      PrintConfigWithSources(Parse("CartPole-v1", "type: \"ppo\" collect { n_sample: 24 }"));
  EXPECT_THAT(other, HasSubstr("n_sample: 24\n"));
}

TEST(PolicyDefaultsTest, ErrorThatNamesADefault_SaysSo) {
  const ExperimentConfig config = Parse("Pendulum-v1", "type: \"ppo\"");
  EXPECT_THAT(DefaultsInError(config, "scale_reward is set, but"),
              testing::ElementsAre(
                  "policy.params.actor_critic.scale_reward: true is a default of policy 'ppo' (SB3 "
                  "zoo, ppo.yml, MuJoCo: normalize)"));
  EXPECT_THAT(DefaultsInError(config, "squash_actions is set"), IsEmpty());
}

// A parallel run does not use it, and nobody has set it.
TEST(PolicyDefaultsTest, DefaultThatARunDoesNotUse_IsNotRefused) {
  const std::vector<std::string> found =
      FindUnusedFields(Parse("CartPole-v1", "type: \"dqn\""), RunKind::kParallel);
  EXPECT_THAT(found, IsEmpty());
  EXPECT_THAT(
      FindUnusedFields(Parse("CartPole-v1", "type: \"dqn\"", {"policy.learn.update_per_collect=7"}),
                       RunKind::kParallel),
      SizeIs(1));
}

}  // namespace
}  // namespace ding
