// worker/config_fields.txt says for every field of an experiment config, and of the parameters of
// every module, what becomes of it in each kind of run. The tests set each field to another value:
// if the table says that the field is refused, an error must name it; otherwise the value must be
// accepted. A field that is missing from the table fails the test, so that somebody decides what it
// does in each kind of run.
//
// With DING_PRINT_FIELDS=1 in the environment the test prints all fields.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
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
#include "ding_worker/learner/stopper.pb.h"
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
#include "ding_worker/replay_buffer/deque_buffer.pb.h"
#include "ding_worker/replay_buffer/elastic_buffer.pb.h"
#include "ding_worker/replay_buffer/hindsight_buffer.pb.h"
#include "ding_worker/replay_buffer/selection/remover.h"
#include "ding_worker/replay_buffer/selection/remover_registry.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/worker/config/config_tree.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/field_uses.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/parallel_run/parallel_problems.h"
#include "ding_worker/worker/run/evaluation.h"
#include "ding_worker/worker/serial_run/create_pipeline.h"
#include "ding_worker/worker/serial_run/pipeline.h"
#include "ding_worker/worker/testing/demonstrations.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

absl::Status LeaveRewards(int /*env_id*/, const ColumnsView& /*rows*/,
                          absl::Span<float> /*rewards*/) {
  return absl::OkStatus();
}

DING_REGISTER(RewardShapingRegistry(), "of_the_test", LeaveRewards,
              "leaves the rewards as they are");

class KeepAll : public IRemover {
 public:
  absl::Status Remove(const Candidates& /*rows*/, int64_t /*learner_iter*/,
                      std::vector<int64_t>* /*ids*/) override {
    return absl::OkStatus();
  }
};

DING_REGISTER(
    RemoverRegistry(), "of_the_test",
    [](const RemoverConfig&) { return std::make_unique<KeepAll>(); }, "removes nothing");

SinkDescriptor DropsAll() {
  SinkDescriptor descriptor;
  descriptor.create = [](const SinkConfig&, const SinkDeps&) {
    return std::make_shared<NullSink>();
  };
  return descriptor;
}

DING_REGISTER(SinkRegistry(), "of_the_test", DropsAll(), "drops all metrics");

constexpr char kTable[] = "worker/config_fields.txt";

constexpr char kModel[] = "model { encoder_hidden_size: 4 }";
constexpr char kDqn[] = "dqn { model { encoder_hidden_size: 4 } }";
constexpr char kRecurrent[] = "dqn { model { type: \"rnn\" recurrent { hidden_size: 4 } } }";
constexpr char kModels[] = "model { encoder_hidden_size: 4 } critic { encoder_hidden_size: 4 }";

// A type of message that an Any may hold, and the settings that put it there.
struct Params {
  std::string any;  // path
  const Descriptor* type;
  std::vector<std::string> settings;
};

std::string InAny(const Descriptor& type, const std::string& content = "") {
  return absl::StrCat("{[type.googleapis.com/", type.full_name(), "]{", content, "}}");
}

// Writes episodes in the spaces of this env, and returns the file.
std::string EpisodesOf(const std::string& type) {
  const std::string path = JoinPath(testing::TempDir(), absl::StrCat(type, ".episodes"));
  EnvConfig env;
  env.set_type(type);
  const EnvSpec spec = create_env(env).value()->spec();
  EXPECT_THAT(WriteEpisodes(path, MakeDemonstrations(8, spec.name, spec.observation->field(0),
                                                     spec.action->field(0))),
              IsOk());
  return path;
}

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
                                  InAny(*type, absl::StrCat("continuous {", kModels, "}")))}};
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
        policy("dqn", DqnConfig::descriptor(), kModel),
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
               {"policy.type=impala", "policy.other.replay_buffer={type:\"sequence\"}",
                "policy.params=" + InAny(*ImpalaConfig::descriptor(),
                                         absl::StrCat("actor_critic {", kModels, "}"))}},
        continuous("sac", SacConfig::descriptor()),
        continuous("td3", Td3Config::descriptor()),
        continuous("ddpg", DdpgConfig::descriptor()),
        offline("td3bc", Td3BcConfig::descriptor()),
        offline("iql", IqlConfig::descriptor()),
        policy("discrete_sac", DiscreteSacConfig::descriptor(), kModels),
        policy("ppo", PpoConfig::descriptor(), absl::StrCat("actor_critic {", kModels, "}")),
        policy("a2c", A2cConfig::descriptor(), absl::StrCat("actor_critic {", kModels, "}")),
        policy("bc", BcConfig::descriptor(), kModel),
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
        buffer("hindsight", HindsightBufferConfig::descriptor(), "radius: 0.1"),
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

struct Field {
  std::string name;  // as in the table: "policy.params<DqnConfig>.learning_rate"
  std::string path;  // as for --set; in a list of messages, the path of the first element
  const FieldDescriptor* descriptor;
  const Params* params;  // null: the field is in no Any
};

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

std::vector<Field> AllFields() {
  static const auto* const kTree = new ConfigNode(MakeConfigTree(*ExperimentConfig::descriptor()));
  std::vector<Field> fields;
  for (const ConfigNode* const value : ListConfigValues(*kTree)) {
    fields.push_back({value->name, value->path, value->field, ParamsAround(value->name)});
  }
  return fields;
}

// ------------------------------------------------------------------------------------- the table

enum class Kind : size_t {
  kSerial,
  kOnPolicy,
  kSupervised,
  kParallel,
  kLeague,
  kEvaluate,
  // Not in the table: see UseOf().
  kOnPolicyParallel,
  kSupervisedParallel
};

bool StartsWithAny(const std::string& field, absl::Span<const char* const> beginnings) {
  return absl::c_any_of(beginnings, [&](const char* b) { return absl::StartsWith(field, b); });
}

// A parallel run with a data set does as a serial one does, but for its processes.
char UseOfSupervisedParallel(const std::string& field, const FieldUse& row) {
  if (StartsWithAny(field, {"policy.params<"})) return '-';  // tried in a serial run
  // The coordinator judges them when it has made the policy.
  if (StartsWithAny(field, {"policy.priority", "policy.nstep", "policy.discount_factor"})) {
    return '-';
  }
  if (StartsWithAny(field, {"resume.period_rounds", "policy.eval.evaluator.eval_freq",
                            "policy.collect.parallel_collector.print_freq",
                            "policy.collect.parallel_collector.update_policy_second",
                            "policy.collect.parallel_collector.max_abnormal",
                            "policy.collect.parallel_collector.reward_shaping"})) {
    return 'r';
  }
  const bool of_processes = StartsWithAny(
      field, {"env.evaluator_", "policy.collect.collector_num", "policy.collect.parallel_collector",
              "policy.learn.all_reduce_timeout", "policy.learn.learner.hook.log_reduce_after_iter",
              "policy.learn.learner.only_monitor_rank0", "policy.learn.learner.train_iterations",
              "policy.learn.learner_num", "policy.learn.send_policy_freq", "policy.other.commander",
              "system."});
  return row.uses[static_cast<size_t>(of_processes ? Kind::kParallel : Kind::kSupervised)];
}

// What becomes of a field, as in the table. An on-policy parallel run does as other parallel runs do, but for
// what is named here.
char UseOf(const std::string& field, const FieldUse& row, Kind kind) {
  if (kind == Kind::kSupervisedParallel) return UseOfSupervisedParallel(field, row);
  if (kind != Kind::kOnPolicyParallel) return row.uses[static_cast<size_t>(kind)];
  if (absl::StartsWith(field, "policy.params<")) return '-';  // tried in a serial run
  for (const char* const used :
       {"policy.learn.max_data_age", "policy.collect.unroll_len", "policy.collect.last_sample"}) {
    if (field == used) return 'u';
  }
  for (const char* const refused : {"policy.random_collect_size", "policy.learn.send_policy_freq",
                                    "policy.learn.prefetch_batches", "policy.learn.loader_threads",
                                    "policy.collect.parallel_collector.reward_shaping"}) {
    if (field == refused) return 'r';
  }
  if (absl::StartsWith(field, "policy.other.replay_buffer.")) return 'r';
  return row.uses[static_cast<size_t>(Kind::kParallel)];
}

FieldUses ReadTable() { return ParseFieldUses(ReadFile(kTable).value()).value(); }

TEST(ConfigFieldsTest, TheTableHasAllFieldsAndNoOthers) {
  std::vector<std::string> names;
  for (const Field& field : AllFields()) names.push_back(field.name);
  if (std::getenv("DING_PRINT_FIELDS") != nullptr) {
    for (const Field& field : AllFields()) {
      std::printf("%s\n", absl::StrCat(field.name, " ", field.descriptor->cpp_type_name()).c_str());
    }
    return;
  }
  std::vector<std::string> in_table;
  for (const auto& [name, row] : ReadTable()) in_table.push_back(name);
  EXPECT_THAT(in_table, testing::UnorderedElementsAreArray(names))
      << "decide what the field does in each kind of run, and write it into " << kTable;
}

// ------------------------------------------------------------------------------------- the programs

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
    std::string policy = PolicyText("dqn", *DqnConfig::descriptor(), kModel);
    std::string data_set;
    if (kind == Kind::kOnPolicy || kind == Kind::kOnPolicyParallel) {
      policy = PolicyText("ppo", *PpoConfig::descriptor(),
                          absl::StrCat("actor_critic { ", kModels, " }"));
    } else if (kind == Kind::kSupervised || kind == Kind::kSupervisedParallel) {
      policy = PolicyText("bc", *BcConfig::descriptor(), kModel);
      data_set = absl::StrCat("data_set { path: \"", DataSet(), "\" }");
    } else if (kind == Kind::kLeague) {
      absl::StrAppend(&policy, kLeagueText);
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
    const absl::StatusOr<ExperimentConfig> config =
        ParseExperimentConfig(Text(kind), "config", settings);
    if (!config.ok()) return config.status();
    const bool collects_in_parallel =
        kind == Kind::kParallel || kind == Kind::kLeague || kind == Kind::kOnPolicyParallel;
    if (collects_in_parallel || kind == Kind::kSupervisedParallel) {
      std::vector<std::string> problems = FindParallelProblems(*config);
      // The coordinator does this when it has made the policy.
      if (problems.empty() && collects_in_parallel && kind != Kind::kLeague) {
        problems = FindUnusedFields(
            *config, kind == Kind::kParallel ? RunKind::kParallel : RunKind::kOnPolicyParallel);
      }
      if (problems.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
    }
    SerialOptions options;
    options.exp_dir = testing::TempDir();
    return CreatePipeline(*config, options).status();
  }

  static std::string OtherValue(const Field& field, const std::string& value) {
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
};

TEST_P(ConfigFieldsOfRunTest, RefusedFieldsAreNamedAndOthersAccepted) {
  ASSERT_THAT(Judge(GetParam(), {}), IsOk());
  const FieldUses table = ReadTable();
  for (const Field& field : AllFields()) {
    const auto found = table.find(field.name);
    if (found == table.end()) continue;  // The other test reports this.
    const FieldUse& row = found->second;
    const char use = UseOf(field.name, row, GetParam());
    if (use == '-' || row.value == "?") continue;
    if (use != 'r' && absl::StartsWith(row.value, "?")) continue;
    std::vector<std::string> settings;
    if (field.params != nullptr) settings = field.params->settings;
    settings.insert(settings.end(), row.settings.begin(), row.settings.end());
    const std::string value = OtherValue(field, std::string(absl::StripPrefix(row.value, "?")));
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
  const FieldUses table = ReadTable();
  for (const Field& field : AllFields()) {
    const auto found = table.find(field.name);
    if (found == table.end()) continue;  // The other test reports this.
    if (StartsWithAny(field.name, {"policy.eval.evaluator.params<"})) continue;  // parts of params
    const bool kept =
        StartsWithAny(field.name, {"policy.type", "policy.params", "policy.schedule"});
    const bool reads = found->second.uses[static_cast<size_t>(Kind::kEvaluate)] != '-';
    EvaluationOptions options;
    options.checkpoint = "nowhere";
    options.settings = {absl::StrCat(field.path, "=1")};
    const std::string message(EvaluateCheckpoint(options).status().message());
    EXPECT_EQ(absl::StrContains(message, "has no effect here"), kept || !reads)
        << field.name << ": " << message;
  }
}

// A network has layers by default, so that a policy needs no params. Those that learn from sequences need a buffer of them.
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
