#include "ding_worker/policy/actor/testing/actor_checkpoints.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/spec_json.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

PolicyConfig ConfigOf(const ActorCase& of) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(of.config, &config)) << of.config;
  return config;
}

std::string Params(const std::string& message, const std::string& text) {
  return absl::StrCat("params { [type.googleapis.com/ding.", message, "] { ", text, " } }");
}

FieldSpec Mask(int64_t width) {
  FieldSpec mask = Scalar(kActionMaskField, DType::kBool);
  mask.shape = {width};
  return mask;
}

// Random values of the types and shapes that `model` has.
TensorMap RandomModel(const StateDict& model) {
  Rng rng(6, "model");
  TensorMap random;
  for (const auto& [name, tensor] : model.tensors()) {
    Tensor values = Tensor::Zeros(tensor.dtype(), tensor.shape());
    if (tensor.dtype() == DType::kFloat32) {
      // Weights keep the size of what they multiply.
      const double deviation = std::sqrt(2.0 / static_cast<double>(tensor.shape().back()));
      for (float& value : values.mutable_data<float>()) {
        value = static_cast<float>(deviation * rng.Normal());
      }
    } else if (absl::EndsWith(name, "/sum_of_squares")) {  // of 100 rows, as the count below
      for (double& value : values.mutable_data<double>()) value = 100 * std::abs(rng.Normal());
    } else if (tensor.dtype() == DType::kFloat64) {
      for (double& value : values.mutable_data<double>()) value = rng.Normal();
    } else {
      for (int64_t& value : values.mutable_data<int64_t>()) value = 100;
    }
    random.Set(name, std::move(values));
  }
  return random;
}

}  // namespace

std::vector<ActorCase> ActorCases() {
  const SpecPtr vector = *MakeSpec({Box("obs", {5})});
  const SpecPtr masked = *MakeSpec({Box("obs/own", {3}), Mask(4), Box("obs/other", {2, 2})});
  const SpecPtr multi_masked = *MakeSpec({Box("obs/own", {3}), Mask(7)});
  const SpecPtr one_of_4 = *MakeSpec({Discrete("action", 4)});
  const SpecPtr multi = *MakeSpec({MultiDiscrete("action", {3, 4})});
  const SpecPtr box = *MakeSpec({Box("action", {2}, {-2, 0}, {2, 5})});
  const std::string critic = "critic { encoder_hidden_size: [8] }";
  return {
      {"DqnDueling",
       "type: 'dqn' " + Params("DqnConfig",
                               "model { encoder_hidden_size: [128, 128, 64] dueling: true } "
                               "eps { start: 0.9 end: 0.1 decay: 1000 }"),
       vector, one_of_4},
      {"DqnMaskTanh",
       "type: 'dqn' " + Params("DqnConfig",
                               "model { encoder_hidden_size: [20, 7] activation: TANH "
                               "head_hidden_size: 33 head_layer_num: 2 }"),
       masked, one_of_4},
      {"R2d2Lstm",
       "type: 'r2d2' unroll_len: 4 " +
           Params("R2d2Config",
                  "dqn { model { type: 'rnn' encoder_hidden_size: [16] dueling: true "
                  "recurrent { hidden_size: 19 } } }"),
       masked, one_of_4},
      {"PpoShared",
       "type: 'ppo' " + Params("PpoConfig",
                               "actor_critic { model { encoder_hidden_size: [32, 16] } "
                               "normalize_obs: true obs_clip: 2 }"),
       vector, multi},
      {"PpoMultiMask",
       "type: 'ppo' " + Params("PpoConfig",
                               "actor_critic { model { encoder_hidden_size: [12] "
                               "head_layer_num: 0 } " +
                                   critic + " }"),
       multi_masked, multi},
      {"A2cNormal",
       "type: 'a2c' " + Params("A2cConfig",
                               "actor_critic { model { encoder_hidden_size: [64, 64] activation: "
                               "TANH head_layer_num: 0 } " +
                                   critic + " normalize_obs: true }"),
       *MakeSpec({Box("obs/a", {3}), Box("obs/b", {2})}), box},
      {"PpoGru",
       "type: 'ppo' unroll_len: 4 " +
           Params("PpoConfig",
                  "actor_critic { model { type: 'rnn' encoder_hidden_size: [8] "
                  "recurrent { cell: GRU hidden_size: 16 } } " +
                      critic + " }"),
       vector, box},
      {"A2cLstm",
       "type: 'a2c' unroll_len: 4 " +
           Params("A2cConfig",
                  "actor_critic { model { type: 'rnn' recurrent { hidden_size: 8 } } }"),
       vector, one_of_4},
      {"Impala", "type: 'impala' " + Params("ImpalaConfig", "actor_critic { model { } }"), masked,
       one_of_4},
      {"Bc",
       "type: 'bc' " +
           Params("BcConfig", "model { encoder_hidden_size: [16] } collect_log_std: -1"),
       vector, box},
      {"C51",
       "type: 'c51' " + Params("C51Config",
                               "dqn { model { encoder_hidden_size: [20, 16] } } "
                               "v_min: -3 v_max: 5 atoms: 11"),
       vector, one_of_4},
      {"RainbowDuelingMask",
       "type: 'rainbow' " +
           Params("RainbowConfig",
                  "dqn { model { encoder_hidden_size: [20] dueling: true } } v_min: 0 atoms: 51"),
       masked, one_of_4},
      {"QrdqnDueling",
       "type: 'qrdqn' " +
           Params("QrdqnConfig",
                  "dqn { model { encoder_hidden_size: [16] activation: TANH dueling: true } } "
                  "quantiles: 200"),
       vector, one_of_4},
      {"IqnMask",
       "type: 'iqn' " + Params("IqnConfig",
                               "dqn { model { encoder_hidden_size: [20, 33] dueling: true "
                               "head_layer_num: 2 } } fractions: 70 cosines: 24"),
       masked, one_of_4},
      {"IqnTanh",
       "type: 'iqn' " +
           Params("IqnConfig",
                  "dqn { model { encoder_hidden_size: [40] activation: TANH head_layer_num: 0 } } "
                  "fractions: 8"),
       vector, one_of_4},
  };
}

std::vector<ActorCase> TorchActorCases() {
  FieldSpec picture = Box("obs/image", {3, 12, 10});
  picture.dtype = DType::kUint8;
  const SpecPtr pictures = *MakeSpec({picture, Box("obs/speed", {3}), Mask(4)});
  const SpecPtr two = *MakeSpec({Box("obs/left", {2, 8, 8}), Box("obs/right", {1, 9, 7})});
  const SpecPtr vector = *MakeSpec({Box("obs", {5})});
  const SpecPtr box = *MakeSpec({Box("action", {2}, {-2, 0}, {2, 5})});
  const std::string conv =
      "conv { channels: 5 kernel: 3 stride: 2 padding: 1 } "
      "conv { channels: 18 kernel: 2 }";
  return {
      {"CnnDqn",
       "type: 'dqn' " + Params("DqnConfig", "model { type: 'torch_cnn' encoder_hidden_size: [16] " +
                                                conv + " }"),
       pictures, *MakeSpec({Discrete("action", 4)})},
      {"CnnPpo",
       "type: 'ppo' " + Params("PpoConfig",
                               "actor_critic { model { type: 'torch_cnn' activation: "
                               "TANH encoder_hidden_size: [16] " +
                                   conv + " } }"),
       two, box},
      {"TorchMlp",
       "type: 'bc' " + Params("BcConfig", "model { type: 'torch_mlp' encoder_hidden_size: [16] } "),
       vector, box},
      {"TorchGru",
       "type: 'a2c' unroll_len: 4 " +
           Params("A2cConfig",
                  "actor_critic { model { type: 'torch_rnn' encoder_hidden_size: [8] "
                  "recurrent { cell: GRU hidden_size: 16 } } }"),
       vector, box},
      {"TorchLstm",
       "type: 'r2d2' unroll_len: 4 " +
           Params("R2d2Config",
                  "dqn { model { type: 'torch_rnn' encoder_hidden_size: [16] "
                  "recurrent { hidden_size: 19 } } }"),
       vector, *MakeSpec({Discrete("action", 4)})},
  };
}

ActorCase FindActorCase(const std::string& name) {
  for (ActorCase& found : ActorCases()) {
    if (found.name == name) return std::move(found);
  }
  DING_CHECK(false) << "no case " << name;
  return {};
}

std::unique_ptr<Policy> MakeRandomPolicy(const ActorCase& of, uint64_t seed) {
  PolicyContext context;
  context.observation = of.observation;
  context.action = of.action;
  context.seed = Rng::DeriveSeed(seed, "actor");
  absl::StatusOr<std::unique_ptr<Policy>> policy = create_policy(ConfigOf(of), context);
  DING_CHECK(policy.ok()) << of.name << ": " << policy.status();
  StateDict model;
  DING_CHECK((*policy)->learn_mode()->SaveModel(&model).ok()) << of.name;
  StateDict random(RandomModel(model), "random model");
  const absl::Status loaded = (*policy)->learn_mode()->LoadModel(&random);
  DING_CHECK(loaded.ok()) << loaded;
  return *std::move(policy);
}

CheckpointInfo ActorCheckpointInfo(const ActorCase& of) {
  CheckpointInfo info;
  info.kind = "ding_worker/train";
  info.fields["env"] = "Env";
  info.fields["env_step"] = "1000";
  info.fields[kObservationField] = SpecToJson(*of.observation);
  info.fields[kActionField] = SpecToJson(*of.action);
  const absl::StatusOr<ActorDescription> actor = DescribeActor(ConfigOf(of), *of.action);
  DING_CHECK(actor.ok()) << actor.status();
  info.fields[kActorField] = ActorDescriptionToJson(*actor);
  return info;
}

void SaveActorCheckpoint(const ActorCase& of, Policy* policy, const std::string& path,
                         const std::function<void(CheckpointInfo*)>& change) {
  CheckpointInfo info = ActorCheckpointInfo(of);
  if (change) change(&info);
  LearnMode* const learn = policy->learn_mode();
  const absl::Status written = WriteCheckpoint(
      path, info, {{"model", [&](StateWriter* writer) { return learn->SaveModel(writer); }}});
  DING_CHECK(written.ok()) << written;
}

void SaveHeadCheckpoint(const std::string& head, const std::vector<std::string>& outputs,
                        const std::string& path) {
  ActorDescription description;
  description.parameters = "model/actor";
  description.mlp.encoder_hidden_size = {16};
  description.head = head;
  std::vector<FieldSpec> fields;
  for (const std::string& name : outputs) fields.push_back(Box(name, {2}));
  const SpecPtr observation = *MakeSpec({Box("obs", {5})});
  const auto structure =
      MakeMlpStructure(description.mlp, observation, *MakeSpec(std::move(fields)));
  DING_CHECK(structure.ok()) << structure.status();
  std::vector<float> parameters(static_cast<size_t>(structure->num_parameters));
  InitializeMlpParameters(*structure, /*seed=*/3, absl::MakeSpan(parameters));
  for (float& value : parameters) value *= 2;
  CheckpointInfo info;
  info.fields[kObservationField] = SpecToJson(*observation);
  info.fields[kActionField] = SpecToJson(*MakeSpec({Box("action", {2}, {-2, 0}, {2, 5})}).value());
  info.fields[kActorField] = ActorDescriptionToJson(description);
  const absl::Status written =
      WriteCheckpoint(path, info, {{"model", [&](StateWriter* writer) {
                                      return SaveParameters(structure->parameters, parameters,
                                                            description.parameters, writer);
                                    }}});
  DING_CHECK(written.ok()) << written;
}

}  // namespace ding
