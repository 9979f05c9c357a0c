// The tree of a config, the paths by which a person asks for a part of it, and the help about them.
#include "ding_worker/worker/config/config_tree.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"
#include "ding_worker/learner/stopper.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/worker/config/config_help.h"
#include "ding_worker/worker/experiment.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class ConfigTreeTest : public testing::Test {
 protected:
  ConfigTreeTest() : policies_("policy"), envs_("env") {
    policies_.Register("dqn", 0, {"learns values", &DqnConfig::descriptor}, "here");
    policies_.Register("twin", 0, {"learns values, too", &DqnConfig::descriptor}, "here");
    policies_.Register("ppo", 0, {"learns a policy", &PpoConfig::descriptor}, "here");
    policies_.Register("random", 0, "acts at random", "here");
    // A message of one's own, without comments.
    envs_.Register("maze", 0, {"a maze", &ding_user::WordParams::descriptor}, "here");
    tree_ = MakeConfigTree(*ExperimentConfig::descriptor());
  }

  std::vector<std::string> Find(const std::string& path) {
    std::vector<std::string> names;
    const auto found = FindConfigNodes(tree_, path);
    EXPECT_THAT(found, IsOk()) << path;
    if (!found.ok()) return names;
    for (const ConfigNode* const node : *found) names.push_back(node->name);
    return names;
  }

  Registry<int> policies_, envs_;
  ConfigNode tree_;
};

TEST_F(ConfigTreeTest, FieldsAreFoundByPathAndByName) {
  EXPECT_THAT(Find("policy.learn.batch_size"), ElementsAre("policy.learn.batch_size"));
  EXPECT_THAT(Find("policy.learn"), ElementsAre("policy.learn"));
  EXPECT_THAT(Find("policy.learn.learner.hook.hook[3].freq"),
              ElementsAre("policy.learn.learner.hook.hook.freq"));
  EXPECT_THAT(Find("policy.params<DqnConfig>.eps.start"),
              ElementsAre("policy.params<DqnConfig>.eps.start"));
  EXPECT_THAT(Find(""), ElementsAre(""));
}

TEST_F(ConfigTreeTest, APathThroughParamsMeansAllTypesOrTheOneThatIsNamed) {
  EXPECT_THAT(Find("policy.params"), ElementsAre("policy.params"));
  EXPECT_THAT(Find("policy.params.model"), ElementsAre("policy.params<DqnConfig>.model"));
  for (const char* const type : {"dqn", "twin", "DqnConfig", "ding.DqnConfig"}) {
    EXPECT_THAT(Find("policy.params<" + std::string(type) + ">"),
                ElementsAre("policy.params<DqnConfig>"));
  }
  EXPECT_THAT(FindConfigNodes(tree_, "policy.params<random>"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("type 'random' takes no params in policy.params"),
                             HasSubstr("dqn, twin (DqnConfig), ppo (PpoConfig)"))));
  EXPECT_THAT(FindConfigNodes(tree_, "policy.params<dqm>"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no type and no message 'dqm' in policy.params; there are: dqn")));
}

TEST_F(ConfigTreeTest, APathThatDoesNotExistIsRefusedWithSuggestions) {
  const struct {
    const char* path;
    const char* message;
  } kCases[] = {
      {"policy.lern", "no field 'lern' in 'policy'; did you mean 'learn'?"},
      {"policy.learn.batchsize",
       "no field 'batchsize' in 'policy.learn'; did you mean 'batch_size'?"},
      {"batch_size",
       "no field 'batch_size' in an experiment config; did you mean "
       "policy.learn.batch_size?"},
      {"double_dqm",
       "did you mean policy.params<DqnConfig>.double_dqn, opponent.params<DqnConfig>.double_dqn?"},
      {"env.qqqqqqqqqqqqqqqqqqqqqq", "it has: type, params"},
      {"seed.x", "no field 'x' in 'seed'"},
      {"policy..learn", "no field ''"},
      {"<", "no field ''"},
  };
  for (const auto& test : kCases) {
    EXPECT_THAT(FindConfigNodes(tree_, test.path),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr(test.message)))
        << test.path;
  }
}

TEST_F(ConfigTreeTest, ValuesHaveThePathThatASettingTakesAndStandThereOnce) {
  std::vector<std::string> names, paths;
  for (const ConfigNode* const value : ListConfigValues(tree_)) {
    names.push_back(value->name);
    paths.push_back(value->path);
  }
  EXPECT_THAT(names, Contains("policy.params<PpoConfig>.clip_ratio"));
  EXPECT_THAT(paths, Contains("policy.params.clip_ratio"));
  EXPECT_THAT(paths, Contains("policy.learn.learner.hook.hook[0].freq"));
  EXPECT_THAT(names, Contains("env.params<WordParams>.word").Times(1));
  EXPECT_THAT(names, Each(Not(StartsWith("env.evaluator_params<"))));
  EXPECT_THAT(Find("env.evaluator_params.word"), SizeIs(1)) << "but it is found there";
}

TEST_F(ConfigTreeTest, HelpHasMeaningDefaultKindAndRuns) {
  EXPECT_THAT(
      ConfigHelp("policy.learn.send_policy_freq").value(),
      StartsWith("policy.learn.send_policy_freq = 10  (integer, at least 1)\n    Used in parallel "
                 "runs:"));
  EXPECT_THAT(ConfigHelp("policy.learn.send_policy_freq").value(),
              HasSubstr("Runs: parallel, league; no effect in serial, on-policy, supervised"));
  EXPECT_THAT(
      ConfigHelp("policy.params<dqn>.eps.type").value(),
      AllOf(HasSubstr(" = EXP  (EXP, LINEAR)\n"), HasSubstr("LINEAR: linearly from start")));
}

TEST_F(ConfigTreeTest, HelpListsTheTypesWithTheirParamsAndAnExample) {
  EXPECT_THAT(ConfigHelp("policy.type").value(),
              AllOf(HasSubstr("  dqn: learns values [ding.DqnConfig]\n"),
                    HasSubstr("  random: acts at random\n")));
  EXPECT_THAT(
      ConfigHelp("policy.params").value(),
      AllOf(HasSubstr("The params of type dqn, twin: a ding.DqnConfig."),
            HasSubstr("policy { type: \"dqn\" params { [type.googleapis.com/ding.DqnConfig] {")));
}

TEST_F(ConfigTreeTest, AFieldThatIsAskedForAloneHasTheCommentThatItSharesWithAnother) {
  EXPECT_THAT(ConfigHelp("max_train_iter").value(),
              HasSubstr("    as max_env_step: The run ends when it reaches"));
  EXPECT_THAT(ConfigHelp("").value(), HasSubstr("    as max_env_step\n"));
}

TEST_F(ConfigTreeTest, ExamplesSetWhatIsRequired) {
  Registry<int> stoppers("stopper"), wrappers("env wrapper");
  stoppers.Register("wall_clock", 0, {"stops", &WallClockParams::descriptor}, "here");
  wrappers.Register("crop", 0, {"crops", &CropConfig::descriptor}, "here");
  wrappers.Register("lives", 0, {"ends", &EpisodicLifeConfig::descriptor}, "here");
  EXPECT_THAT(ConfigHelp("stopper").value(), HasSubstr("ding.WallClockParams] { seconds: 1 } } }"));
  EXPECT_THAT(ConfigHelp("env.wrapper").value(),
              AllOf(HasSubstr("ding.CropConfig] { width: 1 height: 1 } } }"),
                    HasSubstr("ding.EpisodicLifeConfig] { field: \"...\" } } }")));
}

TEST_F(ConfigTreeTest, AMessageWithoutCommentsIsListedByItsFields) {
  EXPECT_THAT(ConfigHelp("env.params<maze>").value(),
              AllOf(HasSubstr("env.params<WordParams>.word  (text)\n"),
                    HasSubstr("env.params<WordParams>.number = 7  (integer)\n")));
}

TEST_F(ConfigTreeTest, TheHelpAboutEverythingFitsATerminalAndNamesEachMessageOnce) {
  const std::string help = ConfigHelp("").value();
  for (const absl::string_view line : absl::StrSplit(help, '\n')) {
    if (absl::StartsWith(line, "    Example: ")) continue;
    EXPECT_LE(line.size(), 100u) << line;
  }
  EXPECT_THAT(help, Not(AnyOf(StartsWith("\n"), HasSubstr("\n\n\n"))));
  EXPECT_THAT(help, AllOf(HasSubstr("\npolicy.learn.batch_size = 64  (integer, at least 1)\n"),
                          HasSubstr("Its fields are those of policy.params<DqnConfig>.model.")));
}

TEST_F(ConfigTreeTest, HelpOfAPathThatDoesNotExistIsAnError) {
  EXPECT_THAT(ConfigHelp("policy.lern"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("did you mean 'learn'?")));
}

}  // namespace
}  // namespace ding
