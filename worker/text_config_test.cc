#include "ding_worker/worker/text_config.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/policy/actor_critic/actor_critic.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
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

constexpr char kConfig[] = R"(
exp_name: "run"
policy {
  type: "dqn"
  params {
    [type.googleapis.com/ding.DqnConfig] {
      learning_rate: 0.5
      model { encoder_hidden_size: [8, 8] }
    }
  }
  learn { learner { hook { hook { type: "a" } hook { type: "b" } } } }
})";

ExperimentConfig Parsed() {
  ExperimentConfig config;
  EXPECT_THAT(ParseTextConfig(kConfig, "test", &config), IsEmpty());
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

TEST(SetByPathTest, ErrorsSayWhatIsWrongAndChangeNothing) {
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
  EXPECT_FALSE(config.env().has_type());  // It has no default.
}

TEST(FillInDefaultsTest, ADefaultDoesNotReplaceAnAlternativeThatIsSet) {
  constexpr char kBytes[] = "policy { other { replay_buffer { replay_buffer_bytes: 1000 } } }";
  ExperimentConfig config;
  EXPECT_THAT(ParseTextConfig(kBytes, "test", &config), IsEmpty());
  FillInDefaults(&config);
  EXPECT_EQ(config.policy().other().replay_buffer().replay_buffer_bytes(), 1000);
  EXPECT_FALSE(config.policy().other().replay_buffer().has_replay_buffer_size());
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

TEST(FillInDefaultsTest, WhichMemberOfAOneofIsSetIsAChoice) {
  ActorCriticConfig config;
  FillInDefaults(&config);
  EXPECT_TRUE(config.model().has_type());
  EXPECT_FALSE(config.has_critic());
  config.mutable_critic()->add_encoder_hidden_size(8);
  FillInDefaults(&config);
  EXPECT_EQ(config.critic().type(), "mlp");
  EXPECT_TRUE(config.critic().has_head_layer_num());
}

TEST(TextConfigFuzz, ATextIsReadOrItsProblemsAreNamed) {
  int read = 0;
  int wrong = 0;
  Fuzz(3000, [&](Mutator* mutator) {
    ExperimentConfig config;
    const std::vector<std::string> problems =
        ParseTextConfig(mutator->Mutate(kConfig), "mutant", &config);
    for (const std::string& problem : problems) EXPECT_THAT(problem, StartsWith("mutant:"));
    ++(problems.empty() ? read : wrong);
    if (!problems.empty()) return;
    FillInDefaults(&config);
    ExperimentConfig again;
    EXPECT_THAT(ParseTextConfig(PrintTextConfig(config), "printed", &again), IsEmpty());
  });
  EXPECT_GT(read, 0);
  EXPECT_GT(wrong, 0);
}

TEST(TextConfigFuzz, ASettingIsAppliedOrRefused) {
  int applied = 0;
  int refused = 0;
  for (const char* const good :
       {"policy.learn.learner.hook.hook[1].type=c", "policy.params.learning_rate=0.25",
        "policy.params.model.encoder_hidden_size=[16, 8]", "exp_name=other"}) {
    Fuzz(2000, [&](Mutator* mutator) {
      ExperimentConfig config = Parsed();
      const absl::Status status = ApplySetting(mutator->Mutate(good), &config);
      ++(status.ok() ? applied : refused);
      if (!status.ok()) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
      }
    });
  }
  EXPECT_GT(applied, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace ding
