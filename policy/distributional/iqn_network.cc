#include "ding_worker/policy/distributional/iqn_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/loss/distributional_loss.h"

namespace ding {
namespace {

constexpr double kPi = 3.14159265358979323846;

absl::Status CheckOptions(const IqnOptions& options, const Spec& output) {
  if (options.mlp.encoder_hidden_size.empty()) {
    return absl::InvalidArgumentError(
        "iqn network: encoder_hidden_size is empty, but the product with the fractions needs at "
        "least one encoder layer");
  }
  if (options.cosines < 1 || options.cosines > kMaxLayerWidth) {
    return absl::InvalidArgumentError(absl::StrCat("iqn network: the number of cosines is ",
                                                   options.cosines, ", must be in 1..",
                                                   kMaxLayerWidth));
  }
  if (output.size() == 1 && output.field(0).shape.size() == 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("iqn network: the outputs are\n",
                                                 output.DebugString(),
                                                 "\nexpected one field [actions, fractions]"));
}

// The structure of one layer, or several, that end in `width` features with the activation.
absl::StatusOr<MlpStructure> MakeFeatures(MlpOptions options, std::vector<int64_t> hidden,
                                          SpecPtr input, const char* name, int64_t width) {
  DING_ASSIGN_OR_RETURN(SpecPtr output, MakeSpec({Box(name, {width})}));
  options.encoder_hidden_size = std::move(hidden);
  options.head_layer_num = 0;
  options.dueling = false;
  options.output_activation = true;
  return MakeMlpStructure(options, std::move(input), std::move(output));
}

absl::StatusOr<MlpStructure> MakeHeads(MlpOptions options, int64_t width, const FieldSpec& output) {
  DING_ASSIGN_OR_RETURN(SpecPtr input, MakeSpec({Box("product", {width})}));
  DING_ASSIGN_OR_RETURN(SpecPtr heads, MakeSpec({Box(output.name, {output.shape[0]})}));
  options.encoder_hidden_size.clear();
  if (options.head_hidden_size == 0) options.head_hidden_size = width;
  return MakeMlpStructure(options, std::move(input), std::move(heads));
}

// [rows, columns] to [columns, rows].
void TransposeInto(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
}

}  // namespace

absl::StatusOr<IqnNetwork::Structure> IqnNetwork::MakeStructure(const IqnOptions& options,
                                                                SpecPtr input, SpecPtr output) {
  DING_RETURN_IF_ERROR(CheckOptions(options, *output));
  DING_RETURN_IF_ERROR(RefuseNormalization(options.mlp, "iqn network"));
  // Reports the problems of all parts together.
  DING_RETURN_IF_ERROR(MakeMlpStructure(options.mlp, input, output).status());
  Structure structure;
  const FieldSpec& field = output->field(0);
  structure.num_actions = field.shape[0];
  structure.num_fractions = field.shape[1];
  structure.width = options.mlp.encoder_hidden_size.back();
  std::vector<int64_t> hidden = options.mlp.encoder_hidden_size;
  hidden.pop_back();
  const std::string last = absl::StrCat("encoder/", hidden.size());
  DING_ASSIGN_OR_RETURN(structure.encoder,
                        MakeFeatures(options.mlp, hidden, input, "encoder", structure.width));
  DING_ASSIGN_OR_RETURN(SpecPtr cosines, MakeSpec({Box("cosines", {options.cosines})}));
  DING_ASSIGN_OR_RETURN(structure.cosine,
                        MakeFeatures(options.mlp, {}, cosines, "cosine", structure.width));
  DING_ASSIGN_OR_RETURN(structure.heads, MakeHeads(options.mlp, structure.width, field));
  int64_t offset = 0;
  for (const MlpStructure* const part : {&structure.encoder, &structure.cosine, &structure.heads}) {
    for (const ParameterInfo& info : part->parameters) {
      structure.parameters.push_back({info.name, info.shape, offset + info.offset});
    }
    offset += part->num_parameters;
  }
  // The last encoder layer is the output layer of its part, which would be called "encoder/0".
  const size_t of_last = 2 * hidden.size();
  structure.parameters[of_last].name = absl::StrCat(last, "/weight");
  structure.parameters[of_last + 1].name = absl::StrCat(last, "/bias");
  structure.description =
      absl::StrCat("iqn ", options.cosines, " cosines, ", structure.num_fractions,
                   " fractions, mlp ", structure.encoder.Architecture(), ", ",
                   structure.heads.Architecture(), ": ", offset, " parameters");
  structure.input = std::move(input);
  structure.output = std::move(output);
  return structure;
}

absl::StatusOr<std::unique_ptr<IqnNetwork>> IqnNetwork::Create(const IqnOptions& options,
                                                               SpecPtr input, SpecPtr output,
                                                               uint64_t seed) {
  DING_ASSIGN_OR_RETURN(Structure structure,
                        MakeStructure(options, std::move(input), std::move(output)));
  auto network = absl::WrapUnique(new IqnNetwork(std::move(structure)));
  Rng rng(seed, "policy/init");
  const Structure& made = network->structure_;
  InitializeMlpParameters(made.encoder, &rng, network->encoder_->parameters());
  InitializeMlpParameters(made.cosine, &rng, network->cosine_->parameters());
  InitializeMlpParameters(made.heads, &rng, network->heads_->parameters());
  return network;
}

IqnNetwork::Between::Between(const Structure& structure)
    : encoded(structure.encoder.output),
      cosine(structure.cosine.output),
      product(structure.heads.input),
      heads(structure.heads.output) {}

IqnNetwork::IqnNetwork(Structure structure)
    : structure_(std::move(structure)),
      parameters_(Tensor::Zeros(DType::kFloat32, {NumParameters()})),
      gradients_(Tensor::Zeros(DType::kFloat32, {NumParameters()})),
      encoder_(MakePart(structure_.encoder, 0)),
      cosine_(MakePart(structure_.cosine, structure_.encoder.num_parameters)),
      heads_(MakePart(structure_.heads, NumParameters() - structure_.heads.num_parameters)),
      fraction_(static_cast<size_t>(structure_.num_fractions)),
      cosines_(structure_.cosine.input),
      infer_(structure_),
      forward_(structure_),
      gradient_(structure_) {
  UseMeans();
}

int64_t IqnNetwork::NumParameters() const {
  return structure_.encoder.num_parameters + structure_.cosine.num_parameters +
         structure_.heads.num_parameters;
}

std::unique_ptr<Mlp> IqnNetwork::MakePart(const MlpStructure& structure, int64_t offset) {
  return Mlp::CreatePart(structure, parameters().subspan(offset, structure.num_parameters),
                         gradients().subspan(offset, structure.num_parameters));
}

void IqnNetwork::Draw(Rng* rng) {
  const auto size = static_cast<double>(fraction_.size());
  for (size_t n = 0; n < fraction_.size(); ++n) {
    fraction_[n] = static_cast<float>((static_cast<double>(n) + rng->Uniform()) / size);
  }
}

void IqnNetwork::UseMeans() { FillMiddleFractions(absl::MakeSpan(fraction_)); }

absl::Status IqnNetwork::Infer(const ColumnsView& input, const MutableColumnsView& output) {
  DING_RETURN_IF_ERROR(Check(input, output));
  return Run(&Mlp::Infer, input, &infer_, output);
}

absl::Status IqnNetwork::Forward(const ColumnsView& input, const MutableColumnsView& output) {
  DING_RETURN_IF_ERROR(Check(input, output));
  forward_rows_ = -1;
  DING_RETURN_IF_ERROR(Run(&Mlp::Forward, input, &forward_, output));
  forward_rows_ = input.rows();
  return absl::OkStatus();
}

absl::Status IqnNetwork::Check(const ColumnsView& input, const MutableColumnsView& output) const {
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.input, input.spec(), "iqn input"));
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.output, output.spec(), "iqn output"));
  if (output.rows() >= input.rows()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "iqn: ", input.rows(), " input rows, but room for ", output.rows(), " output rows"));
}

absl::Status IqnNetwork::Run(Pass pass, const ColumnsView& input, Between* between,
                             const MutableColumnsView& output) {
  const int64_t rows = input.rows();
  const int64_t fractions = structure_.num_fractions;
  DING_ASSIGN_OR_RETURN(const MutableColumnsView encoded, between->encoded.Rows(rows));
  DING_RETURN_IF_ERROR((encoder_.get()->*pass)(input, encoded));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView cosines, cosines_.Rows(fractions));
  FillCosines(cosines.column<float>(0));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView cosine, between->cosine.Rows(fractions));
  DING_RETURN_IF_ERROR((cosine_.get()->*pass)(cosines, cosine));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView product, between->product.Rows(rows * fractions));
  FillProduct(encoded.column<float>(0), cosine.column<float>(0), product.column<float>(0));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView heads, between->heads.Rows(rows * fractions));
  DING_RETURN_IF_ERROR((heads_.get()->*pass)(product, heads));
  const int64_t actions = structure_.num_actions;
  const int64_t size = fractions * actions;
  for (int64_t b = 0; b < rows; ++b) {
    TransposeInto(heads.column<float>(0).data() + b * size, fractions, actions,
                  output.column<float>(0).data() + b * size);
  }
  return absl::OkStatus();
}

void IqnNetwork::FillCosines(absl::Span<float> cosines) const {
  const size_t width = cosines.size() / fraction_.size();
  for (size_t n = 0; n < fraction_.size(); ++n) {
    for (size_t i = 0; i < width; ++i) {
      cosines[n * width + i] =
          static_cast<float>(std::cos(kPi * static_cast<double>(i) * fraction_[n]));
    }
  }
}

void IqnNetwork::FillProduct(absl::Span<const float> encoded, absl::Span<const float> cosine,
                             absl::Span<float> product) const {
  const int64_t width = structure_.width;
  const float* const to_end = product.data() + product.size();
  const float* from = encoded.data();
  for (float* to = product.data(); to < to_end; from += width) {
    for (int64_t i = 0; i < structure_.num_fractions * width; i += width, to += width) {
      const float* __restrict const factor = cosine.data() + i;
      for (int64_t d = 0; d < width; ++d) to[d] = from[d] * factor[d];
    }
  }
}

absl::Status IqnNetwork::Backward(const ColumnsView& d_output) {
  DING_RETURN_IF_ERROR(
      CheckFirstFields(*structure_.output, d_output.spec(), "iqn output gradient"));
  const int64_t rows = d_output.rows();
  if (rows != forward_rows_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "iqn: Backward of ", rows, " rows ",
        forward_rows_ < 0 ? std::string("without a Forward")
                          : absl::StrCat("after a Forward of ", forward_rows_, " rows")));
  }
  const int64_t fractions = structure_.num_fractions;
  const int64_t actions = structure_.num_actions;
  const int64_t size = fractions * actions;
  DING_ASSIGN_OR_RETURN(const MutableColumnsView d_heads, gradient_.heads.Rows(rows * fractions));
  for (int64_t b = 0; b < rows; ++b) {
    TransposeInto(d_output.column<float>(0).data() + b * size, actions, fractions,
                  d_heads.column<float>(0).data() + b * size);
  }
  DING_ASSIGN_OR_RETURN(const MutableColumnsView d_product,
                        gradient_.product.Rows(rows * fractions));
  DING_RETURN_IF_ERROR(heads_->Backward(d_heads, d_product.column<float>(0)));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView d_encoded, gradient_.encoded.Rows(rows));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView d_cosine, gradient_.cosine.Rows(fractions));
  DING_RETURN_IF_ERROR(SplitGradient(d_product.column<float>(0), d_encoded.column<float>(0),
                                     d_cosine.column<float>(0)));
  DING_RETURN_IF_ERROR(cosine_->Backward(d_cosine));
  DING_RETURN_IF_ERROR(encoder_->Backward(d_encoded));
  forward_rows_ = -1;
  return absl::OkStatus();
}

absl::Status IqnNetwork::SplitGradient(absl::Span<const float> d_product,
                                       absl::Span<float> d_encoded, absl::Span<float> d_cosine) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView encoded, forward_.encoded.Rows(forward_rows_));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView cosine,
                        forward_.cosine.Rows(structure_.num_fractions));
  absl::c_fill(d_encoded, 0.0f);
  absl::c_fill(d_cosine, 0.0f);
  const int64_t width = structure_.width;
  const float* from = d_product.data();
  for (int64_t b = 0; b < forward_rows_; ++b) {
    const float* __restrict const of_row = encoded.column<float>(0).data() + b * width;
    float* __restrict const d_row = d_encoded.data() + b * width;
    for (int64_t n = 0; n < structure_.num_fractions; ++n, from += width) {
      const float* __restrict const of_fraction = cosine.column<float>(0).data() + n * width;
      float* __restrict const d_fraction = d_cosine.data() + n * width;
      for (int64_t d = 0; d < width; ++d) {
        d_row[d] += from[d] * of_fraction[d];
        d_fraction[d] += from[d] * of_row[d];
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Network>> IqnNetwork::Clone() const {
  auto clone = absl::WrapUnique(new IqnNetwork(structure_));
  absl::c_copy(parameters(), clone->parameters().begin());
  absl::c_copy(fraction_, clone->fraction_.begin());
  return std::unique_ptr<Network>(std::move(clone));
}

std::string IqnNetwork::info() const { return structure_.description; }

}  // namespace ding
