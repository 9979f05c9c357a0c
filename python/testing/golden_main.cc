// Writes checkpoints of policies with random parameters, and what the policies make of random
// observations, for the tests of the Python package:
//
//   golden_main FOLDER [CASE]...      without a CASE: all of them
//
//   FOLDER/<case>/checkpoint/          as a training program writes it, with the component "model"
//                                      alone. Policies without variants of earlier versions
//                                      describe their actor and their action
//   FOLDER/<case>/golden.safetensors   for each step t of kRows envs: "<t>/obs/<field>",
//                                      "<t>/greedy/action", "<t>/collect/<field>" with all that the
//                                      collect mode writes, and "<t>/q" of policies that learn Q
//                                      values; of distributional policies it is the output of the
//                                      network: the logits of the atoms, or the quantiles
//
// Equal programs write equal files on the same type of processor.
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/spec_json.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/cql/cql.pb.h"
#include "ding_worker/policy/distributional/distributional.pb.h"
#include "ding_worker/policy/distributional/iqn_network.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/r2d2/r2d2.pb.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

constexpr int64_t kRows = 8;
constexpr int64_t kSteps = 3;

struct Case {
  std::string name;
  std::string policy;  // a PolicyConfig as text
  std::vector<FieldSpec> observation;
  FieldSpec action;
  bool described = false;  // the manifest has the fields "actor" and "action"
};

FieldSpec Mask(int64_t categories) {
  FieldSpec mask;
  mask.name = std::string(kActionMaskField);
  mask.dtype = DType::kBool;
  mask.shape = {categories};
  return mask;
}

std::vector<Case> Cases() {
  const FieldSpec box =
      Box("action", {2}, /*low=*/{-2, 0.5}, /*high=*/{2, 1});  // other bounds for each element
  return {
      {"dqn",
       R"(type: "dqn" params { [type.googleapis.com/ding.DqnConfig] {
            model { encoder_hidden_size: [16, 8] dueling: true } } })",
       {Box("obs/position", {3}), Mask(3), Box("obs/velocity", {2})},
       Discrete("action", 3)},
      {"ppo",
       R"(type: "ppo" params { [type.googleapis.com/ding.PpoConfig] { actor_critic {
            model { encoder_hidden_size: [16, 8] activation: TANH head_layer_num: 0 }
            critic { encoder_hidden_size: 12 head_hidden_size: 6 }
            normalize_obs: true obs_clip: 1.5 } } })",
       {Box("obs/position", {3}), Mask(5), Box("obs/velocity", {2})},
       MultiDiscrete("action", {2, 3})},
      {"ppo_box",
       R"(type: "ppo" params { [type.googleapis.com/ding.PpoConfig] { actor_critic {
            model { encoder_hidden_size: 16 activation: TANH } initial_log_std: -0.5 } } })",
       {Box("obs", {4})},
       box},
      {"a2c",
       R"(type: "a2c" params { [type.googleapis.com/ding.A2cConfig] { actor_critic {
            model { head_hidden_size: 8 head_layer_num: 2 } normalize_obs: true } } })",
       {Box("obs", {4})},
       Discrete("action", 3)},
      {"bc",
       R"(type: "bc" params { [type.googleapis.com/ding.BcConfig] {
            model { encoder_hidden_size: 8 activation: TANH } normalize_obs: true obs_clip: 0.5 } })",
       {Box("obs", {4})},
       box},
      {"r2d2",
       R"(type: "r2d2" unroll_len: 4 params { [type.googleapis.com/ding.R2d2Config] { dqn {
            model { type: "rnn" encoder_hidden_size: 8 dueling: true
                    recurrent { cell: LSTM hidden_size: 6 } } } } })",
       {Box("obs", {4})},
       Discrete("action", 3)},
      {"ppo_gru",
       R"(type: "ppo" unroll_len: 4 params { [type.googleapis.com/ding.PpoConfig] { actor_critic {
            model { type: "rnn" encoder_hidden_size: 8 activation: TANH
                    recurrent { cell: GRU hidden_size: 6 } }
            critic { type: "rnn" head_layer_num: 0 recurrent { cell: LSTM hidden_size: 5 } } } } })",
       {Box("obs", {4})},
       Discrete("action", 3)},
      {"ppo_squashed",
       R"(type: "ppo" params { [type.googleapis.com/ding.PpoConfig] { actor_critic {
            model { encoder_hidden_size: 16 } squash_actions: true } } })",
       {Box("obs", {4})},
       box},
      {"cql",
       R"(type: "cql" params { [type.googleapis.com/ding.CqlConfig] { dqn {
            model { encoder_hidden_size: [16, 8] } } } })",
       {Box("obs/position", {3}), Mask(6)},
       Discrete("action", 6),
       true},
      {"c51",
       R"(type: "c51" params { [type.googleapis.com/ding.C51Config] { dqn {
            model { encoder_hidden_size: [16, 8] dueling: true } } v_min: -3 v_max: 5 atoms: 7 } })",
       {Box("obs/position", {3}), Mask(6)},
       Discrete("action", 6),
       true},
      {"rainbow",
       R"(type: "rainbow" params { [type.googleapis.com/ding.RainbowConfig] { dqn {
            model { encoder_hidden_size: [16, 8] dueling: true } } } })",
       {Box("obs", {4})},
       Discrete("action", 6),
       true},
      {"qrdqn",
       R"(type: "qrdqn" params { [type.googleapis.com/ding.QrdqnConfig] { dqn {
            model { encoder_hidden_size: [16, 8] activation: TANH } } quantiles: 9 } })",
       {Box("obs", {4})},
       Discrete("action", 6),
       true},
      {"iqn",
       R"(type: "iqn" params { [type.googleapis.com/ding.IqnConfig] { dqn {
            model { encoder_hidden_size: [16, 8] dueling: true } } fractions: 5 cosines: 12 } })",
       {Box("obs", {4})},
       Discrete("action", 6),
       true},
      {"discrete_sac",
       R"(type: "discrete_sac" params { [type.googleapis.com/ding.DiscreteSacConfig] {
            model { encoder_hidden_size: 16 activation: TANH } } })",
       {Box("obs/position", {3}), Mask(6)},
       Discrete("action", 6),
       true},
      {"sac",
       R"(type: "sac" params { [type.googleapis.com/ding.SacConfig] { continuous {
            model { encoder_hidden_size: [16, 8] } } } })",
       {Box("obs", {4})},
       box,
       true},
      {"td3",
       R"(type: "td3" params { [type.googleapis.com/ding.Td3Config] { continuous {
            model { encoder_hidden_size: [16, 8] head_layer_num: 0 } } } })",
       {Box("obs", {4})},
       box,
       true},
      {"ddpg",
       R"(type: "ddpg" params { [type.googleapis.com/ding.DdpgConfig] { continuous {
            model { encoder_hidden_size: 16 activation: TANH } } } })",
       {Box("obs/position", {3}), Box("obs/velocity", {2})},
       box,
       true},
      {"td3bc",
       R"(type: "td3bc" params { [type.googleapis.com/ding.Td3BcConfig] { continuous {
            model { encoder_hidden_size: 16 } } obs_clip: 1.5 } })",
       {Box("obs", {4})},
       box,
       true},
      {"iql",
       R"(type: "iql" params { [type.googleapis.com/ding.IqlConfig] { continuous {
            model { encoder_hidden_size: 16 } } obs_clip: 1.5 } })",
       {Box("obs/position", {3}), Box("obs/velocity", {2})},
       box,
       true},
  };
}

// Random observations; each element of an action has a legal category.
absl::StatusOr<Batch> MakeObservations(const SpecPtr& spec, Rng* rng) {
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(spec, kRows));
  for (int i = 0; i < spec->size(); ++i) {
    if (spec->dtype(i) == DType::kFloat32) {
      for (float& value : builder.column<float>(i)) {
        value = static_cast<float>(rng->Uniform(-3, 3));
      }
      continue;
    }
    const absl::Span<uint8_t> mask = builder.column<uint8_t>(i);
    // No two neighbours are illegal, so that no element of two or more categories is without a
    // legal one.
    for (size_t j = 0; j < mask.size(); ++j) {
      mask[j] = j % 2 == 0 || rng->Uniform() < 0.5 ? 1 : 0;
    }
  }
  return std::move(builder).Seal(kRows);
}

// The saved model with random statistics, because those of a new policy change nothing.
absl::Status RandomizeStatistics(LearnMode* policy, Rng* rng) {
  StateDict saved;
  DING_RETURN_IF_ERROR(policy->SaveModel(&saved));
  StateDict changed;
  for (const std::string& name : saved.Names()) {
    DING_ASSIGN_OR_RETURN(const Tensor tensor, saved.ReadTensor(name));
    if (!absl::StrContains(name, "/statistics/")) {
      DING_RETURN_IF_ERROR(changed.WriteTensor(name, tensor));
    } else if (tensor.dtype() == DType::kInt64) {
      DING_RETURN_IF_ERROR(changed.WriteInt(name, 50));
    } else {
      std::vector<double> values(static_cast<size_t>(NumElements(tensor.shape())));
      for (double& value : values) value = rng->Uniform(0, 100);
      if (absl::EndsWith(name, "/mean")) {
        for (double& value : values) value = value / 50 - 1;
      }
      DING_RETURN_IF_ERROR(changed.WriteSpan<double>(name, values));
    }
  }
  return policy->LoadModel(&changed);
}

absl::Status WritePolicy(const std::string& path, const Case& c, const PolicyConfig& config,
                         const LearnMode& policy) {
  const std::vector<CheckpointComponent> components = {
      {"model", [&policy](StateWriter* writer) { return policy.SaveModel(writer); }}};
  CheckpointInfo info = {"ding_worker/train",
                         {{"config", absl::StrCat("policy {\n", c.policy, "\n}\n")},
                          {"env", "golden"},
                          {"env_step", "0"},
                          {"policy", config.type()},
                          {"train_iter", "0"}}};
  if (c.described) {
    DING_ASSIGN_OR_RETURN(const SpecPtr action, MakeSpec({c.action}));
    const absl::StatusOr<ActorDescription> actor = DescribeActor(config, *action);
    info.fields[kActorField] =
        actor.ok() ? ActorDescriptionToJson(*actor) : ActorProblemToJson(actor.status().message());
    info.fields[kActionField] = SpecToJson(*action);
  }
  return WriteCheckpoint(path, info, components);
}

// The config of the network of Q values, and the shape of its output; nullopt if the policy learns
// none.
std::optional<std::pair<NetworkConfig, Shape>> QNetworkOf(const PolicyConfig& config,
                                                          int64_t num_actions) {
  const google::protobuf::Any& params = config.params();
  if (DqnConfig dqn; params.UnpackTo(&dqn)) return std::pair(dqn.model(), Shape{num_actions});
  if (CqlConfig cql; params.UnpackTo(&cql)) return std::pair(cql.dqn().model(), Shape{num_actions});
  if (R2d2Config r2d2; params.UnpackTo(&r2d2)) {
    return std::pair(r2d2.dqn().model(), Shape{num_actions});
  }
  if (C51Config c51; params.UnpackTo(&c51)) {
    return std::pair(c51.dqn().model(), Shape{num_actions, c51.atoms()});
  }
  if (RainbowConfig rainbow; params.UnpackTo(&rainbow)) {  // without the noise, as it acts best
    return std::pair(rainbow.dqn().model(), Shape{num_actions, rainbow.atoms()});
  }
  if (QrdqnConfig qrdqn; params.UnpackTo(&qrdqn)) {
    return std::pair(qrdqn.dqn().model(), Shape{num_actions, qrdqn.quantiles()});
  }
  if (IqnConfig iqn; params.UnpackTo(&iqn)) {
    return std::pair(iqn.dqn().model(), Shape{num_actions, iqn.fractions()});
  }
  return std::nullopt;
}

// The network of Q values of the policy; null without QNetworkOf().
absl::StatusOr<std::unique_ptr<Network>> MakeQNetwork(const PolicyConfig& config,
                                                      const PolicyContext& context,
                                                      const LearnMode& policy) {
  const auto q_network = QNetworkOf(config, context.action->field(0).num_categories);
  if (!q_network.has_value()) return nullptr;
  const auto& [model_config, shape] = *q_network;
  DING_ASSIGN_OR_RETURN(const SpecPtr output, MakeSpec({Box("q", shape)}));
  const SpecPtr input = WithoutActionMask(context.observation);
  std::unique_ptr<Network> network;
  if (IqnConfig iqn; config.params().UnpackTo(&iqn)) {
    const IqnOptions options = {{.encoder_hidden_size = {model_config.encoder_hidden_size().begin(),
                                                         model_config.encoder_hidden_size().end()},
                                 .dueling = model_config.dueling()},
                                iqn.cosines()};
    DING_ASSIGN_OR_RETURN(network, IqnNetwork::Create(options, input, output, 0));
  } else {
    DING_ASSIGN_OR_RETURN(network, create_network(model_config, input, output, 0));
  }
  StateDict saved;
  DING_RETURN_IF_ERROR(policy.SaveModel(&saved));
  StateDict model;
  for (const std::string& name : saved.Names()) {
    if (absl::EndsWith(name, "_deviation")) continue;  // of noise
    DING_ASSIGN_OR_RETURN(const Tensor tensor, saved.ReadTensor(name));
    DING_RETURN_IF_ERROR(model.WriteTensor(name, tensor));
  }
  DING_RETURN_IF_ERROR(
      LoadParameters(network->parameter_info(), kModelScope, &model, network->parameters()));
  return network;
}

// Q values of the observations, after the recurrent states before them, which are the last column
// of `collected`.
absl::StatusOr<Batch> ComputeQ(Network* network, const ColumnsView& obs, const Batch& collected) {
  ColumnBinding inputs(network->input_spec(), "", "observations");
  DING_RETURN_IF_ERROR(inputs.Resolve(obs.spec()));
  DING_ASSIGN_OR_RETURN(BatchBuilder q, BatchBuilder::Create(network->output_spec(), kRows));
  RecurrentNetwork* const recurrent = AsRecurrent(network);
  if (recurrent == nullptr) {
    DING_RETURN_IF_ERROR(network->Infer(inputs.Bind(obs), q.view()));
  } else {
    Sequences rows;
    rows.rows = inputs.Bind(obs);
    rows.state = collected.view().column<float>(collected.spec().size() - 1);
    DING_RETURN_IF_ERROR(recurrent->InferSequences(rows, q.view(), {}));
  }
  return std::move(q).Seal(kRows);
}

struct Step {
  Batch obs;
  Batch greedy;
  Batch collected;
  Batch q;  // without rows for policies that learn no Q values
};

absl::StatusOr<Step> RunStep(const PolicyContext& context, Policy* policy, Network* q_network,
                             Rng* rng) {
  std::vector<int> env_ids(kRows);
  absl::c_iota(env_ids, 0);
  Step step;
  DING_ASSIGN_OR_RETURN(step.obs, MakeObservations(context.observation, rng));
  DING_ASSIGN_OR_RETURN(BatchBuilder greedy,
                        BatchBuilder::Create(policy->eval_mode()->output_spec(), kRows));
  DING_RETURN_IF_ERROR(policy->eval_mode()->Forward(step.obs.view(), env_ids, {}, greedy.view()));
  step.greedy = std::move(greedy).Seal(kRows);
  DING_ASSIGN_OR_RETURN(BatchBuilder collected,
                        BatchBuilder::Create(policy->collect_mode()->output_spec(), kRows));
  DING_RETURN_IF_ERROR(
      policy->collect_mode()->Forward(step.obs.view(), env_ids, {{"eps", 0.5}}, collected.view()));
  step.collected = std::move(collected).Seal(kRows);
  if (q_network == nullptr) return step;
  DING_ASSIGN_OR_RETURN(step.q, ComputeQ(q_network, step.obs.view(), step.collected));
  return step;
}

absl::Status SaveSteps(const std::vector<Step>& steps, StateWriter* writer) {
  for (size_t t = 0; t < steps.size(); ++t) {
    const std::string at = absl::StrCat(t, "/");
    DING_RETURN_IF_ERROR(SaveColumns(steps[t].obs.view(), absl::StrCat(at, "obs/"), writer));
    DING_RETURN_IF_ERROR(SaveColumns(steps[t].greedy.view(), absl::StrCat(at, "greedy/"), writer));
    DING_RETURN_IF_ERROR(
        SaveColumns(steps[t].collected.view(), absl::StrCat(at, "collect/"), writer));
    if (steps[t].q.rows() > 0) DING_RETURN_IF_ERROR(SaveColumns(steps[t].q.view(), at, writer));
  }
  return absl::OkStatus();
}

absl::Status WriteCase(const std::string& folder, const Case& c) {
  PolicyConfig config;
  if (!google::protobuf::TextFormat::ParseFromString(c.policy, &config)) {
    return absl::InternalError("the config of the case is no PolicyConfig");
  }
  PolicyContext context;
  DING_ASSIGN_OR_RETURN(context.observation, MakeSpec(c.observation));
  DING_ASSIGN_OR_RETURN(context.action, MakeSpec({c.action}));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> policy, create_policy(config, context));
  Rng rng(0, "python/golden");
  DING_RETURN_IF_ERROR(RandomizeStatistics(policy->learn_mode(), &rng));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Network> q_network,
                        MakeQNetwork(config, context, *policy->learn_mode()));
  std::vector<Step> steps;
  for (int64_t t = 0; t < kSteps; ++t) {
    DING_ASSIGN_OR_RETURN(Step step, RunStep(context, policy.get(), q_network.get(), &rng));
    steps.push_back(std::move(step));
  }
  const std::string path = JoinPath(folder, c.name);
  DING_RETURN_IF_ERROR(CreateDirectories(path));
  DING_RETURN_IF_ERROR(WritePolicy(JoinPath(path, "checkpoint"), c, config, *policy->learn_mode()));
  return WriteSafetensors(JoinPath(path, "golden.safetensors"),
                          [&steps](StateWriter* writer) { return SaveSteps(steps, writer); })
      .status();
}

int Main(absl::Span<char* const> arguments) {
  if (arguments.size() < 2) {
    std::cerr << "usage: golden_main FOLDER [CASE]...\n";
    return 2;
  }
  const absl::Span<char* const> wanted = arguments.subspan(2);
  const auto is = [](absl::string_view name) {
    return [name](absl::string_view other) { return name == other; };
  };
  for (const Case& c : Cases()) {
    if (!wanted.empty() && !absl::c_any_of(wanted, is(c.name))) continue;
    const absl::Status status = WriteCase(arguments[1], c);
    if (status.ok()) continue;
    std::cerr << "golden_main: " << c.name << ": " << status.message() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(absl::MakeSpan(argv, argc)); }
