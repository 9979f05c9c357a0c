#include "ding_worker/policy/discrete_sac/discrete_critic.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/parameter_state.h"
#include "ding_worker/policy/recurrent_network.h"
#include "ding_worker/policy/target_update.h"

namespace ding {

absl::StatusOr<std::unique_ptr<DiscreteCritic>> DiscreteCritic::Create(
    absl::string_view algorithm, std::unique_ptr<Network> network, const SpecPtr& observation,
    const SpecPtr& action, const AdamOptions& options, int number) {
  if (network == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(algorithm, ": the learn mode needs critics"));
  }
  if (AsRecurrent(network.get()) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        algorithm, " learns from single rows, which cannot train the memory of the critic ",
        network->info(), ": use a network without memory"));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> target, network->Clone());
  DING_ASSIGN_OR_RETURN(Adam adam,
                        Adam::Create(options, static_cast<int64_t>(network->parameters().size())));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<QNetwork> q,
                        QNetwork::Create(algorithm, std::move(network), action, observation));
  return absl::WrapUnique(
      new DiscreteCritic(std::move(q), std::move(target), std::move(adam), options, number));
}

DiscreteCritic::DiscreteCritic(std::unique_ptr<QNetwork> q, std::unique_ptr<Network> target,
                               Adam adam, const AdamOptions& options, int number)
    : q_(std::move(q)),
      target_(std::move(target)),
      adam_(std::move(adam)),
      options_(options),
      name_(absl::StrCat("q", number)),
      outputs_(target_->output_spec()),
      d_outputs_(target_->output_spec()) {}

absl::Status DiscreteCritic::InferTarget(const ColumnsView& inputs) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(inputs.rows()));
  values_ = outputs.column<float>(0);
  return target_->Infer(inputs, outputs);
}

absl::Status DiscreteCritic::Forward(const ColumnsView& inputs, absl::Span<const int64_t> action) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(inputs.rows()));
  values_ = outputs.column<float>(0);
  DING_RETURN_IF_ERROR(network().Forward(inputs, outputs));
  taken_.resize(action.size());
  d_taken_.resize(action.size());
  for (size_t i = 0; i < action.size(); ++i) taken_[i] = values_[At(i, action[i])];
  return absl::OkStatus();
}

absl::Status DiscreteCritic::Backward(absl::Span<const int64_t> action) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs,
                        d_outputs_.Rows(static_cast<int64_t>(action.size())));
  const absl::Span<float> d_values = d_outputs.column<float>(0);
  absl::c_fill(d_values, 0.0f);
  for (size_t i = 0; i < action.size(); ++i) d_values[At(i, action[i])] = d_taken_[i];
  return network().Backward(d_outputs);
}

void DiscreteCritic::MoveTarget(double theta, int64_t train_iter) {
  UpdateTarget(TargetUpdate{0, theta}, train_iter, network().parameters(), target_->parameters());
}

absl::Status DiscreteCritic::SaveState(StateWriter* writer) const {
  const Network& network = q_->network();
  DING_RETURN_IF_ERROR(
      SaveParameters(network.parameter_info(), network.parameters(), Scope("critic"), writer));
  DING_RETURN_IF_ERROR(SaveParameters(target_->parameter_info(), target_->parameters(),
                                      Scope("target_critic"), writer));
  return SaveAdam(adam_, Scope("critic_optimizer"), writer);
}

absl::StatusOr<DiscreteCritic::Saved> DiscreteCritic::ReadState(StateReader* reader) {
  const absl::Span<const ParameterInfo> info = network().parameter_info();
  const size_t size = network().parameters().size();
  std::vector<float> parameters(size);
  std::vector<float> target(size);
  DING_RETURN_IF_ERROR(LoadParameters(info, Scope("critic"), reader, absl::MakeSpan(parameters)));
  DING_RETURN_IF_ERROR(
      LoadParameters(info, Scope("target_critic"), reader, absl::MakeSpan(target)));
  DING_ASSIGN_OR_RETURN(
      Adam adam, ReadAdam(options_, static_cast<int64_t>(size), Scope("critic_optimizer"), reader));
  return Saved{std::move(parameters), std::move(target), std::move(adam)};
}

void DiscreteCritic::Apply(const Saved& saved) {
  absl::c_copy(saved.parameters, network().parameters().begin());
  absl::c_copy(saved.target, target_->parameters().begin());
  adam_.CopyFrom(saved.adam);
}

std::string DiscreteCritic::Scope(absl::string_view part) const {
  return absl::StrCat(part, "/", name_);
}

}  // namespace ding
