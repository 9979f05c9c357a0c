// docs/reference/config.md is what the .proto files, the registries and worker/config_fields.txt
// say; every field is explained, every example can be parsed, and every type takes the message that
// its registration names.
//
// `DING_WRITE_DOCS=1 bazel run //worker:config_page_test` writes docs/reference/config.md.

#include "ding_worker/worker/config/config_page.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/stopper.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/config/config_help.h"
#include "ding_worker/worker/config/config_tree.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/type_choices.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/registry.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using google::protobuf::Any;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kDocs[] = "docs/reference/config.md";

TEST(ConfigPageTest, ThePageIsWhatTheProgramSays) {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");  // set by bazel run
  if (std::getenv("DING_WRITE_DOCS") != nullptr && workspace != nullptr) {
    ASSERT_THAT(WriteFileAtomically(absl::StrCat(workspace, "/", kDocs), ConfigPage()), IsOk());
    return;
  }
  EXPECT_EQ(ReadFile(kDocs).value(), ConfigPage())
      << "write it anew: DING_WRITE_DOCS=1 bazel run //worker:config_page_test";
}

class ConfigTreeOfAllTest : public testing::Test {
 protected:
  // Calls `visit` with every node.
  static void Visit(const ConfigNode& node, const std::function<void(const ConfigNode&)>& visit) {
    visit(node);
    for (const ConfigNode& inner : node.inside) Visit(inner, visit);
  }

  const ConfigNode tree_ = MakeConfigTree(*ExperimentConfig::descriptor());
};

TEST_F(ConfigTreeOfAllTest, EveryFieldIsExplained) {
  Visit(tree_, [](const ConfigNode& node) {
    if (node.field == nullptr || node.message != nullptr) return;
    EXPECT_FALSE(DescribeMeaning(*node.field).empty())
        << node.field->full_name() << " has no comment in its .proto file, or that file is not in "
        << "//worker/config:our_comments";
  });
}

TEST_F(ConfigTreeOfAllTest, EveryExampleIsAConfigWithTheParamsOfItsType) {
  int examples = 0;
  Visit(tree_, [&examples](const ConfigNode& node) {
    if (node.types.empty()) return;
    ++examples;
    ExperimentConfig config;
    const std::string text = ExampleOfParams(node);
    EXPECT_THAT(ParseTextConfig(text, "example", &config), IsEmpty()) << text;
    EXPECT_THAT(FindWrongParams(config), IsEmpty()) << text;
    EXPECT_THAT(text, HasSubstr(absl::StrCat("[type.googleapis.com/", node.message->full_name())));
  });
  EXPECT_GE(examples, 15);
}

// A field of a new section that chooses a type needs a line in worker/config/type_choices.cc.
TEST_F(ConfigTreeOfAllTest, AllParamsBelongToATypeAndEveryRegistryIsListed) {
  Visit(tree_, [](const ConfigNode& node) {
    if (!node.is_any()) return;
    EXPECT_NE(FindTypeField(*node.field), nullptr) << node.name;
  });
  const std::string modules = absl::StrCat("\n", ListModules());
  for (const TypeChoice& choice : TypeChoices()) {
    for (const absl::string_view kind : choice.kinds) {
      EXPECT_THAT(modules, HasSubstr(absl::StrCat("\n", kind, ":"))) << choice.message;
    }
  }
}

// ------------------------------------------------------------------------ the factories of all
// types

// A config of a type with params that none of our types takes.
template <typename Config>
Config WithOtherParams(const std::string& type) {
  Config config;
  config.set_type(type);
  config.mutable_params()->PackFrom(SinkConfig());
  return config;
}

GivenParams GivenOtherParams(const std::string& type) {
  static const auto* const kParams = [] {
    auto* const any = new Any;
    any->PackFrom(SinkConfig());
    return any;
  }();
  return {type, kParams};
}

PolicyContext SomeSpaces() {
  PolicyContext context;
  context.observation = MakeSpec({Box("obs", {4})}).value();
  context.action = MakeSpec({Discrete("action", 2)}).value();
  return context;
}

using Create = std::function<absl::Status(const std::string& type)>;

// How a program makes a type with params that it does not take, by the kind of its registry.
std::map<std::string, Create> Creates() {
  using std::string;
  return {
      {"env",
       [](const string& type) { return create_env(WithOtherParams<EnvConfig>(type)).status(); }},
      {"env wrapper",
       [](const string& type) {
         EnvConfig config;
         config.set_type("CartPole-v0");
         *config.add_wrapper() = WithOtherParams<EnvWrapperConfig>(type);
         return create_envs(config, EnvManagerConfig(), 1, Clock::Real(), EnvsUse()).status();
       }},
      {"env manager",
       [](const string& type) {
         return create_env_manager(WithOtherParams<EnvManagerConfig>(type), {}, Clock::Real())
             .status();
       }},
      {"policy",
       [](const string& type) {
         return create_policy(WithOtherParams<PolicyConfig>(type), SomeSpaces()).status();
       }},
      {"network",
       [](const string& type) {
         return create_network(WithOtherParams<NetworkConfig>(type),
                               MakeSpec({Box("obs", {4})}).value(),
                               MakeSpec({Box("q", {2})}).value(), 0)
             .status();
       }},
      {"loss",
       [](const string& type) {
         return LossRegistry().Create(WithOtherParams<LossConfig>(type)).status();
       }},
      {"schedule",
       [](const string& type) {
         return create_schedule(WithOtherParams<FieldScheduleConfig>(type),
                                {/*start=*/1, /*end=*/1, /*steps=*/1})
             .status();
       }},
      {"buffer",
       [](const string& type) {
         return create_buffer(WithOtherParams<BufferConfig>(type), BufferDeps()).status();
       }},
      {"selector",
       [](const string& type) {
         return create_selector(WithOtherParams<SelectorConfig>(type)).status();
       }},
      {"remover",
       [](const string& type) {
         return create_remover(WithOtherParams<RemoverConfig>(type)).status();
       }},
      {"serial collector",
       [](const string& type) {
         return create_serial_collector(WithOtherParams<SerialCollectorConfig>(type), nullptr,
                                        nullptr, {})
             .status();
       }},
      {"battle collector",
       [](const string& type) {
         return create_battle_collector(WithOtherParams<SerialCollectorConfig>(type), nullptr, {},
                                        {})
             .status();
       }},
      {"serial evaluator",
       [](const string& type) {
         return create_serial_evaluator(WithOtherParams<SerialEvaluatorConfig>(type), nullptr,
                                        nullptr, {})
             .status();
       }},
      {"battle evaluator",
       [](const string& type) {
         return create_battle_evaluator(WithOtherParams<SerialEvaluatorConfig>(type), nullptr, {},
                                        {})
             .status();
       }},
      {"metric evaluator",
       [](const string& type) {
         return create_metric_evaluator(WithOtherParams<MetricEvaluatorConfig>(type), nullptr,
                                        nullptr, nullptr, {})
             .status();
       }},
      {"learner",
       [](const string& type) {
         return create_learner(WithOtherParams<LearnerConfig>(type), nullptr, {}).status();
       }},
      {"learner hook",
       [](const string& type) {
         LearnerHooksConfig hooks;
         *hooks.add_hook() = WithOtherParams<LearnerHookConfig>(type);
         return build_learner_hook_by_cfg(hooks).status();
       }},
      {"stopper",
       [](const string& type) {
         return create_stopper(WithOtherParams<StopperConfig>(type), StopperDeps()).status();
       }},
      {"sink",
       [](const string& type) {
         return create_sink(WithOtherParams<SinkConfig>(type), {}).status();
       }},
      {"parallel collector",
       [](const string& type) {
         return create_parallel_collector(WithOtherParams<ParallelCollectorConfig>(type), {}, {},
                                          {})
             .status();
       }},
      {"commander",
       [](const string& type) {
         return create_parallel_commander(WithOtherParams<CommanderConfig>(type), CommanderDeps())
             .status();
       }},
      {"comm collector",
       [](const string& type) {
         return create_comm_collector(GivenOtherParams(type), nullptr, nullptr, {}).status();
       }},
      {"comm learner",
       [](const string& type) {
         return create_comm_learner(GivenOtherParams(type), {}, nullptr, nullptr, {}).status();
       }},
  };
}

TEST(RegisteredParamsTest, FactoriesTakeTheMessageThatTheirRegistrationNames) {
  const std::map<std::string, Create> creates = Creates();
  int types = 0;
  for (const TypeChoice& choice : TypeChoices()) {
    const bool has_params = absl::EndsWith(choice.field, "type");
    for (const absl::string_view kind : choice.kinds) {
      if (!has_params) continue;
      const auto create = creates.find(std::string(kind));
      ASSERT_NE(create, creates.end()) << kind << ": tell the test how to make one";
      for (const RegistryEntry& entry : EntriesOfKind(kind)) {
        ++types;
        const std::string expected = entry.params == nullptr
                                         ? absl::StrCat("but type '", entry.name, "' takes none")
                                         : absl::StrCat("expected a ", entry.params()->full_name(),
                                                        " for type '", entry.name);
        EXPECT_THAT(std::string(create->second(entry.name).message()), HasSubstr(expected))
            << kind << " at " << entry.where;
      }
    }
  }
  EXPECT_GE(types, 60);
}

}  // namespace
}  // namespace ding
