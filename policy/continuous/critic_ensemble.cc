#include "ding_worker/policy/continuous/critic_ensemble.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr int kMaxCritics = 64;

// Returns the number of input elements before the last field.
int64_t ElementsBeforeLast(const Spec& input) {
  int64_t count = 0;
  for (int i = 0; i + 1 < input.size(); ++i) count += input.field(i).num_elements();
  return count;
}

}  // namespace

absl::Status CheckFitsInMemory(int64_t num_parameters, int64_t memory_bytes) {
  // Parameters and gradients of critics and targets, and two moments.
  constexpr int64_t kBytes = 6 * static_cast<int64_t>(sizeof(float));
  if (num_parameters <= memory_bytes / kBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the critics have ", num_parameters, " parameters, which take ",
                   num_parameters * kBytes, " bytes to train, but this process may use ",
                   memory_bytes, ": use fewer critics or narrower layers"));
}

absl::StatusOr<SpecPtr> CriticEnsemble::InputSpec(const Spec& observation,
                                                  const FieldSpec& action) {
  std::vector<FieldSpec> fields(observation.fields().begin(), observation.fields().end());
  fields.push_back(action);
  return MakeSpec(std::move(fields));
}

absl::StatusOr<SpecPtr> CriticEnsemble::OutputSpec(int num_critics) {
  if (num_critics < 1 || num_critics > kMaxCritics) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", num_critics, " critics, expected 1..", kMaxCritics));
  }
  std::vector<FieldSpec> fields;
  for (int k = 0; k < num_critics; ++k) {
    fields.push_back(Scalar(absl::StrCat("q", k), DType::kFloat32));
  }
  return MakeSpec(std::move(fields));
}

absl::StatusOr<std::unique_ptr<CriticEnsemble>> CriticEnsemble::Create(MlpOptions options,
                                                                       const SpecPtr& observation,
                                                                       const FieldSpec& action,
                                                                       int num_critics,
                                                                       uint64_t seed) {
  DING_ASSIGN_OR_RETURN(SpecPtr input, InputSpec(*observation, action));
  DING_ASSIGN_OR_RETURN(SpecPtr output, OutputSpec(num_critics));
  options.separate_encoders = true;
  DING_ASSIGN_OR_RETURN(const MlpStructure structure, MakeMlpStructure(options, input, output));
  DING_RETURN_IF_ERROR(
      CheckFitsInMemory(structure.num_parameters, ReadProcessResources().memory_bytes));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Mlp> network,
                        Mlp::Create(options, input, std::move(output), seed));
  DING_ASSIGN_OR_RETURN(SpecPtr first_output, OutputSpec(1));
  DING_ASSIGN_OR_RETURN(MlpStructure first,
                        MakeMlpStructure(options, std::move(input), std::move(first_output)));
  return absl::WrapUnique(new CriticEnsemble(std::move(network), std::move(first)));
}

CriticEnsemble::CriticEnsemble(std::unique_ptr<Mlp> network, MlpStructure first)
    : network_(std::move(network)),
      first_structure_(std::move(first)),
      first_(Mlp::CreatePart(
          first_structure_,
          network_->parameters().subspan(0, static_cast<size_t>(first_structure_.num_parameters)),
          network_->gradients().subspan(0, static_cast<size_t>(first_structure_.num_parameters)))),
      action_begin_(ElementsBeforeLast(*network_->input_spec())),
      input_columns_(static_cast<size_t>(network_->input_spec()->size())),
      outputs_(network_->output_spec()),
      d_outputs_(network_->output_spec()),
      q_(static_cast<size_t>(network_->output_spec()->size())),
      d_q_(q_.size()) {}

ColumnsView CriticEnsemble::Inputs(const ColumnsView& obs, absl::Span<const float> action) {
  const size_t last = input_columns_.size() - 1;
  // Both kinds of views share one pointer type; this view is read only.
  for (size_t i = 0; i < last; ++i) {
    input_columns_[i] = const_cast<std::byte*>(obs.raw_column(static_cast<int>(i)));
  }
  input_columns_[last] = reinterpret_cast<std::byte*>(const_cast<float*>(action.data()));
  return ColumnsView(network_->input_spec().get(), input_columns_.data(), 0, obs.rows());
}

absl::StatusOr<MutableColumnsView> CriticEnsemble::Outputs(int64_t rows) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(rows));
  DING_ASSIGN_OR_RETURN(d_output_, d_outputs_.Rows(rows));
  for (size_t k = 0; k < q_.size(); ++k) {
    q_[k] = outputs.column<float>(static_cast<int>(k));
    d_q_[k] = d_output_.column<float>(static_cast<int>(k));
  }
  return outputs;
}

absl::Status CriticEnsemble::Infer(const ColumnsView& obs, absl::Span<const float> action) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, Outputs(obs.rows()));
  return network_->Infer(Inputs(obs, action), outputs);
}

absl::Status CriticEnsemble::Forward(const ColumnsView& obs, absl::Span<const float> action) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, Outputs(obs.rows()));
  return network_->Forward(Inputs(obs, action), outputs);
}

absl::Status CriticEnsemble::Backward() { return network_->Backward(d_output_); }

absl::Status CriticEnsemble::BackwardToActions(absl::Span<float> d_action) {
  return network_->BackwardToInput(d_output_, action_begin_, d_action);
}

absl::Status CriticEnsemble::ForwardFirst(const ColumnsView& obs, absl::Span<const float> action) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, Outputs(obs.rows()));
  return first_->Forward(Inputs(obs, action), outputs.Fields(first_->output_spec().get(), 0));
}

absl::Status CriticEnsemble::BackwardFirstToActions(absl::Span<float> d_action) {
  return first_->BackwardToInput(d_output_.Fields(first_->output_spec().get(), 0), action_begin_,
                                 d_action);
}

absl::StatusOr<std::unique_ptr<CriticEnsemble>> CriticEnsemble::Clone() const {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, network_->Clone());
  // The clone of an Mlp is an Mlp.
  return absl::WrapUnique(
      new CriticEnsemble(absl::WrapUnique(static_cast<Mlp*>(network.release())), first_structure_));
}

std::string CriticEnsemble::info() const {
  return absl::StrCat(num_critics(), num_critics() == 1 ? " critic, " : " critics, ",
                      network_->info());
}

}  // namespace ding
