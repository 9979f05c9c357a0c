#include "ding_worker/worker/testing/config_fields.h"

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/learner/stopper.h"
#include "ding_worker/learner/stopper.pb.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/worker/config/config_tree.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/testing/demonstrations.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace ding {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

std::string InAny(const Descriptor& type, const std::string& content) {
  return absl::StrCat("{[type.googleapis.com/", type.full_name(), "]{", content, "}}");
}

std::string EpisodesOf(const std::string& type, int episodes) {
  const std::string path =
      JoinPath(testing::TempDir(), absl::StrCat(type, "_", episodes, ".episodes"));
  EnvConfig env;
  env.set_type(type);
  const EnvSpec spec = create_env(env).value()->spec();
  EXPECT_THAT(
      WriteEpisodes(path, MakeDemonstrations(episodes, spec.name, spec.observation->field(0),
                                             spec.action->field(0))),
      IsOk());
  return path;
}

namespace {

absl::Status HalveRewards(int /*env_id*/, const ColumnsView& /*rows*/, absl::Span<float> rewards) {
  for (float& reward : rewards) reward /= 2;
  return absl::OkStatus();
}

DING_REGISTER(RewardShapingRegistry(), "of_the_test", HalveRewards, "halves the rewards");

class RemoveOdd : public IRemover {
 public:
  absl::Status Remove(const Candidates& rows, int64_t /*learner_iter*/,
                      std::vector<int64_t>* ids) override {
    for (int64_t rank = 0; rank < rows.size(); ++rank) {
      if (rows.Id(rank) % 2 == 1) ids->push_back(rows.Id(rank));
    }
    return absl::OkStatus();
  }
};

DING_REGISTER(
    RemoverRegistry(), "of_the_test",
    [](const RemoverConfig&) { return std::make_unique<RemoveOdd>(); }, "removes every second row");

class StopAtOnce : public IStopper {
 public:
  std::string WhyStop(const RunMoment& /*now*/) override { return "it has begun"; }
};

DING_REGISTER(
    StopperRegistry(), "of_the_test",
    [](const StopperConfig&, const StopperDeps&) { return std::make_unique<StopAtOnce>(); },
    "ends the run at once");

SinkDescriptor DropsAll() {
  SinkDescriptor descriptor;
  descriptor.create = [](const SinkConfig&, const SinkDeps&) {
    return std::make_shared<NullSink>();
  };
  return descriptor;
}

DING_REGISTER(SinkRegistry(), "of_the_test", DropsAll(), "drops all metrics");

constexpr char kDqn[] = "dqn { model { encoder_hidden_size: 4 } }";
constexpr char kRecurrent[] = "dqn { model { type: \"rnn\" recurrent { hidden_size: 4 } } }";

// What a message in params needs, so that the runs which use it accept the config.
struct Params {
  std::string content;
  std::vector<std::string> settings = {};  // before those with the params
  std::string type = "";                   // empty: the first type that takes the message
  std::string amount = "";                 // of a collector: in policy.collect
};

// By the name of the message. One without a line needs nothing.
const std::map<std::string, Params>& AllParams() {
  static const auto* const kAll = [] {
    const Params of_dqn{kDqn};
    const Params actor_critic{absl::StrCat("actor_critic {", kSmallModels, "}")};
    const Params continuous{absl::StrCat("continuous {", kSmallModels, "}"),
                            {"env.type=Pendulum-v1"}};
    Params offline = continuous;
    offline.settings.push_back(absl::StrCat("data_set.path=", EpisodesOf("Pendulum-v1")));
    const auto sequences = [](int length) {
      return absl::StrCat(
          "policy.other.replay_buffer={type:\"sequence\" params",
          InAny(*SequenceBufferConfig::descriptor(), absl::StrCat("unroll_len:", length)), "}");
    };
    Params impala = actor_critic;
    impala.settings = {sequences(4)};
    const std::string games = "env={type:\"TicTacToe\" evaluator_type:\"TicTacToe-vs-random\"}";
    return new std::map<std::string, Params>{
        {"BoardGameConfig", {"", {}, "ConnectFour-vs-search"}},
        {"GymnasiumConfig", {"id: \"CartPole-v1\"", {}, "gymnasium"}},
        {"TimeLimitConfig", {"max_steps: 9"}},
        {"RewardScaleConfig", {"scale: 2"}},
        {"DqnConfig", {kSmallModel}},
        {"C51Config", of_dqn},
        {"RainbowConfig", of_dqn},
        {"QrdqnConfig", of_dqn},
        {"IqnConfig", of_dqn},
        {"CqlConfig", of_dqn},
        {"R2d2Config", {kRecurrent, {"policy.collect.unroll_len=20", sequences(20)}}},
        {"ImpalaConfig", impala},
        {"SacConfig", continuous},
        {"Td3Config", continuous},
        {"DdpgConfig", continuous},
        {"Td3BcConfig", offline},
        {"IqlConfig", offline},
        {"DiscreteSacConfig", {kSmallModels}},
        {"PpoConfig", actor_critic},
        {"A2cConfig", actor_critic},
        {"BcConfig", {kSmallModel}},
        {"EpisodeCollectorParams", {"get_train_sample: true", {}, "", "n_episode: 8"}},
        {"BattleSampleCollectorParams", {"", {games}}},
        {"BattleEpisodeCollectorParams", {"", {games}, "", "n_episode: 8"}},
        {"DequeBufferConfig", {"max_use: 5 priority: true"}},
        {"HindsightBufferConfig", {"radius: 0.05"}},
        {"SequenceBufferConfig", {"unroll_len: 4"}},
        {"ValueReachedParams", {"value: 1"}},
        {"WallClockParams", {"seconds: 100"}},
    };
  }();
  return *kAll;
}

// The settings that put the params of the node there.
std::vector<std::string> SettingsFor(const ConfigNode& node) {
  const auto found = AllParams().find(std::string(node.message->name()));
  const Params params = found == AllParams().end() ? Params() : found->second;
  std::vector<std::string> settings = params.settings;
  const std::string type = params.type.empty() ? node.types[0] : params.type;
  const std::string any = InAny(*node.message, params.content);
  const std::string both = absl::StrCat("type:\"", type, "\" params", any);
  const std::string place = node.name.substr(0, node.name.rfind(".params<"));
  if (place == "policy" || place == "policy.eval.evaluator") {
    if (place == "policy") settings.push_back(absl::StrCat("policy.type=", type));
    settings.push_back(absl::StrCat(place, ".params=", any));
  } else if (place == "policy.collect.collector") {
    settings.push_back(absl::StrCat("policy.collect={", params.amount, " collector{", both, "}}"));
  } else if (place == "env" || place == "policy.other.replay_buffer") {
    settings.push_back(absl::StrCat(place, "={", both, "}"));
  } else {
    settings.push_back(absl::StrCat(place, "=[{", both, "}]"));
  }
  return settings;
}

// Appends the values in the node, with the settings of the params around them.
void AppendFields(const ConfigNode& node, const std::vector<std::string>& settings,
                  std::vector<ConfigField>* fields) {
  if (node.field != nullptr && node.message == nullptr) {
    fields->push_back({node.name, node.path, node.field, settings});
  }
  for (const ConfigNode& inner : node.inside) {
    if (inner.is_repeated) continue;
    AppendFields(inner, inner.types.empty() ? settings : SettingsFor(inner), fields);
  }
}

}  // namespace

std::vector<ConfigField> AllConfigFields() {
  static const auto* const kTree = new ConfigNode(MakeConfigTree(*ExperimentConfig::descriptor()));
  static const auto* const kFields = [] {
    auto* const fields = new std::vector<ConfigField>;
    AppendFields(*kTree, {}, fields);
    return fields;
  }();
  return *kFields;
}

FieldUses ReadConfigFieldsTable() {
  return ParseFieldUses(ReadFile(kConfigFieldsTable).value()).value();
}

std::string OtherValue(const ConfigField& field, const std::string& value) {
  if (!value.empty()) return value;
  const FieldDescriptor& descriptor = *field.descriptor;
  if (descriptor.is_repeated()) return "";
  switch (descriptor.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return descriptor.default_value_bool() ? "false" : "true";
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(descriptor.default_value_int32() + 1);
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(descriptor.default_value_int64() + 1);
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(descriptor.default_value_uint64() + 1);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(descriptor.default_value_double() / 2 + 0.125);
    case FieldDescriptor::CPPTYPE_ENUM:
      return std::string(descriptor.enum_type()
                             ->value(descriptor.default_value_enum()->index() == 0 ? 1 : 0)
                             ->name());
    default:
      return "";
  }
}

}  // namespace ding
