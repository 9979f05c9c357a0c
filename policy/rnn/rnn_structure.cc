#include "ding_worker/policy/rnn/rnn_structure.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Checks the options and the fields of encoder and heads as if there were no cell between them.
absl::StatusOr<MlpStructure> MakeWithoutCell(const RnnOptions& options, SpecPtr input,
                                             SpecPtr output) {
  DING_CHECK(!options.mlp.output_activation) << "recurrent networks have no output activation";
  DING_CHECK(!options.mlp.separate_encoders) << "the cell has one input: heads share the encoder";
  DING_RETURN_IF_ERROR(RefuseNormalization(options.mlp, "a recurrent network"));
  MlpOptions mlp = options.mlp;
  if (mlp.head_hidden_size == 0) mlp.head_hidden_size = std::max<int64_t>(options.hidden_size, 1);
  absl::StatusOr<MlpStructure> structure =
      MakeMlpStructure(mlp, std::move(input), std::move(output));
  if (options.hidden_size >= 1 && options.hidden_size <= kMaxLayerWidth) return structure;
  const std::string problem = absl::StrCat("recurrent.hidden_size is ", options.hidden_size,
                                           "; it must be in 1..", kMaxLayerWidth);
  return absl::InvalidArgumentError(
      structure.ok() ? problem : absl::StrCat(problem, "; ", structure.status().message()));
}

// The encoder's last layer is an output layer with the activation.
absl::StatusOr<MlpStructure> MakeEncoder(MlpOptions options, SpecPtr input) {
  DING_ASSIGN_OR_RETURN(SpecPtr output,
                        MakeSpec({Box("encoder", {options.encoder_hidden_size.back()})}));
  options.encoder_hidden_size.pop_back();
  options.head_layer_num = 0;
  options.dueling = false;
  options.output_activation = true;
  return MakeMlpStructure(options, std::move(input), std::move(output));
}

absl::StatusOr<MlpStructure> MakeHeads(MlpOptions options, int64_t hidden_size, SpecPtr output) {
  DING_ASSIGN_OR_RETURN(SpecPtr input, MakeSpec({Box("rnn", {hidden_size})}));
  options.encoder_hidden_size.clear();
  if (options.head_hidden_size == 0) options.head_hidden_size = hidden_size;
  return MakeMlpStructure(options, std::move(input), std::move(output));
}

class ParameterList {
 public:
  explicit ParameterList(RnnStructure* structure) : structure_(structure) {}

  // Returns the place of the parameter.
  int64_t Add(std::string name, Shape shape) {
    const int64_t offset = structure_->num_parameters;
    // A sum above every limit is enough, and so it cannot overflow.
    structure_->num_parameters =
        std::min(structure_->num_parameters, kMaxNetworkParameters + 1) + NumElements(shape);
    structure_->parameters.push_back({std::move(name), std::move(shape), offset});
    return offset;
  }

  void AddEncoder(const MlpStructure& encoder) {
    for (size_t i = 0; i < encoder.layers.size(); ++i) {
      const MlpLayer& layer = encoder.layers[i];
      Add(absl::StrCat("encoder/", i, "/weight"), {layer.out, layer.in});
      Add(absl::StrCat("encoder/", i, "/bias"), {layer.out});
    }
  }

  void AddCell(RnnCellStructure* cell) {
    const int64_t first = structure_->num_parameters;
    const int64_t rows = cell->gate_rows();
    cell->weight_ih_offset = Add("rnn/weight_ih", {rows, cell->in}) - first;
    cell->weight_hh_offset = Add("rnn/weight_hh", {rows, cell->hidden}) - first;
    if (cell->cell == RnnCell::kLstm) {
      cell->bias_offset = Add("rnn/bias", {rows}) - first;
    } else {
      cell->bias_offset = Add("rnn/bias_ih", {rows}) - first;
      cell->bias_hh_offset = Add("rnn/bias_hh", {rows}) - first;
    }
    cell->num_parameters = structure_->num_parameters - first;
  }

  void AddHeads(const MlpStructure& heads) {
    for (const ParameterInfo& info : heads.parameters) Add(info.name, info.shape);
  }

 private:
  RnnStructure* const structure_;
};

}  // namespace

absl::StatusOr<RnnStructure> MakeRnnStructure(const RnnOptions& options, SpecPtr input,
                                              SpecPtr output) {
  absl::StatusOr<MlpStructure> without_cell = MakeWithoutCell(options, input, output);
  DING_RETURN_IF_ERROR(Annotate(without_cell.status(), "recurrent network"));
  RnnStructure structure;
  ParameterList parameters(&structure);
  structure.cell.cell = options.cell;
  structure.cell.hidden = options.hidden_size;
  structure.cell.in = without_cell->input_width;
  if (!options.mlp.encoder_hidden_size.empty()) {
    DING_ASSIGN_OR_RETURN(structure.encoder, MakeEncoder(options.mlp, input));
    structure.cell.in = options.mlp.encoder_hidden_size.back();
    parameters.AddEncoder(*structure.encoder);
  }
  parameters.AddCell(&structure.cell);
  DING_ASSIGN_OR_RETURN(structure.heads, MakeHeads(options.mlp, options.hidden_size, output));
  parameters.AddHeads(structure.heads);
  if (structure.num_parameters > kMaxNetworkParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("recurrent network: ", structure.num_parameters, " parameters; at most ",
                     kMaxNetworkParameters, " are supported: make recurrent.hidden_size (",
                     options.hidden_size, ") or the layers around it smaller"));
  }
  without_cell->num_parameters = structure.num_parameters;
  structure.description = absl::StrCat(options.cell == RnnCell::kLstm ? "lstm " : "gru ",
                                       options.hidden_size, " in ", without_cell->DebugString());
  structure.input = std::move(input);
  structure.output = std::move(output);
  return structure;
}

void InitializeRnnParameters(const RnnStructure& structure, uint64_t seed,
                             absl::Span<float> parameters) {
  Rng rng(seed, "policy/init");
  if (structure.encoder.has_value()) {
    const int64_t size = structure.encoder->num_parameters;
    InitializeMlpParameters(*structure.encoder, &rng, parameters.subspan(0, size));
    parameters.remove_prefix(size);
  }
  const int64_t size = structure.cell.num_parameters;
  InitializeUniformly(structure.cell.hidden, &rng, parameters.subspan(0, size));
  InitializeMlpParameters(structure.heads, &rng, parameters.subspan(size));
}

}  // namespace ding
