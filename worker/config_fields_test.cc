// worker/config_fields.txt says for every field of an experiment config, and of the parameters of
// every module, what becomes of it in each kind of run. The tests set each field to another value:
// if the table says that the field is refused, an error must name it; otherwise the value must be
// accepted. A field without a line fails the test, so that somebody decides what it does in each
// kind of run. config_fields_change_test finds a field of params that has no effect.

#include "ding_worker/worker/testing/config_fields.h"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/policy/bc/bc.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/field_uses.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "ding_worker/worker/tasks/derived_config.h"
#include "ding_worker/worker/tasks/on_policy_rounds.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using google::protobuf::Descriptor;

// ------------------------------------------------------------------------------------- the table

// In the order of kKindsOfRuns.
enum class Kind : size_t {
  kSerial,
  kOnPolicy,
  kSupervised,
  kParallel,
  kLeague,
  kEvaluate,
  kOnPolicyParallel,
  kSupervisedParallel
};

bool StartsWithAny(const std::string& field, absl::Span<const char* const> beginnings) {
  return absl::c_any_of(beginnings, [&](const char* b) { return absl::StartsWith(field, b); });
}

TEST(ConfigFieldsTest, TheTableHasAllFieldsAndNoOthers) {
  const FieldUses table = ReadConfigFieldsTable();
  std::set<std::string> met;
  for (const ConfigField& field : AllConfigFields()) {
    EXPECT_TRUE(FindFieldUse(table, field.name).has_value())
        << field.name << ": decide what it does in each kind of run, and write it into "
        << kConfigFieldsTable;
    const auto line = FindLine(table, field.name);
    if (line != table.end()) met.insert(line->first);
    met.insert(ParamsOf(field.name));
  }
  for (const auto& [name, use] : table) EXPECT_TRUE(met.count(name) > 0) << name << ": no field";
}

// ------------------------------------------------------------------------------------- the
// programs

// $0 is the env, $1 is the policy.
constexpr char kConfig[] = R"(
env { evaluator_env_num: 2 $0 }
policy { learn { learner { hook { hook { type: "log_show" name: "mine" } } } } $1 }
)";
constexpr char kGame[] = R"(
type: "TicTacToe" eval_opponent { name: "a" evaluator_type: "TicTacToe-vs-random" })";
constexpr char kLeagueText[] = R"(
collect { parallel_collector { type: "marine" } } other { commander { type: "one_vs_one" } })";

std::string PolicyText(const std::string& type, const Descriptor& params,
                       const std::string& model) {
  return absl::StrCat("type: \"", type, "\" params ", InAny(params, model));
}

class ConfigFieldsOfRunTest : public testing::TestWithParam<Kind> {
 protected:
  static std::string Text(Kind kind) {
    std::string policy = PolicyText("dqn", *DqnConfig::descriptor(), kSmallModel);
    std::string data_set;
    if (kind == Kind::kOnPolicy || kind == Kind::kOnPolicyParallel) {
      policy = PolicyText("ppo", *PpoConfig::descriptor(),
                          absl::StrCat("actor_critic { ", kSmallModels, " }"));
    } else if (kind == Kind::kSupervised || kind == Kind::kSupervisedParallel) {
      policy = PolicyText("bc", *BcConfig::descriptor(), kSmallModel);
      data_set = absl::StrCat("data_set { path: \"", DataSet(), "\" }");
    } else if (kind == Kind::kLeague) {
      absl::StrAppend(&policy, kLeagueText);
    }
    if (kind == Kind::kParallel || kind == Kind::kOnPolicyParallel) {
      absl::StrAppend(&policy, " collect { n_sample: 512 }");  // of all envs and collectors
    }
    return absl::StrCat(
        absl::StrReplaceAll(
            kConfig,
            {{"$0", kind == Kind::kLeague ? kGame : "type: \"CartPole-v0\""}, {"$1", policy}}),
        data_set);
  }

  static std::string DataSet() {
    static const auto* const kPath = new std::string(EpisodesOf("CartPole-v0"));
    return *kPath;
  }

  // Returns how a program of this kind judges the config with these settings.
  static absl::Status Judge(Kind kind, const std::vector<std::string>& settings) {
    absl::StatusOr<ExperimentConfig> config = ParseExperimentConfig(Text(kind), "config", settings);
    if (!config.ok()) return config.status();
    const bool collects_in_parallel =
        kind == Kind::kParallel || kind == Kind::kLeague || kind == Kind::kOnPolicyParallel;
    if (collects_in_parallel || kind == Kind::kSupervisedParallel) {
      // It has no default.
      if (!config->policy().collect().collector().has_collector_num()) {
        config->mutable_policy()->mutable_collect()->mutable_collector()->set_collector_num(2);
      }
      if (kind == Kind::kLeague) {  // also if a setting replaces policy.collect
        config->mutable_policy()->mutable_collect()->mutable_parallel_collector()->set_type(
            "marine");
      }
      DeriveParallelConfig(kind == Kind::kOnPolicyParallel, &*config);
      std::vector<std::string> problems = FindParallelProblems(*config);
      // The coordinator does this when it has made the policy.
      if (problems.empty() && collects_in_parallel && kind != Kind::kLeague) {
        problems = kind == Kind::kParallel ? FindPolicyKindProblems(*config, CollectAttributes())
                                           : FindUnusedFields(*config, RunKind::kOnPolicyParallel);
      }
      if (problems.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
    }
    SerialOptions options;
    options.exp_dir = testing::TempDir();
    return CreatePipeline(*config, options).status();
  }
};

TEST_P(ConfigFieldsOfRunTest, RefusedFieldsAreNamedAndOthersAccepted) {
  ASSERT_THAT(Judge(GetParam(), {}), IsOk());
  const FieldUses table = ReadConfigFieldsTable();
  for (const ConfigField& field : AllConfigFields()) {
    const std::optional<FieldUse> row = FindFieldUse(table, field.name);
    if (!row.has_value()) continue;  // The other test reports this.
    const char use = row->uses[static_cast<size_t>(GetParam())];
    if (use == '-' || row->value == "?") continue;
    if (use != 'r' && absl::StartsWith(row->value, "?")) continue;
    std::vector<std::string> settings = field.settings;
    settings.insert(settings.end(), row->settings.begin(), row->settings.end());
    const std::string value = OtherValue(field, std::string(absl::StripPrefix(row->value, "?")));
    ASSERT_FALSE(value.empty()) << field.name << " needs a value in the table";
    settings.push_back(absl::StrCat(field.path, "=", value));
    const absl::Status status = Judge(GetParam(), settings);
    if (use == 'r') {
      const std::string message(status.message());
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field.name << ": " << status;
      // The message names the field by its path, or by its own name if a module reports it.
      EXPECT_THAT(message, testing::ContainsRegex(absl::StrCat(
                               "(^|[^a-z_])", field.descriptor->name(), "($|[^a-z_])")))
          << field.name;
      EXPECT_FALSE(absl::StrContains(message, "--set")) << field.name << ": " << message;
    } else {
      EXPECT_THAT(status, IsOk()) << field.name << " " << absl::StrJoin(settings, " ");
    }
  }
}

std::string NameOfKind(const testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"Serial", "OnPolicy", "Supervised",       "Parallel",
                                    "League", "Evaluate", "OnPolicyParallel", "SupervisedParallel"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, ConfigFieldsOfRunTest,
                         testing::Values(Kind::kSerial, Kind::kOnPolicy, Kind::kSupervised,
                                         Kind::kParallel, Kind::kLeague, Kind::kOnPolicyParallel,
                                         Kind::kSupervisedParallel),
                         NameOfKind);

// It does so before it looks for the checkpoint, whose policy it plays: that cannot be set.
TEST(ConfigFieldsTest, AnEvaluationRefusesToSetWhatItDoesNotRead) {
  const FieldUses table = ReadConfigFieldsTable();
  for (const ConfigField& field : AllConfigFields()) {
    const std::optional<FieldUse> row = FindFieldUse(table, field.name);
    if (!row.has_value()) continue;  // The other test reports this.
    if (StartsWithAny(field.name, {"policy.eval.evaluator.params<"})) continue;  // parts of params
    const bool kept =
        StartsWithAny(field.name, {"policy.type", "policy.params", "policy.schedule"});
    const bool reads = row->uses[static_cast<size_t>(Kind::kEvaluate)] != '-';
    EvaluationOptions options;
    options.checkpoint = "nowhere";
    options.settings = {absl::StrCat(field.path, "=1")};
    const std::string message(EvaluateCheckpoint(options).status().message());
    EXPECT_EQ(absl::StrContains(message, "has no effect here"), kept || !reads)
        << field.name << ": " << message;
  }
}

// A network has layers by default, so that a policy needs no params. Those that learn from
// sequences need a buffer of them.
TEST(ConfigFieldsTest, APolicyNeedsNoParams) {
  for (const char* const type : {"dqn", "c51", "rainbow", "qrdqn", "iqn", "ppo", "a2c"}) {
    DING_ASSERT_OK_AND_ASSIGN(
        const ExperimentConfig config,
        ParseExperimentConfig(
            absl::StrCat("env { type: \"CartPole-v0\" } policy { type: \"", type, "\" }"), "config",
            {}));
    SerialOptions options;
    options.exp_dir = testing::TempDir();
    EXPECT_THAT(CreatePipeline(config, options), IsOk()) << type;
  }
}

}  // namespace
}  // namespace ding
