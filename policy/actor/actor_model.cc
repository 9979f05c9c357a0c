#include "ding_worker/policy/actor/actor_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/spec_json.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/network.h"

namespace ding {
namespace {

constexpr char kModelComponent[] = "model";  // as training programs name it (learner/checkpoint.h)
constexpr char kStatisticsScope[] = "statistics";
using DistributionKind = ActorDescription::Distribution::Kind;
constexpr char kCosineLayer[] = "cosine/0";  // of IqnNetwork
constexpr double kPi = 3.14159265358979323846;
// More features of fractions than this are a mistake, or an attack with a small file.
constexpr int64_t kMaxFractionFeatures = int64_t{1} << 26;

std::string FieldOf(const CheckpointInfo& info, const char* name) {
  const auto found = info.fields.find(name);
  return found == info.fields.end() ? "" : found->second;
}

absl::StatusOr<SpecPtr> SpaceOf(const CheckpointInfo& info, const char* name) {
  const std::string text = FieldOf(info, name);
  if (text.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it does not hold the space '", name, "' of its env, whose bounds were too long to save"));
  }
  absl::StatusOr<SpecPtr> spec = SpecFromJson(text);
  if (!spec.ok()) return Annotate(spec.status(), absl::StrCat("its field '", name, "'"));
  return spec;
}

// Reads parameters by name and remembers which, and all problems.
class ParameterReader {
 public:
  // `noisy`: layers may have deviations, which are not used.
  ParameterReader(StateReader* reader, bool noisy) : reader_(*reader), noisy_(noisy) {}

  std::vector<float> Read(const std::string& name, const Shape& shape) {
    read_.insert(name);
    const absl::StatusOr<TensorInfo> info = reader_.Info(name);
    if (!info.ok()) {
      problems_.push_back(absl::StrCat("'", name, "' ", ShapeString(shape), " is missing"));
      return {};
    }
    if (info->dtype != DType::kFloat32 || info->shape != shape) {
      problems_.push_back(absl::StrCat("'", name, "' is ", DTypeName(info->dtype),
                                       ShapeString(info->shape), ", expected float32",
                                       ShapeString(shape)));
      return {};
    }
    std::vector<float> values(static_cast<size_t>(NumElements(shape)));
    const absl::Status status = reader_.ReadSpan<float>(name, absl::MakeSpan(values));
    if (!status.ok()) {
      problems_.emplace_back(status.message());
    } else if (!AllFinite(values)) {
      problems_.push_back(absl::StrCat("'", name, "' is not finite"));
    }
    return values;
  }

  // Returns all problems, among them parameters that nobody has read and `unused` does not name.
  absl::Status Finish(absl::Span<const std::string> unused) {
    for (const std::string& name : reader_.Names()) {
      const bool is_unused = std::any_of(unused.begin(), unused.end(), [&](const auto& scope) {
        return absl::StartsWith(name, absl::StrCat(scope, "/"));
      });
      const bool is_noise = noisy_ && absl::EndsWith(name, "_deviation");
      // ActorCritic::ReturnStatisticsScope(): no actor sees rewards.
      const bool is_of_rewards = absl::StartsWith(name, "model/return_statistics/");
      if (read_.count(name) == 0 && !is_unused && !is_noise && !is_of_rewards) {
        problems_.push_back(absl::StrCat("'", name, "' is unknown"));
      }
    }
    return ProblemsToStatus(problems_, "its model does not fit its description");
  }

 private:
  StateReader& reader_;
  const bool noisy_;
  std::set<std::string> read_;
  std::vector<std::string> problems_;
};

ModelLayer ReadLayer(const MlpLayer& layer, const std::string& name, ParameterReader* reader) {
  return {name,
          layer.in,
          layer.out,
          layer.hidden,
          reader->Read(absl::StrCat(name, "/weight"), {layer.out, layer.in}),
          reader->Read(absl::StrCat(name, "/bias"), {layer.out})};
}

// Reads the layers up to layer `last`, beginning behind layer `first`.
std::vector<ModelLayer> ReadChain(const MlpStructure& structure, int last, int first,
                                  ParameterReader* reader) {
  std::vector<ModelLayer> chain;
  for (int i = last; i != first; i = structure.layers[static_cast<size_t>(i)].source) {
    const MlpLayer& layer = structure.layers[static_cast<size_t>(i)];
    chain.push_back(ReadLayer(layer, layer.name, reader));
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

void ReadHeads(const MlpStructure& structure, int encoder, ParameterReader* reader,
               ActorModel* model) {
  for (size_t i = 0; i < structure.heads.size(); ++i) {
    const MlpHead& from = structure.heads[i];
    ModelHead head;
    head.name = structure.output->field(static_cast<int>(i)).name;
    head.layers = ReadChain(structure, from.layer, encoder, reader);
    if (from.value >= 0) head.value = ReadChain(structure, from.value, encoder, reader);
    model->heads.push_back(std::move(head));
  }
}

void ReadMlp(const MlpStructure& structure, ParameterReader* reader, ActorModel* model) {
  const int encoder = static_cast<int>(structure.options.encoder_hidden_size.size()) - 1;
  model->encoder = ReadChain(structure, encoder, -1, reader);
  ReadHeads(structure, encoder, reader, model);
}

// The outputs of the network, which has several for each action if they describe a distribution.
absl::StatusOr<SpecPtr> NetworkOutputs(const ActorModel& model) {
  const auto& distribution = model.description.distribution;
  if (!distribution.has_value() || distribution->kind == DistributionKind::kFractions) {
    return model.outputs;
  }
  const FieldSpec& q = model.outputs->field(0);
  return MakeSpec({Box(q.name, {q.shape[0], distribution->size})});
}

// Computes what the cosines of the fractions become; no observation changes it.
absl::Status ReadFractionFeatures(ParameterReader* reader, ActorModel* model) {
  if (!model->description.IsDistributionOf(DistributionKind::kFractions)) return absl::OkStatus();
  const auto& distribution = model->description.distribution;
  const std::vector<int64_t>& encoder = model->description.mlp.encoder_hidden_size;
  const int64_t width = encoder.empty() ? 0 : encoder.back();
  const int64_t size = distribution->size;
  if (width < 1 || size > kMaxFractionFeatures / width || !model->description.conv.empty() ||
      model->description.recurrent.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it multiplies the output of an encoder of ", width, " features by those of ",
                     size, " fractions; expected at least 1 feature, at most ",
                     kMaxFractionFeatures, " in all, and neither convolutions nor memory"));
  }
  const ModelLayer layer = ReadLayer({"", distribution->cosines, width}, kCosineLayer, reader);
  if (layer.weight.empty() || layer.bias.empty()) return absl::OkStatus();  // Finish() tells.
  for (int64_t n = 0; n < size; ++n) {
    const auto fraction =
        static_cast<float>((static_cast<double>(n) + 0.5) / static_cast<double>(size));
    std::vector<float> cosines;
    for (int64_t i = 0; i < layer.in; ++i) {
      cosines.push_back(static_cast<float>(std::cos(kPi * static_cast<double>(i) * fraction)));
    }
    for (int64_t d = 0; d < width; ++d) {
      double sum = layer.bias[static_cast<size_t>(d)];
      const float* const weight = layer.weight.data() + d * layer.in;
      for (int64_t i = 0; i < layer.in; ++i) sum += double{weight[i]} * cosines[i];
      const double feature = model->tanh() ? std::tanh(sum) : std::max(sum, 0.0);
      model->fraction_features.push_back(static_cast<float>(feature));
    }
  }
  return absl::OkStatus();
}

// Replaces the rows of each action by their mean.
void AverageRows(int64_t rows_per_mean, ModelLayer* layer) {
  const auto average = [rows_per_mean](std::vector<float>* values, int64_t width) {
    if (values->empty()) return;  // Finish() tells.
    const auto means = static_cast<int64_t>(values->size()) / width / rows_per_mean;
    for (int64_t i = 0; i < means * width; ++i) {
      double sum = 0;
      for (int64_t row = 0; row < rows_per_mean; ++row) {
        const int64_t from = i / width * rows_per_mean + row;
        sum += (*values)[static_cast<size_t>(from * width + i % width)];
      }
      // No later mean reads this place.
      (*values)[static_cast<size_t>(i)] =
          static_cast<float>(sum / static_cast<double>(rows_per_mean));
    }
    values->resize(static_cast<size_t>(means * width));
  };
  average(&layer->weight, layer->in);
  average(&layer->bias, 1);
  layer->out /= rows_per_mean;
}

// Makes the heads of quantiles return their means.
void AverageQuantiles(ActorModel* model) {
  if (!model->description.IsDistributionOf(DistributionKind::kQuantiles)) return;
  const int64_t size = model->description.distribution->size;
  for (ModelHead& head : model->heads) {
    AverageRows(size, &head.layers.back());
    if (!head.value.empty()) AverageRows(size, &head.value.back());
  }
}

absl::Status ReadRecurrent(const SpecPtr& outputs, ParameterReader* reader, ActorModel* model) {
  RnnOptions options;
  options.cell = model->description.recurrent->cell;
  options.hidden_size = model->description.recurrent->hidden_size;
  options.mlp = model->description.mlp;
  DING_ASSIGN_OR_RETURN(const RnnStructure structure,
                        MakeRnnStructure(options, model->inputs, outputs));
  if (structure.encoder.has_value()) {
    for (size_t i = 0; i < structure.encoder->layers.size(); ++i) {
      model->encoder.push_back(
          ReadLayer(structure.encoder->layers[i], absl::StrCat("encoder/", i), reader));
    }
  }
  ModelCell cell;
  cell.cell = structure.cell.cell;
  cell.in = structure.cell.in;
  cell.hidden = structure.cell.hidden;
  const int64_t rows = structure.cell.gate_rows();
  cell.weight_ih = reader->Read("rnn/weight_ih", {rows, cell.in});
  cell.weight_hh = reader->Read("rnn/weight_hh", {rows, cell.hidden});
  cell.bias = reader->Read(cell.cell == RnnCell::kLstm ? "rnn/bias" : "rnn/bias_ih", {rows});
  if (cell.cell == RnnCell::kGru) cell.bias_hh = reader->Read("rnn/bias_hh", {rows});
  model->cell = std::move(cell);
  ReadHeads(structure.heads, -1, reader, model);
  return absl::OkStatus();
}

absl::Status ReadConvolutional(const SpecPtr& outputs, ParameterReader* reader, ActorModel* model) {
  DING_ASSIGN_OR_RETURN(
      const CnnStructure structure,
      MakeCnnStructure({model->description.conv, model->description.mlp}, model->inputs, outputs));
  for (size_t i = 0; i < structure.conv.size(); ++i) {
    for (const ConvLayer& layer : structure.conv[i]) {
      const int64_t kernel = layer.options.kernel;
      model->convolutions[i].push_back(
          {layer,
           reader->Read(absl::StrCat(layer.name, "/weight"),
                        {layer.out[0], layer.in[0], kernel, kernel}),
           reader->Read(absl::StrCat(layer.name, "/bias"), {layer.out[0]})});
    }
  }
  ReadMlp(structure.mlp, reader, model);
  return absl::OkStatus();
}

absl::Status ReadNetwork(StateReader* state, ActorModel* model) {
  ScopedStateReader scoped(state, model->description.parameters);
  const auto& distribution = model->description.distribution;
  ParameterReader reader(&scoped, distribution.has_value() && distribution->noisy);
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs, NetworkOutputs(*model));
  model->convolutions.resize(static_cast<size_t>(model->inputs->size()));
  if (model->description.recurrent.has_value()) {
    if (!model->description.conv.empty()) {
      return absl::UnimplementedError("it has convolutions and memory in one network");
    }
    DING_RETURN_IF_ERROR(ReadRecurrent(outputs, &reader, model));
  } else if (!model->description.conv.empty()) {
    DING_RETURN_IF_ERROR(ReadConvolutional(outputs, &reader, model));
  } else {
    DING_ASSIGN_OR_RETURN(const MlpStructure structure,
                          MakeMlpStructure(model->description.mlp, model->inputs, outputs));
    ReadMlp(structure, &reader, model);
  }
  AverageQuantiles(model);
  DING_RETURN_IF_ERROR(ReadFractionFeatures(&reader, model));
  return reader.Finish(model->description.unused_outputs);
}

absl::Status ReadStatistics(StateReader* state, ActorModel* model) {
  if (!model->description.obs_clip.has_value()) return absl::OkStatus();
  for (const FieldSpec& field : model->inputs->fields()) {
    if (field.dtype != DType::kFloat32) {
      return absl::InvalidArgumentError(absl::StrCat("it normalizes '", field.name, "', which is ",
                                                     field.DebugString(), ", expected float32"));
    }
    const std::string scope = absl::StrCat(kModelScope, "/", kStatisticsScope, "/", field.name);
    ScopedStateReader scoped(state, scope);
    RunningNormalizer normalizer(field.num_elements(), *model->description.obs_clip);
    DING_RETURN_IF_ERROR(Annotate(normalizer.LoadState(&scoped), scope));
    model->normalizers.push_back(std::move(normalizer));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedActor> ReadActorModel(const CheckpointInfo& info, StateReader* state) {
  const std::string description = FieldOf(info, kActorField);
  if (description.empty()) {
    return absl::FailedPreconditionError(
        "it does not describe its actor: an earlier version wrote it. Train on from it (--resume), "
        "and use a checkpoint of that run");
  }
  LoadedActor loaded;
  ActorModel& model = loaded.model;
  DING_ASSIGN_OR_RETURN(model.description, ActorDescriptionFromJson(description));
  model.env = FieldOf(info, "env");
  if (!absl::SimpleAtod(FieldOf(info, "env_step"), &model.env_step)) model.env_step = 0;
  DING_ASSIGN_OR_RETURN(model.observation, SpaceOf(info, kObservationField));
  DING_ASSIGN_OR_RETURN(model.action, SpaceOf(info, kActionField));
  DING_ASSIGN_OR_RETURN(model.mask_field, FindActionMask(*model.observation, *model.action));
  model.inputs = WithoutActionMask(model.observation);
  DING_ASSIGN_OR_RETURN(loaded.head, MakeActionHead(model.description.head, model.action));
  DING_ASSIGN_OR_RETURN(model.outputs, MakeSpec(loaded.head->outputs()));
  DING_RETURN_IF_ERROR(ReadNetwork(state, &model));
  DING_RETURN_IF_ERROR(ReadStatistics(state, &model));
  ScopedStateReader scoped(state, kModelScope);
  DING_RETURN_IF_ERROR(loaded.head->Load(&scoped));
  return loaded;
}

absl::StatusOr<LoadedActor> LoadActorModel(const std::string& path) {
  const auto load = [&]() -> absl::StatusOr<LoadedActor> {
    DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint,
                          CheckpointReader::Open(CheckpointFolder(path)));
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> state,
                          checkpoint.Component(kModelComponent));
    return ReadActorModel(checkpoint.info(), state.get());
  };
  absl::StatusOr<LoadedActor> loaded = load();
  if (loaded.ok()) return loaded;
  return Annotate(loaded.status(), absl::StrCat("checkpoint ", path));
}

}  // namespace ding
