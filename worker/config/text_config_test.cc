#include "ding_worker/worker/config/text_config.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/policy/actor_critic/actor_critic.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/worker/config/type_choices.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/testing/sample_config.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using google::protobuf::Any;
using google::protobuf::TextFormat;

ExperimentConfig Parsed() {
  ExperimentConfig config;
  EXPECT_THAT(ParseTextConfig(kSampleConfig, "test", &config), IsEmpty());
  return config;
}

DqnConfig Dqn(const ExperimentConfig& config) {
  DqnConfig dqn;
  EXPECT_TRUE(config.policy().params().UnpackTo(&dqn));
  return dqn;
}

TEST(ParseTextConfigTest, UnknownFieldHasLineColumnAndSuggestion) {
  ExperimentConfig config;
  EXPECT_THAT(ParseTextConfig("exp_name: 'x'\npolicy {\n  typ: 'dqn'\n}", "a.textproto", &config),
              ElementsAre(AllOf(HasSubstr("a.textproto:3:"),
                                HasSubstr("unknown field 'typ' in ding.PolicySection; did you mean "
                                          "'type'?"))));
}

TEST(ParseTextConfigTest, FarNamesGetTheListOfFields) {
  ExperimentConfig config;
  EXPECT_THAT(ParseTextConfig("zzzzzzzzzz: 1", "c", &config),
              ElementsAre(AllOf(HasSubstr("c:1:"), HasSubstr("it has: exp_name, seed"))));
}

TEST(ParseTextConfigTest, ReportsEveryErrorAndKeepsTheRest) {
  ExperimentConfig config;
  const std::vector<std::string> problems = ParseTextConfig(
      "seed: 3\nmax_env_step: 'many'\nwhat { is { this: 1 }\n}\nenv {\n  stop_value: 1.5\n"
      "  collector_env_num: x\n}\n",
      "c", &config);
  EXPECT_THAT(problems,
              ElementsAre(HasSubstr("c:2:"), HasSubstr("unknown field 'what'"), HasSubstr("c:7:")));
  EXPECT_EQ(config.seed(), 3u);
  EXPECT_EQ(config.env().stop_value(), 1.5);
}

TEST(ParseTextConfigTest, BrokenBracesAndTextEndWithAnError) {
  for (const char* text :
       {"env {", "}", "env }", "\"", "env { stop_value: { }", "\x01\xff", "a:"}) {
    ExperimentConfig config;
    EXPECT_FALSE(ParseTextConfig(text, "c", &config).empty()) << text;
  }
}

TEST(ParseTextConfigTest, UnknownTypeInAny) {
  ExperimentConfig config;
  EXPECT_THAT(ParseTextConfig("policy { params { [type.googleapis.com/ding.Nope] { a: 1 } } }", "c",
                              &config),
              ElementsAre(HasSubstr("ding.Nope")));
}

TEST(SetByPathTest, SetsScalarsListsEnumsAndStrings) {
  ExperimentConfig config = Parsed();
  for (const char* setting :
       {"exp_name=other run", "seed=7", "env.stop_value=-3.5", "env.manager.retry_type=RENEW",
        "env.manager.auto_reset=false", "policy.params.learning_rate=1e-4",
        "policy.params.model.encoder_hidden_size=[4, 2, 1]",
        "policy.learn.learner.hook.hook[1].freq=9"}) {
    EXPECT_THAT(ApplySetting(setting, &config), IsOk()) << setting;
  }
  EXPECT_EQ(config.exp_name(), "other run");
  EXPECT_EQ(config.seed(), 7u);
  EXPECT_EQ(config.env().stop_value(), -3.5);
  EXPECT_EQ(config.env().manager().retry_type(), EnvManagerConfig::RENEW);
  EXPECT_FALSE(config.env().manager().auto_reset());
  EXPECT_EQ(Dqn(config).learning_rate(), 1e-4);
  EXPECT_THAT(Dqn(config).model().encoder_hidden_size(), ElementsAre(4, 2, 1));
  EXPECT_EQ(config.policy().learn().learner().hook().hook(1).freq(), 9);
  EXPECT_FALSE(config.policy().learn().learner().hook().hook(0).has_freq());
}

TEST(SetByPathTest, StringsAreTakenAsTheyStand) {
  ExperimentConfig config;
  EXPECT_THAT(ApplySetting("exp_name=a\"b\\c=d", &config), IsOk());
  EXPECT_EQ(config.exp_name(), "a\"b\\c=d");
  EXPECT_THAT(ApplySetting("exp_name=\"quoted\"", &config), IsOk());
  EXPECT_EQ(config.exp_name(), "quoted");
}

TEST(SetByPathTest, ErrorsNameTheProblemAndChangeNothing) {
  const struct {
    const char* setting;
    const char* message;
  } kCases[] = {
      {"no_equals", "not of the form path=value"},
      {"=3", "not of the form path=value"},
      {"env.stop_valu=3", "did you mean 'stop_value'?"},
      {"env.stop_value=high", "'high' is not a value of field 'stop_value'"},
      {"env.stop_value.x=3", "has no fields inside"},
      {"policy.params.lr=3", "no field 'lr' in ding.DqnConfig"},
      {"env.params.x=3", "params is empty"},
      {"policy.learn.learner.hook.hook.freq=3", "is a list of 2: name one as hook[0]"},
      {"policy.learn.learner.hook.hook[2].freq=3", "is a list of 2"},
      {"policy.learn.learner.hook.hook[x].freq=3", "not a field or field[index]"},
      {"seed[0]=3", "is not a list"},
      {"seed=-1", "'-1' is not a value of field 'seed'"},
      {"seed=1 max_env_step: 5 }", "is not a value"},
      {"..=1", "no field ''"},
  };
  for (const auto& test : kCases) {
    ExperimentConfig config = Parsed();
    EXPECT_THAT(ApplySetting(test.setting, &config),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.message)))
        << test.setting;
    EXPECT_EQ(config.SerializeAsString(), Parsed().SerializeAsString()) << test.setting;
  }
}

TEST(FillInDefaultsTest, ReachesIntoMessagesAndAnys) {
  ExperimentConfig config = Parsed();
  FillInDefaults(&config);
  EXPECT_TRUE(config.policy().learn().has_batch_size());
  EXPECT_TRUE(config.env().manager().has_max_retry());
  EXPECT_TRUE(config.policy().learn().learner().hook().hook(0).has_priority());
  EXPECT_TRUE(Dqn(config).has_double_dqn());
  EXPECT_EQ(Dqn(config).learning_rate(), 0.5);
  EXPECT_FALSE(config.env().has_type());  // The field has no default.
}

TEST(FillInDefaultsTest, ADefaultDoesNotReplaceAnAlternativeThatIsSet) {
  constexpr char kBytes[] = "policy { other { replay_buffer { replay_buffer_bytes: 1000 } } }";
  ExperimentConfig config;
  EXPECT_THAT(ParseTextConfig(kBytes, "test", &config), IsEmpty());
  FillInDefaults(&config);
  EXPECT_EQ(config.policy().other().replay_buffer().replay_buffer_bytes(), 1000);
  EXPECT_FALSE(config.policy().other().replay_buffer().has_replay_buffer_size());
}

TEST(PrintTextConfigTest, PrintsUtf8AsItIsAndOtherBytesAsEscapes) {
  ExperimentConfig config;
  config.set_exp_name("br_\xE5\x90\x8D\xC3\xBC \"q\"\n");
  EXPECT_EQ(PrintTextConfig(config), "exp_name: \"br_\xE5\x90\x8D\xC3\xBC \\\"q\\\"\\n\"\n");
  ExperimentConfig again;
  EXPECT_THAT(ParseTextConfig(PrintTextConfig(config), "printed", &again), IsEmpty());
  EXPECT_EQ(again.exp_name(), config.exp_name());
  config.set_exp_name("\xC3\xBC\xFF");
  EXPECT_EQ(PrintTextConfig(config), "exp_name: \"\\303\\274\\377\"\n");
  EXPECT_THAT(ParseTextConfig(PrintTextConfig(config), "printed", &again), IsEmpty());
  EXPECT_EQ(again.exp_name(), config.exp_name());
}

TEST(PrintTextConfigTest, ReadsBackAsTheSame) {
  ExperimentConfig config = Parsed();
  FillInDefaults(&config);
  const std::string text = PrintTextConfig(config);
  EXPECT_THAT(text, HasSubstr("[type.googleapis.com/ding.DqnConfig]"));
  ExperimentConfig again;
  EXPECT_THAT(ParseTextConfig(text, "printed", &again), IsEmpty());
  EXPECT_EQ(PrintTextConfig(again), text);
}

TEST(FillInDefaultsTest, DoesNotChooseAMemberOfAOneof) {
  ActorCriticConfig config;
  FillInDefaults(&config);
  EXPECT_TRUE(config.model().has_type());
  EXPECT_FALSE(config.has_critic());
  config.mutable_critic()->add_encoder_hidden_size(8);
  FillInDefaults(&config);
  EXPECT_EQ(config.critic().type(), "mlp");
  EXPECT_TRUE(config.critic().has_head_layer_num());
}

// Returns a text with `levels` messages, nested inside an Any of env.params.
std::string NestedText(int levels) {
  std::string text = "env { params { ";
  for (int i = 0; i < levels; ++i) text += "[type.googleapis.com/google.protobuf.Any] { ";
  return text + std::string(static_cast<size_t>(levels), '}') + " } }";
}

// The same in binary form, as the value of the outermost Any.
std::string NestedBytes(int levels) {
  Any any;
  for (int i = 1; i < levels; ++i) {
    Any outer;
    outer.PackFrom(any);
    any = std::move(outer);
  }
  ExperimentConfig config;
  config.mutable_env()->mutable_params()->PackFrom(any);
  std::string text;
  TextFormat::PrintToString(config, &text);  // This does not expand Anys.
  return text;
}

TEST(NestingTest, DeepConfigsRoundTrip) {
  // The levels are env, params and the content of params.
  for (const std::string& text :
       {NestedText(kMaxConfigDepth - 2), NestedBytes(kMaxConfigDepth - 2)}) {
    ExperimentConfig config;
    ASSERT_THAT(ParseTextConfig(text, "c", &config), IsEmpty());
    FillInDefaults(&config);
    ExperimentConfig again;
    EXPECT_THAT(ParseTextConfig(PrintTextConfig(config), "printed", &again), IsEmpty());
    EXPECT_EQ(PrintTextConfig(again), PrintTextConfig(config));
  }
}

TEST(NestingTest, ATooDeepTextIsRefusedWithItsPlace) {
  for (const int levels : {kMaxConfigDepth - 1, 10000, 100000}) {
    ExperimentConfig config;
    EXPECT_THAT(ParseTextConfig(NestedText(levels), "c", &config),
                ElementsAre(AllOf(StartsWith("c:1:"), HasSubstr("nested more than 50 deep"))));
    EXPECT_FALSE(config.has_env());
  }
}

TEST(NestingTest, BytesThatAreTooDeepAreRefusedWithTheirField) {
  for (const int levels : {kMaxConfigDepth - 1, 2000}) {
    ExperimentConfig config;
    EXPECT_THAT(
        ParseTextConfig(NestedBytes(levels), "c", &config),
        ElementsAre(AllOf(StartsWith("c:1:1: env"), HasSubstr("nested more than 50 deep"))));
    EXPECT_FALSE(config.has_env());
  }
}

TEST(NestingTest, ASettingThatIsTooDeepIsRefused) {
  const std::string nested = NestedText(10000);
  ExperimentConfig config = Parsed();
  EXPECT_THAT(ApplySetting(absl::StrCat("env=", nested.substr(nested.find('{'))), &config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("cannot set 'env'"), HasSubstr("nested more than"))));
  // The value itself is deep, and so is the place where it is put.
  const std::string half = NestedText(30);
  ASSERT_THAT(ApplySetting(absl::StrCat("env=", half.substr(half.find('{'))), &config), IsOk());
  EXPECT_THAT(ApplySetting(absl::StrCat("env=", NestedBytes(60).substr(4)), &config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nested more than")));
}

TEST(NestingTest, BracesInStringsAndCommentsAreNotCounted) {
  const std::string braces(1000, '{');
  ExperimentConfig config;
  EXPECT_THAT(
      ParseTextConfig(absl::StrCat("# ", braces, "\nexp_name: '", braces, "'"), "c", &config),
      IsEmpty());
  EXPECT_EQ(config.exp_name(), braces);
}

TEST(CheckConfigContentTest, UnknownFieldsInAnAnyAreRefused) {
  // Field 200 would be printed as "200: 1" and could not be read again.
  ExperimentConfig config;
  EXPECT_THAT(
      ParseTextConfig("policy { params { type_url: 'type.googleapis.com/ding.DqnConfig' "
                      "value: '\\xc0\\x0c\\x01' } }",
                      "c", &config),
      ElementsAre("c:1:1: policy.params: contains field number 200, which ding.DqnConfig does "
                  "not have"));
}

TEST(CheckConfigContentTest, InvalidBytesInAnAnyAreRefused) {
  ExperimentConfig config;
  EXPECT_THAT(ParseTextConfig("policy { params { type_url: 'type.googleapis.com/ding.DqnConfig' "
                              "value: 'x' } }",
                              "c", &config),
              ElementsAre("c:1:1: policy.params: its content is not a valid ding.DqnConfig"));
}

// The errors of ParseTextConfig() and ApplySetting() that say what to do, and settings of params
// that are not set yet.

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
