#include "ding_worker/policy/continuous/continuous_actor.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/parameter_state.h"
#include "ding_worker/policy/recurrent_network.h"

namespace ding {
namespace {

// Returns the parameters of a network with the names that they have in a model.
std::vector<ParameterInfo> NamesInModel(absl::Span<const ParameterInfo> parameters) {
  std::vector<ParameterInfo> named(parameters.begin(), parameters.end());
  for (ParameterInfo& info : named) info.name = absl::StrCat("actor/", info.name);
  return named;
}

}  // namespace

absl::StatusOr<SpecPtr> ActorOutputs(const FieldSpec& action, ActorHead head) {
  std::vector<FieldSpec> fields = {Box("mean", action.shape)};
  if (head == ActorHead::kNormal) fields.push_back(Box("log_std", action.shape));
  return MakeSpec(std::move(fields));
}

absl::StatusOr<std::unique_ptr<ContinuousActor>> ContinuousActor::Create(
    absl::string_view algorithm, ActorHead head, std::unique_ptr<Network> network, SpecPtr action,
    std::optional<double> obs_clip) {
  DING_ASSIGN_OR_RETURN(ActionScale scale, ActionScale::Create(*action, algorithm));
  if (AsRecurrent(network.get()) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(algorithm, " learns from single rows, which cannot train the memory of ",
                     network->info(), ": use a network without memory"));
  }
  DING_ASSIGN_OR_RETURN(const SpecPtr outputs, ActorOutputs(action->field(0), head));
  DING_RETURN_IF_ERROR(CheckSameLayout(*outputs, *network->output_spec(),
                                       absl::StrCat(algorithm, ": the actor's outputs")));
  std::optional<ObservationNormalizer> normalizer;
  if (obs_clip.has_value()) {
    DING_ASSIGN_OR_RETURN(normalizer,
                          ObservationNormalizer::Create(network->input_spec(), *obs_clip));
  }
  return absl::WrapUnique(new ContinuousActor(algorithm, std::move(network), std::move(action),
                                              std::move(scale), std::move(normalizer)));
}

ContinuousActor::ContinuousActor(absl::string_view algorithm, std::unique_ptr<Network> network,
                                 SpecPtr action, ActionScale scale,
                                 std::optional<ObservationNormalizer> normalizer)
    : algorithm_(algorithm),
      network_(std::move(network)),
      action_(std::move(action)),
      scale_(std::move(scale)),
      info_(NamesInModel(network_->parameter_info())),
      normalizer_(std::move(normalizer)),
      outputs_(network_->output_spec()) {}

void ContinuousActor::SetStatistics(const ColumnsView& rows) {
  if (normalizer_.has_value()) normalizer_->Set(rows);
}

absl::StatusOr<ColumnsView> ContinuousActor::Inputs(const ColumnsView& obs,
                                                    ScratchColumns* memory) const {
  if (!normalizer_.has_value()) return obs;
  return normalizer_->Normalize(obs, memory);
}

absl::StatusOr<ColumnsView> ContinuousActor::Infer(const ColumnsView& obs) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(obs.rows()));
  DING_RETURN_IF_ERROR(network_->Infer(obs, outputs));
  DING_RETURN_IF_ERROR(CheckFinite(outputs));
  return outputs;
}

absl::StatusOr<ColumnsView> ContinuousActor::Forward(const ColumnsView& obs) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(obs.rows()));
  DING_RETURN_IF_ERROR(network_->Forward(obs, outputs));
  DING_RETURN_IF_ERROR(CheckFinite(outputs));
  return outputs;
}

absl::Status ContinuousActor::CheckFinite(const ColumnsView& outputs) const {
  for (int field = 0; field < outputs.spec().size(); ++field) {
    const absl::Span<const float> values = outputs.column<float>(field);
    if (AllFinite(values)) continue;
    const int64_t bad = FindNonFinite(values);
    return absl::InternalError(absl::StrCat("'", outputs.spec().field(field).name,
                                            "' of the actor, observation ",
                                            bad / outputs.spec().field(field).num_elements(),
                                            ", is ", values[static_cast<size_t>(bad)]));
  }
  return absl::OkStatus();
}

absl::Status ContinuousActor::SaveModel(StateWriter* writer) const {
  const Network& network = *network_;
  DING_RETURN_IF_ERROR(SaveParameters(info_, network.parameters(), kModelScope, writer));
  return normalizer_.has_value() ? normalizer_->SaveState(writer) : absl::OkStatus();
}

absl::Status ContinuousActor::LoadModel(StateReader* reader) {
  if (!normalizer_.has_value()) {
    return LoadParameters(info_, kModelScope, reader, network_->parameters());
  }
  std::vector<float> parameters(network_->parameters().size());
  DING_RETURN_IF_ERROR(
      LoadParameters(info_, kModelScope, reader, absl::MakeSpan(parameters), normalizer_->names()));
  DING_RETURN_IF_ERROR(normalizer_->LoadState(reader));
  absl::c_copy(parameters, network_->parameters().begin());
  return absl::OkStatus();
}

}  // namespace ding
