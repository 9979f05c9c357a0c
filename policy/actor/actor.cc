#include "ding_worker/policy/actor/actor.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/action_space.h"

namespace ding {
namespace {

double ExplorationOf(const ActorModel& model) {
  const std::optional<Schedule>& schedule = model.description.exploration;
  return schedule.has_value() ? schedule->At(model.env_step) : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Actor>> Actor::Load(const std::string& checkpoint,
                                                   const Options& options) {
  DING_ASSIGN_OR_RETURN(LoadedActor loaded, LoadActorModel(checkpoint));
  return Create(std::move(loaded), options);
}

absl::StatusOr<std::unique_ptr<Actor>> Actor::Create(LoadedActor loaded, const Options& options) {
  const ActorDescription& description = loaded.model.description;
  const auto& distribution = description.distribution;
  if (options.sample && distribution.has_value() && distribution->noisy) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", description.policy,
        "' explores by noise in its parameters, which an actor does not draw: expected "
        "options.sample false, or use ding::SavedPolicy (docs/how_to/use_a_policy.md)"));
  }
  const bool of_values = description.head == kQHead || description.head == kQDistributionHead;
  if (options.sample && of_values && !description.exploration.has_value()) {
    return absl::FailedPreconditionError(
        "the manifest does not say with which probability '" + description.policy +
        "' explores, because a schedule of the run's config "
        "changes its eps: expected options.sample "
        "false, or use ding::SavedPolicy (docs/how_to/use_a_policy.md)");
  }
  auto actor = absl::WrapUnique(new Actor(std::move(loaded), options));
  DING_RETURN_IF_ERROR(actor->inputs_.Resolve(*actor->observation()));
  DING_RETURN_IF_ERROR(actor->WarmUp());
  return actor;
}

absl::Status Actor::WarmUp() {
  DING_ASSIGN_OR_RETURN(const BatchBuilder obs, BatchBuilder::Create(model_.observation, 1));
  for (int field = 0; field < model_.observation->size(); ++field) {
    const int legal = field == model_.mask_field ? 1 : 0;
    std::memset(obs.view().raw_column(field), legal, model_.observation->row_bytes(field));
  }
  const absl::Status acted = Choose(obs.view(), {0}, /*sample=*/false).status();
  Begin();
  return acted;
}

Actor::Actor(LoadedActor loaded, const Options& options)
    : model_(std::move(loaded.model)),
      head_(std::move(loaded.head)),
      sample_(options.sample),
      exploration_(ExplorationOf(model_)),
      // The stream of the collect mode of a policy that acts (worker/saved_policy/saved_policy.h).
      rng_(Rng::DeriveSeed(options.seed, "actor"), "policy/collect"),
      network_(model_),
      inputs_(model_.inputs, "", "observations"),
      normalized_scratch_(model_.inputs),
      output_scratch_(model_.outputs),
      action_scratch_(model_.action) {
  if (model_.cell.has_value()) states_.emplace(model_.state_size());
}

void Actor::Begin(absl::Span<const int> ids) {
  if (states_.has_value()) states_->Reset(ids);
}

absl::Span<const float> Actor::States(absl::Span<const int> ids) {
  if (!states_.has_value()) return {};
  return states_->Gather(ids);
}

absl::Status Actor::SetStates(absl::Span<const int> ids, absl::Span<const float> states) {
  const auto expected = ids.size() * static_cast<size_t>(model_.state_size());
  if (states.size() != expected || !AllFinite(states)) {
    return absl::InvalidArgumentError(
        absl::StrCat("SetStates(): found ", states.size(), " floats, expected ", expected,
                     " finite ones: ", model_.state_size(), " for each of ", ids.size(), " ids"));
  }
  if (expected == 0) return absl::OkStatus();
  DING_RETURN_IF_ERROR(
      Annotate(RecurrentStates::CheckIds(ids, static_cast<int64_t>(ids.size())), "SetStates()"));
  const absl::Span<float> gathered = states_->Gather(ids);
  std::copy(states.begin(), states.end(), gathered.begin());
  states_->Scatter(ids);
  return absl::OkStatus();
}

absl::Status Actor::Check(const ColumnsView& obs, absl::Span<const int>* ids) {
  // The layout of observation() itself needs no comparison of names.
  if (&obs.spec() != model_.observation.get()) {
    DING_RETURN_IF_ERROR(CheckSameLayout(*model_.observation, obs.spec(), "observation"));
  }
  if (ids->empty()) {
    for (int64_t i = static_cast<int64_t>(row_numbers_.size()); i < obs.rows(); ++i) {
      row_numbers_.push_back(static_cast<int>(i));
    }
    *ids = absl::MakeConstSpan(row_numbers_).first(static_cast<size_t>(obs.rows()));
  }
  if (static_cast<int64_t>(ids->size()) != obs.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Act(): ", ids->size(), " ids for ", obs.rows(), " rows of observations"));
  }
  const auto negative = std::find_if(ids->begin(), ids->end(), [](int id) { return id < 0; });
  if (negative != ids->end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Act(): id ", *negative, ", expected at least 0"));
  }
  if (!states_.has_value()) return absl::OkStatus();
  return Annotate(RecurrentStates::CheckIds(*ids, obs.rows()), "Act()");
}

absl::StatusOr<ColumnsView> Actor::Normalized(const ColumnsView& inputs) {
  if (model_.normalizers.empty()) return inputs;
  DING_ASSIGN_OR_RETURN(const MutableColumnsView normalized,
                        normalized_scratch_.Rows(inputs.rows()));
  for (size_t i = 0; i < model_.normalizers.size(); ++i) {
    const int field = static_cast<int>(i);
    model_.normalizers[i].Normalize(inputs.column<float>(field), normalized.column<float>(field));
  }
  return ColumnsView(normalized);
}

absl::StatusOr<ColumnsView> Actor::Act(const ColumnsView& obs, absl::Span<const int> ids) {
  DING_RETURN_IF_ERROR(Check(obs, &ids));
  return Choose(obs, ids, sample_);
}

absl::StatusOr<ColumnsView> Actor::Choose(const ColumnsView& obs, absl::Span<const int> ids,
                                          bool sample) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView action, action_scratch_.Rows(obs.rows()));
  if (obs.rows() == 0) return ColumnsView(action);
  DING_ASSIGN_OR_RETURN(const ColumnsView inputs, Normalized(inputs_.Bind(obs)));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, output_scratch_.Rows(obs.rows()));
  absl::Span<float> states;
  if (states_.has_value()) states = states_->Gather(ids);
  network_.Run(inputs, states.data(), outputs);
  outputs_ = outputs;
  const absl::Span<const uint8_t> mask = ActionMaskOf(obs, model_.mask_field);
  DING_RETURN_IF_ERROR(sample ? head_->Sample(outputs, mask, exploration_, &rng_, action)
                              : head_->Best(outputs, mask, action));
  if (!AllFinite(states)) {
    return absl::InternalError("a recurrent state after the observations is not finite");
  }
  if (states_.has_value()) states_->Scatter(ids);
  return ColumnsView(action);
}

}  // namespace ding
