#include "ding_worker/policy/q_learning/q_network.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/network.h"

namespace ding {
namespace {

absl::Status CheckOutputs(const Network& network, const Shape& shape, absl::string_view algorithm) {
  const Spec& output = *network.output_spec();
  if (output.size() == 1 && output.field(0).name == "q" &&
      output.field(0).dtype == DType::kFloat32 && output.field(0).shape == shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(algorithm, ": the network's outputs are\n", output.DebugString(),
                   "\nexpected one field 'q' float32[", absl::StrJoin(shape, ", "), "]"));
}

}  // namespace

absl::Status QHead::ComputeTarget(const QTargetInput& input, absl::Span<float> /*reward*/,
                                  absl::Span<float> next) {
  SelectDoubleQValue(Values(input.chooser, &chooser_values_), input.next, input.num_actions, next,
                     input.next_mask);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CountActions(const Spec& action, absl::string_view algorithm) {
  if (action.size() == 1 && action.field(0).name == "action" && action.field(0).is_discrete() &&
      action.field(0).dtype == DType::kInt64 && action.field(0).num_elements() == 1) {
    return action.field(0).num_categories;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      algorithm,
      " chooses among discrete actions: expected one field 'action' with one int64 category, the "
      "action space is\n",
      action.DebugString()));
}

absl::StatusOr<std::unique_ptr<QNetwork>> QNetwork::Create(absl::string_view algorithm,
                                                           std::unique_ptr<Network> network,
                                                           SpecPtr action, SpecPtr observation,
                                                           std::unique_ptr<QHead> head) {
  if (head == nullptr) head = std::make_unique<ValueHead>();
  if (observation == nullptr) observation = network->input_spec();
  DING_ASSIGN_OR_RETURN(const int64_t num_actions, CountActions(*action, algorithm));
  DING_ASSIGN_OR_RETURN(const std::optional<int> mask_field, FindActionMask(*observation, *action));
  DING_RETURN_IF_ERROR(CheckSameLayout(*WithoutActionMask(observation), *network->input_spec(),
                                       absl::StrCat(algorithm, ": the network's inputs")));
  DING_RETURN_IF_ERROR(CheckOutputs(*network, head->OutputShape(num_actions), algorithm));
  auto q_network = absl::WrapUnique(new QNetwork(algorithm, std::move(network), std::move(head),
                                                 std::move(observation), std::move(action),
                                                 num_actions, mask_field));
  DING_RETURN_IF_ERROR(q_network->inputs_.Resolve(*q_network->observation_));
  return q_network;
}

QNetwork::QNetwork(absl::string_view algorithm, std::unique_ptr<Network> network,
                   std::unique_ptr<QHead> head, SpecPtr observation, SpecPtr action,
                   int64_t num_actions, std::optional<int> mask_field)
    : algorithm_(algorithm),
      network_(std::move(network)),
      head_(std::move(head)),
      observation_(std::move(observation)),
      action_(std::move(action)),
      num_actions_(num_actions),
      mask_field_(mask_field),
      inputs_(network_->input_spec(), "", "observations") {}

ColumnsView QNetwork::Inputs(const ColumnsView& obs) {
  return mask_field_.has_value() ? inputs_.Bind(obs) : obs;
}

absl::Span<const uint8_t> QNetwork::MaskOf(const ColumnsView& obs) const {
  return ActionMaskOf(obs, mask_field_);
}

absl::Status QNetwork::CheckCanBootstrap(absl::Span<const uint8_t> next_mask,
                                         absl::Span<const float> discount) const {
  for (int64_t row = 0; !next_mask.empty() && row < static_cast<int64_t>(discount.size()); ++row) {
    if (discount[static_cast<size_t>(row)] == 0) continue;
    if (CountLegal(OfRow(next_mask, row)) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("training batch: the action mask of next_obs, row ", row,
                     ", has no legal action, but the episode continues: collectors store a "
                     "truncated episode that ends so as terminated, expected the same of other "
                     "sources of rows"));
  }
  return absl::OkStatus();
}

absl::Status QNetwork::LoadModel(StateReader* reader) {
  return LoadParameters(network_->parameter_info(), kModelScope, reader, network_->parameters());
}

}  // namespace ding
