// The errors of ParseTextConfig() and ApplySetting() that say what to do, and settings of params
// that are not set yet.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/type_choices.h"
#include "ding_worker/worker/experiment.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class TextErrorTest : public testing::Test {
 protected:
  TextErrorTest() : policies_("policy"), evaluators_("serial evaluator"), envs_("env") {
    policies_.Register("dqn", 0, {"help", &DqnConfig::descriptor}, "here");
    policies_.Register("ppo", 0, {"help", &PpoConfig::descriptor}, "here");
    evaluators_.Register("interaction", 0, {"help", &InteractionEvaluatorParams::descriptor},
                         "here");
    envs_.Register("plain", 0, "help", "here");
  }

  static std::vector<std::string> Problems(const std::string& text) {
    ExperimentConfig config;
    return ParseTextConfig(text, "c", &config);
  }

  Registry<int> policies_, evaluators_, envs_;
};

TEST_F(TextErrorTest, AnUnknownValueOfAnEnumListsTheValues) {
  EXPECT_THAT(Problems("env {\n  manager { retry_type: RESTART }\n}"),
              ElementsAre(AllOf(StartsWith("c:2:"),
                                HasSubstr("unknown value 'RESTART' of field 'retry_type'; expected "
                                          "RESET, RENEW"))));
  EXPECT_THAT(Problems("policy { params { [type.googleapis.com/ding.DqnConfig] {\n"
                       "  eps { type: STEP }\n} } }"),
              ElementsAre(HasSubstr("c:2:")));
  EXPECT_THAT(Problems("policy { params { [type.googleapis.com/ding.DqnConfig] {\n"
                       "  eps { type: STEP }\n} } }"),
              ElementsAre(HasSubstr("unknown value 'STEP' of field 'type'; expected EXP, LINEAR")));
  ExperimentConfig config;
  EXPECT_THAT(ApplySetting("env.manager.retry_type=RESTART", &config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected RESET, RENEW")));
}

TEST_F(TextErrorTest, TwoLettersThatWereSwappedAreOneError) {
  EXPECT_THAT(Problems("sede: 1"), ElementsAre(HasSubstr("did you mean 'seed'?")));
}

TEST_F(TextErrorTest, AnUnclosedBlockIsNamedWithItsLine) {
  EXPECT_THAT(Problems("env {\n  type: 'plain'\n"),
              ElementsAre("c:1:5: the '{' of 'env' in line 1 is never closed: a '}' is missing"));
  EXPECT_THAT(Problems("policy {\n  learn {\n    batch_size: 3\n  }\n  eval { evaluator {\n}\n"),
              ElementsAre(AllOf(StartsWith("c:5:"), HasSubstr("'evaluator' in line 5"))));
  EXPECT_THAT(Problems("policy { other { replay_buffer: { type: 'naive' # }\n } }"),
              ElementsAre(HasSubstr("the '{' of 'policy' in line 1")));
}

// The '}' of `learn` is missing, so that it takes the one of `policy`, and `env` stands in
// `policy`.
TEST_F(TextErrorTest, TheUnclosedBlockIsFoundByTheIndentation) {
  EXPECT_THAT(Problems("policy {\n  learn {\n    batch_size: 3\n  type: 'dqn'\n}\nenv {\n}\n"),
              ElementsAre(AllOf(StartsWith("c:2:9: "), HasSubstr("the '{' of 'learn' in line 2"))));
}

TEST_F(TextErrorTest, BracesInStringsCommentsAndListsOpenNoBlocks) {
  EXPECT_THAT(Problems("exp_name: '{'  # {\nmetrics { sink: [{ type: 'a' }, { type: 'b' }] }\n"
                       "env { reward_weights: [1, 2] }"),
              IsEmpty());
}

TEST_F(TextErrorTest, AClosingBraceTooManyIsExplained) {
  EXPECT_THAT(Problems("env {\n}\n}\nseed: 1"),
              ElementsAre(AllOf(StartsWith("c:3:1: "), HasSubstr("this '}' ends nothing"))));
}

TEST_F(TextErrorTest, ParamsWithoutTheirMessageNameTheOneThatTheTypeTakes) {
  EXPECT_THAT(
      Problems("policy {\n  type: \"dqn\"\n  params { learning_rate: 1 }\n}"),
      ElementsAre(AllOf(StartsWith("c:3:"),
                        HasSubstr("'learning_rate' needs the message around it that the type "
                                  "takes: params { [type.googleapis.com/ding.DqnConfig] { "
                                  "learning_rate: ... } }"))));
  // The type has a default.
  EXPECT_THAT(Problems("policy { eval { evaluator { params { render {} } } } }"),
              ElementsAre(HasSubstr("[type.googleapis.com/ding.InteractionEvaluatorParams]")));
  EXPECT_THAT(Problems("env { type: 'plain' params { size: 1 } }"),
              ElementsAre(HasSubstr("[type.googleapis.com/my.Message]")));
}

TEST_F(TextErrorTest, AMessageThatDoesNotExistNamesTheOneThatTheTypeTakes) {
  EXPECT_THAT(Problems("policy { type: 'ppo' params { [type.googleapis.com/ding.PPOConfig] {} } }"),
              ElementsAre(HasSubstr("this program has no message 'ding.PPOConfig'; the type takes "
                                    "[type.googleapis.com/ding.PpoConfig]")));
}

TEST_F(TextErrorTest, AMessageWithoutItsPrefixIsNamedWithIt) {
  EXPECT_THAT(Problems("policy { type: \"dqn\" params { [ding.DqnConfig] { learning_rate: 1 } } }"),
              ElementsAre(HasSubstr("the name of a message begins with type.googleapis.com/, as in "
                                    "[type.googleapis.com/ding.DqnConfig]")));
}

TEST_F(TextErrorTest, AnotherMessageThanTheTypeTakesIsNamed) {
  ExperimentConfig config;
  ASSERT_THAT(
      ParseTextConfig("policy { type: 'ppo' params { [type.googleapis.com/ding.DqnConfig] {} } }",
                      "c", &config),
      IsEmpty());
  EXPECT_THAT(FindWrongParams(config),
              ElementsAre("policy.params hold a ding.DqnConfig, expected a ding.PpoConfig "
                          "for type 'ppo'; --set 'policy.params={}' leaves them out"));
  config.mutable_policy()->set_type("dqn");
  EXPECT_THAT(FindWrongParams(config), IsEmpty());
  config.mutable_policy()->set_type("of another program");
  EXPECT_THAT(FindWrongParams(config), IsEmpty()) << "its registry refuses it";
}

TEST_F(TextErrorTest, SettingsReachThroughParamsThatAreNotSet) {
  ExperimentConfig config;
  EXPECT_THAT(ApplySetting("policy.eval.evaluator.params.render.render_freq=5", &config), IsOk());
  InteractionEvaluatorParams params;
  ASSERT_TRUE(config.policy().eval().evaluator().params().UnpackTo(&params));
  EXPECT_EQ(params.render().render_freq(), 5);
  ASSERT_THAT(ApplySetting("policy.type=ppo", &config), IsOk());
  EXPECT_THAT(ApplySetting("policy.params.actor_critic.model.activation=TANH", &config), IsOk());
  PpoConfig ppo;
  ASSERT_TRUE(config.policy().params().UnpackTo(&ppo));
  EXPECT_EQ(ppo.actor_critic().model().activation(), NetworkConfig::TANH);
}

TEST_F(TextErrorTest, ASettingGivesTheMessageOfTheTypeWithoutItsName) {
  ExperimentConfig config;
  config.mutable_policy()->set_type("dqn");
  EXPECT_THAT(ApplySetting("policy.params={learning_rate: 0.5 eps { start: 1 }}", &config), IsOk());
  DqnConfig dqn;
  ASSERT_TRUE(config.policy().params().UnpackTo(&dqn));
  EXPECT_EQ(dqn.learning_rate(), 0.5);
  EXPECT_EQ(dqn.eps().start(), 1);
  EXPECT_THAT(
      ApplySetting("policy.params={learning_rat: 0.5}", &config),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean 'learning_rate'?")));
  // Another type: the params of the former one go.
  config.mutable_policy()->set_type("ppo");
  EXPECT_THAT(ApplySetting("policy.params={}", &config), IsOk());
  EXPECT_TRUE(config.policy().params().Is<PpoConfig>());
  EXPECT_THAT(ApplySetting("policy.params={[type.googleapis.com/ding.DqnConfig] {}}", &config),
              IsOk());
  EXPECT_TRUE(config.policy().params().Is<DqnConfig>());
}

TEST_F(TextErrorTest, ASettingOfParamsThatNoMessageIsKnownForSaysWhy) {
  const struct {
    const char* type;
    const char* message;
  } kCases[] = {
      {"", "params is empty, and type, the name of the env, is not set: set it first"},
      {"plain", "params is empty, and type 'plain' takes none"},
      {"plane",
       "there is no env type 'plane' that would say which message it holds; this program "
       "has: "},
  };
  for (const auto& test : kCases) {
    ExperimentConfig config;
    config.mutable_env()->set_type(test.type);
    for (const char* const setting : {"env.params.size=1", "env.params={size: 1}"}) {
      EXPECT_THAT(ApplySetting(setting, &config),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.message)))
          << setting;
    }
    EXPECT_FALSE(config.env().has_params());
  }
}

}  // namespace
}  // namespace ding
