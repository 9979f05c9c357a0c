#include "ding_worker/worker/testing/config_fields.h"

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/env/board_games/board_games.pb.h"
#include "ding_worker/env/box2d/box2d.pb.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/mujoco/mujoco.pb.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"
#include "ding_worker/learner/stopper.h"
#include "ding_worker/learner/stopper.pb.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/metrics/mlflow.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "ding_worker/policy/a2c/a2c.pb.h"
#include "ding_worker/policy/bc/bc.pb.h"
#include "ding_worker/policy/cql/cql.pb.h"
#include "ding_worker/policy/discrete_sac/discrete_sac.pb.h"
#include "ding_worker/policy/distributional/distributional.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/impala/impala.pb.h"
#include "ding_worker/policy/iql/iql.pb.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/r2d2/r2d2.pb.h"
#include "ding_worker/policy/sac/sac.pb.h"
#include "ding_worker/policy/td3/td3.pb.h"
#include "ding_worker/policy/td3bc/td3bc.pb.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/deque_buffer.pb.h"
#include "ding_worker/replay_buffer/elastic_buffer.pb.h"
#include "ding_worker/replay_buffer/hindsight_buffer.pb.h"
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

// A type of message that an Any may hold, and the settings that put it there.
struct Params {
  std::string any;  // path
  const Descriptor* type;
  std::vector<std::string> settings;
};

const std::vector<Params>& AllParams() {
  static const auto* const kAll = [] {
    const auto policy = [](const std::string& name, const Descriptor* type,
                           const std::string& content) {
      return Params{"policy.params",
                    type,
                    {absl::StrCat("policy.type=", name),
                     absl::StrCat("policy.params=", InAny(*type, content))}};
    };
    const auto continuous = [](const std::string& name, const Descriptor* type) {
      return Params{"policy.params",
                    type,
                    {"env.type=Pendulum-v1", absl::StrCat("policy.type=", name),
                     absl::StrCat("policy.params=",
                                  InAny(*type, absl::StrCat("continuous {", kSmallModels, "}")))}};
    };
    const auto offline = [&continuous](const std::string& name, const Descriptor* type) {
      Params params = continuous(name, type);
      params.settings.push_back(absl::StrCat("data_set.path=", EpisodesOf("Pendulum-v1")));
      return params;
    };
    const auto buffer = [](const std::string& name, const Descriptor* type,
                           const std::string& content = "") {
      return Params{"policy.other.replay_buffer.params",
                    type,
                    {absl::StrCat("policy.other.replay_buffer={type:\"", name, "\" params",
                                  InAny(*type, content), "}")}};
    };
    const auto stopper = [](const std::string& name, const Descriptor* type,
                            const std::string& content = "") {
      return Params{
          "stopper.params",
          type,
          {absl::StrCat("stopper=[{type:\"", name, "\" params", InAny(*type, content), "}]")}};
    };
    const auto wrapper = [](const std::string& name, const Descriptor* type,
                            const std::string& content = "") {
      return Params{
          "env.wrapper.params",
          type,
          {absl::StrCat("env.wrapper=[{type:\"", name, "\" params", InAny(*type, content), "}]")}};
    };
    const std::string games = "env={type:\"TicTacToe\" evaluator_type:\"TicTacToe-vs-random\"}";
    return new std::vector<Params>{
        {"env.params",
         BoardGameConfig::descriptor(),
         {absl::StrCat("env={type:\"ConnectFour-vs-search\" params",
                       InAny(*BoardGameConfig::descriptor()), "}")}},
        {"env.params",
         GymnasiumConfig::descriptor(),
         {absl::StrCat("env={type:\"gymnasium\" params",
                       InAny(*GymnasiumConfig::descriptor(), "id: \"CartPole-v1\""), "}")}},
        {"env.params",
         LunarLanderParams::descriptor(),
         {absl::StrCat("env={type:\"LunarLander-v3\" params",
                       InAny(*LunarLanderParams::descriptor()), "}")}},
        {"env.params",
         MjcfParams::descriptor(),
         {absl::StrCat("env={type:\"MJCF\" params", InAny(*MjcfParams::descriptor()), "}")}},
        wrapper("time_limit", TimeLimitConfig::descriptor(), "max_steps: 9"),
        wrapper("action_repeat", ActionRepeatConfig::descriptor()),
        wrapper("sticky_actions", StickyActionsConfig::descriptor()),
        wrapper("no_op_starts", NoOpStartsConfig::descriptor()),
        wrapper("episodic_life", EpisodicLifeConfig::descriptor()),
        wrapper("reward_scale", RewardScaleConfig::descriptor(), "scale: 2"),
        wrapper("reward_clip", RewardClipConfig::descriptor()),
        wrapper("grayscale", GrayscaleConfig::descriptor()),
        wrapper("resize", ResizeConfig::descriptor()),
        wrapper("crop", CropConfig::descriptor()),
        wrapper("channels_first", ChannelsFirstConfig::descriptor()),
        wrapper("frame_stack", FrameStackConfig::descriptor()),
        wrapper("one_hot", OneHotConfig::descriptor()),
        wrapper("mask_fields", MaskFieldsConfig::descriptor()),
        wrapper("discretize_action", DiscretizeActionConfig::descriptor()),
        wrapper("rescale_action", RescaleActionConfig::descriptor()),
        wrapper("clip_action", ClipActionConfig::descriptor()),
        wrapper("normalize_observation", NormalizeObservationConfig::descriptor()),
        wrapper("normalize_reward", NormalizeRewardConfig::descriptor()),
        wrapper("record_video", RecordVideoConfig::descriptor()),
        policy("dqn", DqnConfig::descriptor(), kSmallModel),
        policy("c51", C51Config::descriptor(), kDqn),
        policy("rainbow", RainbowConfig::descriptor(), kDqn),
        policy("qrdqn", QrdqnConfig::descriptor(), kDqn),
        policy("iqn", IqnConfig::descriptor(), kDqn),
        policy("cql", CqlConfig::descriptor(), kDqn),
        Params{"policy.params",
               R2d2Config::descriptor(),
               {"policy.type=r2d2", "policy.collect.unroll_len=20",
                "policy.other.replay_buffer={type:\"sequence\" params" +
                    InAny(*SequenceBufferConfig::descriptor(), "unroll_len:20") + "}",
                "policy.params=" + InAny(*R2d2Config::descriptor(), kRecurrent)}},
        Params{"policy.params",
               ImpalaConfig::descriptor(),
               {"policy.type=impala",
                "policy.other.replay_buffer={type:\"sequence\" params" +
                    InAny(*SequenceBufferConfig::descriptor(), "unroll_len:4") + "}",
                "policy.params=" + InAny(*ImpalaConfig::descriptor(),
                                         absl::StrCat("actor_critic {", kSmallModels, "}"))}},
        continuous("sac", SacConfig::descriptor()),
        continuous("td3", Td3Config::descriptor()),
        continuous("ddpg", DdpgConfig::descriptor()),
        offline("td3bc", Td3BcConfig::descriptor()),
        offline("iql", IqlConfig::descriptor()),
        policy("discrete_sac", DiscreteSacConfig::descriptor(), kSmallModels),
        policy("ppo", PpoConfig::descriptor(), absl::StrCat("actor_critic {", kSmallModels, "}")),
        policy("a2c", A2cConfig::descriptor(), absl::StrCat("actor_critic {", kSmallModels, "}")),
        policy("bc", BcConfig::descriptor(), kSmallModel),
        {"policy.collect.collector.params",
         EpisodeCollectorParams::descriptor(),
         {"policy.collect={n_episode:8 collector{type:\"episode\" params" +
          InAny(*EpisodeCollectorParams::descriptor(), "get_train_sample: true") + "}}"}},
        {"policy.collect.collector.params",
         BattleSampleCollectorParams::descriptor(),
         {games, "policy.collect.collector={type:\"sample_1v1\" params" +
                     InAny(*BattleSampleCollectorParams::descriptor()) + "}"}},
        {"policy.collect.collector.params",
         BattleEpisodeCollectorParams::descriptor(),
         {games, "policy.collect={n_episode:8 collector{type:\"episode_1v1\" params" +
                     InAny(*BattleEpisodeCollectorParams::descriptor()) + "}}"}},
        {"policy.eval.evaluator.params",
         InteractionEvaluatorParams::descriptor(),
         {"policy.eval.evaluator.params=" + InAny(*InteractionEvaluatorParams::descriptor())}},
        buffer("advanced", AdvancedBufferConfig::descriptor()),
        buffer("deque", DequeBufferConfig::descriptor(), "max_use: 5 priority: true"),
        buffer("elastic", ElasticBufferConfig::descriptor()),
        buffer("hindsight", HindsightBufferConfig::descriptor(), "radius: 0.05"),
        buffer("sequence", SequenceBufferConfig::descriptor(), "unroll_len: 4"),
        stopper("no_improvement", NoImprovementParams::descriptor()),
        stopper("value_reached", ValueReachedParams::descriptor(), "value: 1"),
        stopper("wall_clock", WallClockParams::descriptor(), "seconds: 100"),
        {"metrics.sink.params",
         MlflowSinkParams::descriptor(),
         {"metrics.sink=[{type:\"mlflow\" params" + InAny(*MlflowSinkParams::descriptor()) + "}]"}},
    };
  }();
  return *kAll;
}

// The settings that put the params in which the field `name` stands there; null if it stands in no params.
const Params* ParamsAround(const std::string& name) {
  const size_t begin = name.find('<');
  if (begin == std::string::npos) return nullptr;
  const std::string type = name.substr(begin + 1, name.find('>') - begin - 1);
  for (const Params& may : AllParams()) {
    if (may.any == name.substr(0, begin) && may.type->name() == type) return &may;
  }
  ADD_FAILURE() << name << ": AllParams() must say how to make a config with it";
  return nullptr;
}

}  // namespace

std::vector<ConfigField> AllConfigFields() {
  static const auto* const kTree = new ConfigNode(MakeConfigTree(*ExperimentConfig::descriptor()));
  std::vector<ConfigField> fields;
  for (const ConfigNode* const value : ListConfigValues(*kTree)) {
    const Params* const params = ParamsAround(value->name);
    fields.push_back({value->name, value->path, value->field,
                      params == nullptr ? std::vector<std::string>() : params->settings});
  }
  return fields;
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
