#include "ding_worker/policy/rnn/rnn.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"

namespace ding {
namespace {

// The places of the cell's parameters in the flat ones: behind the encoder's. The heads' come last.
int64_t CellOffset(const RnnStructure& structure) {
  return structure.encoder.has_value() ? structure.encoder->num_parameters : 0;
}

std::unique_ptr<Mlp> MakeEncoder(const RnnStructure& structure, absl::Span<float> parameters,
                                 absl::Span<float> gradients) {
  if (!structure.encoder.has_value()) return nullptr;
  const int64_t size = CellOffset(structure);
  return Mlp::CreatePart(*structure.encoder, parameters.subspan(0, size),
                         gradients.subspan(0, size));
}

RecurrentLayer MakeLayer(const RnnStructure& structure, absl::Span<const float> parameters,
                         absl::Span<float> gradients) {
  const int64_t offset = CellOffset(structure);
  const int64_t size = structure.cell.num_parameters;
  return RecurrentLayer(structure.cell, parameters.subspan(offset, size),
                        gradients.subspan(offset, size));
}

std::unique_ptr<Mlp> MakeHeads(const RnnStructure& structure, absl::Span<float> parameters,
                               absl::Span<float> gradients) {
  const int64_t offset = CellOffset(structure) + structure.cell.num_parameters;
  return Mlp::CreatePart(structure.heads, parameters.subspan(offset), gradients.subspan(offset));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rnn>> Rnn::Create(const RnnOptions& options, SpecPtr input,
                                                 SpecPtr output, uint64_t seed) {
  DING_ASSIGN_OR_RETURN(RnnStructure structure,
                        MakeRnnStructure(options, std::move(input), std::move(output)));
  auto rnn = absl::WrapUnique(new Rnn(std::move(structure)));
  InitializeRnnParameters(rnn->structure_, seed, rnn->parameters());
  return rnn;
}

Rnn::Rnn(RnnStructure structure)
    : structure_(std::move(structure)),
      parameters_(Tensor::Zeros(DType::kFloat32, {structure_.num_parameters})),
      gradients_(Tensor::Zeros(DType::kFloat32, {structure_.num_parameters})),
      encoder_(MakeEncoder(structure_, parameters(), gradients())),
      layer_(MakeLayer(structure_, parameters(), gradients())),
      heads_(MakeHeads(structure_, parameters(), gradients())),
      infer_(MakeBetween()),
      forward_(MakeBetween()),
      gradient_(MakeBetween()),
      d_output_(structure_.output) {}

Rnn::Between Rnn::MakeBetween() const {
  const SpecPtr& encoded =
      structure_.encoder.has_value() ? structure_.encoder->output : structure_.input;
  return {ScratchColumns(encoded), ScratchColumns(structure_.heads.input)};
}

absl::Status Rnn::Check(const Sequences& sequences, const MutableColumnsView& output,
                        absl::Span<const float> states) const {
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.input, sequences.rows.spec(), "rnn input"));
  DING_RETURN_IF_ERROR(CheckFirstFields(*structure_.output, output.spec(), "rnn output"));
  DING_RETURN_IF_ERROR(Annotate(CheckSequences(sequences, state_size(), states), "rnn"));
  if (output.rows() >= sequences.rows.rows()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "rnn: ", sequences.rows.rows(), " input rows, but room for ", output.rows(), " output rows"));
}

absl::Status Rnn::InferSequences(const Sequences& sequences, const MutableColumnsView& output,
                                 absl::Span<float> states) {
  DING_RETURN_IF_ERROR(Check(sequences, output, states));
  const int64_t rows = sequences.rows.rows();
  Sequences encoded = sequences;
  if (encoder_ != nullptr) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView columns, infer_.encoded.Rows(rows));
    DING_RETURN_IF_ERROR(encoder_->Infer(sequences.rows, columns));
    encoded.rows = columns;
  }
  DING_ASSIGN_OR_RETURN(const MutableColumnsView hidden, infer_.hidden.Rows(rows));
  DING_RETURN_IF_ERROR(layer_.Infer(encoded, hidden.column<float>(0).data(), states));
  return heads_->Infer(hidden, output);
}

absl::Status Rnn::ForwardSequences(const Sequences& sequences, const MutableColumnsView& output,
                                   absl::Span<float> states) {
  DING_RETURN_IF_ERROR(Check(sequences, output, states));
  const int64_t rows = sequences.rows.rows();
  forward_rows_ = -1;
  Sequences encoded = sequences;
  if (encoder_ != nullptr) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView columns, forward_.encoded.Rows(rows));
    DING_RETURN_IF_ERROR(encoder_->Forward(sequences.rows, columns));
    encoded.rows = columns;
  }
  DING_ASSIGN_OR_RETURN(const MutableColumnsView hidden, forward_.hidden.Rows(rows));
  DING_RETURN_IF_ERROR(layer_.Forward(encoded, hidden.column<float>(0).data(), states));
  DING_RETURN_IF_ERROR(heads_->Forward(hidden, output));
  forward_rows_ = rows;
  forward_length_ = sequences.length;
  forward_burn_in_ = sequences.burn_in;
  return absl::OkStatus();
}

absl::StatusOr<ColumnsView> Rnn::WithoutBurnIn(const ColumnsView& d_output) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView copy, d_output_.Rows(forward_rows_));
  for (int field = 0; field < structure_.output->size(); ++field) {
    const int64_t row_bytes = structure_.output->row_bytes(field);
    for (int64_t row = 0; row < forward_rows_; row += forward_length_) {
      std::byte* const to = copy.raw_column(field) + row * row_bytes;
      const int64_t burn_in_bytes = forward_burn_in_ * row_bytes;
      std::memset(to, 0, burn_in_bytes);
      std::memcpy(to + burn_in_bytes, d_output.raw_column(field) + row * row_bytes + burn_in_bytes,
                  forward_length_ * row_bytes - burn_in_bytes);
    }
  }
  return ColumnsView(copy);
}

absl::Status Rnn::Backward(const ColumnsView& d_output) {
  DING_RETURN_IF_ERROR(
      CheckFirstFields(*structure_.output, d_output.spec(), "rnn output gradient"));
  if (d_output.rows() != forward_rows_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rnn: Backward of ", d_output.rows(), " rows ",
        forward_rows_ < 0 ? std::string("without a Forward")
                          : absl::StrCat("after a Forward of ", forward_rows_, " rows")));
  }
  ColumnsView d_learned = d_output;
  if (forward_burn_in_ > 0) {
    DING_ASSIGN_OR_RETURN(d_learned, WithoutBurnIn(d_output));
  }
  DING_ASSIGN_OR_RETURN(const MutableColumnsView d_hidden, gradient_.hidden.Rows(forward_rows_));
  DING_RETURN_IF_ERROR(heads_->Backward(d_learned, d_hidden.column<float>(0)));
  if (encoder_ == nullptr) {
    DING_RETURN_IF_ERROR(layer_.Backward(d_hidden.column<float>(0).data(), nullptr));
  } else {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_encoded,
                          gradient_.encoded.Rows(forward_rows_));
    DING_RETURN_IF_ERROR(
        layer_.Backward(d_hidden.column<float>(0).data(), d_encoded.column<float>(0).data()));
    DING_RETURN_IF_ERROR(encoder_->Backward(d_encoded));
  }
  forward_rows_ = -1;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Network>> Rnn::Clone() const {
  auto clone = absl::WrapUnique(new Rnn(structure_));
  const absl::Span<const float> from = parameters();
  std::copy(from.begin(), from.end(), clone->parameters().begin());
  return std::unique_ptr<Network>(std::move(clone));
}

std::string Rnn::info() const { return absl::StrCat("rnn ", structure_.description); }

}  // namespace ding
