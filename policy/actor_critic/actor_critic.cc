#include "ding_worker/policy/actor_critic/actor_critic.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/network.h"

namespace ding {
namespace {

absl::Status CheckNetwork(const Network& network, absl::string_view which, const Spec& inputs,
                          std::vector<FieldSpec> outputs) {
  DING_RETURN_IF_ERROR(
      CheckSameLayout(inputs, *network.input_spec(), absl::StrCat(which, "'s inputs")));
  DING_ASSIGN_OR_RETURN(const Spec expected, Spec::Create(std::move(outputs)));
  return CheckSameLayout(expected, *network.output_spec(), absl::StrCat(which, "'s outputs"));
}

// The statistics are not used to normalize.
constexpr double kNoClip = 1e30;

}  // namespace

NetworkPart::NetworkPart(std::unique_ptr<Network> network, int64_t state_begin)
    : network_(std::move(network)),
      recurrent_(AsRecurrent(network_.get())),
      state_begin_(state_begin) {}

absl::Span<const float> NetworkPart::PartOf(absl::Span<const float> states, int64_t rows) {
  if (states.empty()) return {};
  const auto size = static_cast<size_t>(state_size());
  const size_t width = states.size() / static_cast<size_t>(rows);
  DING_CHECK(width * static_cast<size_t>(rows) == states.size() &&
             static_cast<size_t>(state_begin_) + size <= width)
      << "states of " << states.size() << " floats for " << rows << " rows";
  if (size == width) return states;
  part_.resize(static_cast<size_t>(rows) * size);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    std::copy_n(states.data() + row * width + static_cast<size_t>(state_begin_), size,
                part_.data() + row * size);
  }
  return part_;
}

absl::Status NetworkPart::Infer(const ColumnsView& input, absl::Span<float> states,
                                const MutableColumnsView& output) {
  if (recurrent_ == nullptr || states.empty()) return network_->Infer(input, output);
  Sequences steps;
  steps.rows = input;
  steps.state = PartOf(states, input.rows());
  if (steps.state.data() == states.data()) {
    return recurrent_->InferSequences(steps, output, states);
  }
  DING_RETURN_IF_ERROR(recurrent_->InferSequences(steps, output, absl::MakeSpan(part_)));
  const auto size = static_cast<size_t>(state_size());
  const size_t width = states.size() / static_cast<size_t>(input.rows());
  for (size_t row = 0; row < static_cast<size_t>(input.rows()); ++row) {
    std::copy_n(part_.data() + row * size, size,
                states.data() + row * width + static_cast<size_t>(state_begin_));
  }
  return absl::OkStatus();
}

absl::Status NetworkPart::Forward(const ColumnsView& input, int64_t length,
                                  absl::Span<const float> states,
                                  const MutableColumnsView& output) {
  if (recurrent_ == nullptr) return network_->Forward(input, output);
  Sequences sequences;
  sequences.rows = input;
  sequences.length = length;
  sequences.state = PartOf(states, input.rows() / length);
  return recurrent_->ForwardSequences(sequences, output, {});
}

FieldSpec ActorCritic::ValueField() { return Box(kColumnValue, {}); }

std::string ActorCritic::ParametersOf(bool shared) {
  return absl::StrCat(kModelScope, "/", ActorName(shared));
}

std::string ActorCritic::ReturnStatisticsScope() {
  return absl::StrCat(kModelScope, "/return_statistics");
}

absl::StatusOr<std::unique_ptr<ActorCritic>> ActorCritic::Create(
    std::unique_ptr<Network> actor, std::unique_ptr<Network> critic, SpecPtr observation,
    SpecPtr action, const ActorCriticOptions& options) {
  DING_ASSIGN_OR_RETURN(const std::optional<int> mask_field, FindActionMask(*observation, *action));
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<ActionDistribution> distribution,
      ActionDistribution::Create(*action, options.initial_log_std, options.squash_actions));
  const SpecPtr inputs = WithoutActionMask(observation);
  std::vector<FieldSpec> actor_outputs = {distribution->head()};
  if (critic == nullptr && options.has_value) {
    actor_outputs.push_back(ValueField());
  } else if (critic != nullptr) {
    DING_RETURN_IF_ERROR(CheckNetwork(*critic, "critic", *inputs, {ValueField()}));
  }
  DING_RETURN_IF_ERROR(CheckNetwork(*actor, "actor", *inputs, std::move(actor_outputs)));
  std::optional<ObservationNormalizer> normalizer;
  if (options.normalize_obs) {
    DING_ASSIGN_OR_RETURN(normalizer, ObservationNormalizer::Create(inputs, options.obs_clip));
  }
  auto made = absl::WrapUnique(new ActorCritic(std::move(actor), std::move(critic),
                                               std::move(observation), std::move(action),
                                               std::move(normalizer), options.has_value));
  made->distribution_ = std::move(distribution);
  made->mask_field_ = mask_field;
  DING_RETURN_IF_ERROR(made->inputs_.Resolve(*made->observation_));
  return made;
}

ActorCritic::ActorCritic(std::unique_ptr<Network> actor, std::unique_ptr<Network> critic,
                         SpecPtr observation, SpecPtr action,
                         std::optional<ObservationNormalizer> normalizer, bool has_value)
    : observation_(std::move(observation)),
      action_(std::move(action)),
      actor_(std::move(actor), 0),
      critic_(std::move(critic), actor_.state_size()),
      has_value_(has_value),
      inputs_(WithoutActionMask(observation_), "", "observations"),
      normalizer_(std::move(normalizer)),
      return_statistics_(1, kNoClip),
      normalized_scratch_(inputs_.spec()),
      actor_scratch_(actor_.network()->output_spec()),
      critic_scratch_(critic_.network() == nullptr ? nullptr : critic_.network()->output_spec()),
      d_actor_scratch_(actor_.network()->output_spec()),
      d_critic_scratch_(critic_.network() == nullptr ? nullptr : critic_.network()->output_spec()) {
}

absl::StatusOr<ColumnsView> ActorCritic::Inputs(const ColumnsView& obs) {
  DING_RETURN_IF_ERROR(CheckFirstFields(*observation_, obs.spec(), "observations"));
  const ColumnsView inputs = inputs_.Bind(obs);
  if (!normalizes()) return inputs;
  return normalizer_->Normalize(inputs, &normalized_scratch_);
}

absl::Status ActorCritic::Act(const ColumnsView& obs, absl::Span<float> value,
                              absl::Span<float> states) {
  DING_ASSIGN_OR_RETURN(const ColumnsView inputs, Inputs(obs));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, actor_scratch_.Rows(obs.rows()));
  DING_RETURN_IF_ERROR(actor_.Infer(inputs, states, outputs));
  head_ = outputs.column<float>(0);
  DING_RETURN_IF_ERROR(distribution_->Set(head_, ActionMaskOf(obs, mask_field_)));
  if (value.empty()) return absl::OkStatus();
  absl::Span<const float> values;
  if (critic() == nullptr) {
    values = outputs.column<float>(1);
  } else {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView critic, critic_scratch_.Rows(obs.rows()));
    DING_RETURN_IF_ERROR(critic_.Infer(inputs, states, critic));
    values = critic.column<float>(0);
  }
  const int64_t bad = FindNonFinite(values);
  if (bad >= 0) {
    return absl::InternalError(
        absl::StrCat("the value of observation ", bad, " is ", values[static_cast<size_t>(bad)]));
  }
  std::copy(values.begin(), values.end(), value.begin());
  return absl::OkStatus();
}

absl::Status ActorCritic::Values(const ColumnsView& obs, absl::Span<float> value,
                                 absl::Span<float> states) {
  DING_ASSIGN_OR_RETURN(const ColumnsView inputs, Inputs(obs));
  NetworkPart& network = critic() == nullptr ? actor_ : critic_;
  ScratchColumns& scratch = critic() == nullptr ? actor_scratch_ : critic_scratch_;
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, scratch.Rows(obs.rows()));
  DING_RETURN_IF_ERROR(network.Infer(inputs, states, outputs));
  const absl::Span<const float> values = outputs.column<float>(critic() == nullptr ? 1 : 0);
  std::copy(values.begin(), values.end(), value.begin());
  return absl::OkStatus();
}

void ActorCritic::NormalizeInputs(const MutableColumnsView& rows) {
  if (normalizes()) normalizer_->NormalizeInPlace(rows);
}

void ActorCritic::UpdateStatistics(const ColumnsView& obs) {
  if (normalizes()) normalizer_->Update(inputs_.Bind(obs));
}

absl::Status ActorCritic::UpdateInputStatistics(const ColumnsView& inputs, GroupSum sum) {
  return normalizes() ? normalizer_->Update(inputs, sum) : absl::OkStatus();
}

absl::Status ActorCritic::Forward(const ColumnsView& inputs, absl::Span<const uint8_t> mask,
                                  int64_t length, absl::Span<const float> states) {
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, actor_scratch_.Rows(inputs.rows()));
  DING_ASSIGN_OR_RETURN(d_actor_, d_actor_scratch_.Rows(inputs.rows()));
  DING_RETURN_IF_ERROR(actor_.Forward(inputs, length, states, outputs));
  head_ = outputs.column<float>(0);
  if (shared()) {
    value_ = outputs.column<float>(1);
  } else if (critic() != nullptr) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView critic, critic_scratch_.Rows(inputs.rows()));
    DING_ASSIGN_OR_RETURN(d_critic_, d_critic_scratch_.Rows(inputs.rows()));
    DING_RETURN_IF_ERROR(critic_.Forward(inputs, length, states, critic));
    value_ = critic.column<float>(0);
  }
  return distribution_->Set(head_, mask);
}

absl::Status ActorCritic::Backward() {
  DING_RETURN_IF_ERROR(actor_.network()->Backward(d_actor_));
  return critic() == nullptr ? absl::OkStatus() : critic()->Backward(d_critic_);
}

std::vector<ParameterGroup> ActorCritic::Groups() {
  std::vector<ParameterGroup> groups;
  groups.push_back(ding::ParametersOf(actor_name(), actor_.network()));
  if (critic() != nullptr) groups.push_back(ding::ParametersOf("critic", critic()));
  ActionDistribution* const own = distribution_.get();
  if (!own->parameter_info().empty()) {
    groups.push_back({"distribution", own->parameter_info(), own->parameters(), own->gradients()});
  }
  return groups;
}

absl::Status ActorCritic::SaveModel(StateWriter* writer) const {
  // Groups() returns mutable groups, which are only read here.
  for (const ParameterGroup& group : const_cast<ActorCritic*>(this)->Groups()) {
    DING_RETURN_IF_ERROR(SaveParameters(group.info, group.parameters,
                                        absl::StrCat(kModelScope, "/", group.name), writer));
  }
  if (return_statistics_.count() > 0) {
    ScopedStateWriter scoped(writer, ReturnStatisticsScope());
    DING_RETURN_IF_ERROR(return_statistics_.SaveState(&scoped));
  }
  return normalizes() ? normalizer_->SaveState(writer) : absl::OkStatus();
}

absl::Status ActorCritic::CheckNames(StateReader* reader) const {
  StateDict expected;
  DING_RETURN_IF_ERROR(SaveModel(&expected));
  const std::vector<std::string> names = expected.Names();
  const std::set<std::string> known(names.begin(), names.end());
  std::vector<std::string> unknown;
  for (const std::string& name : reader->Names()) {
    if (absl::StartsWith(name, absl::StrCat(ReturnStatisticsScope(), "/"))) continue;
    if (absl::StartsWith(name, absl::StrCat(kModelScope, "/")) && known.count(name) == 0) {
      unknown.push_back(absl::StrCat("'", name, "' is unknown"));
    }
  }
  return ProblemsToStatus(unknown, absl::StrCat("the saved '", kModelScope, "' does not fit"));
}

absl::Status ActorCritic::LoadModel(StateReader* reader) {
  DING_RETURN_IF_ERROR(CheckNames(reader));
  const std::vector<ParameterGroup> groups = Groups();
  std::vector<std::vector<float>> parameters;
  for (const ParameterGroup& group : groups) {
    parameters.emplace_back(group.parameters.begin(), group.parameters.end());
    DING_RETURN_IF_ERROR(LoadParameters(group.info, absl::StrCat(kModelScope, "/", group.name),
                                        reader, absl::MakeSpan(parameters.back())));
  }
  RunningNormalizer returns(1, kNoClip);
  const std::vector<std::string> names = reader->Names();
  const std::string returns_scope = ReturnStatisticsScope();
  if (std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return absl::StartsWith(name, absl::StrCat(returns_scope, "/"));
      })) {
    ScopedStateReader scoped(reader, returns_scope);
    DING_RETURN_IF_ERROR(returns.LoadState(&scoped));
  }
  if (normalizes()) DING_RETURN_IF_ERROR(normalizer_->LoadState(reader));
  return_statistics_ = std::move(returns);
  // From here on nothing fails.
  for (size_t i = 0; i < groups.size(); ++i) {
    std::copy(parameters[i].begin(), parameters[i].end(), groups[i].parameters.begin());
  }
  return absl::OkStatus();
}

std::string ActorCritic::info() const {
  const std::string actor = actor_.network()->info();
  return critic() == nullptr ? actor : absl::StrCat(actor, "; critic ", critic()->info());
}

}  // namespace ding
