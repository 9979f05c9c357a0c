#include "ding_worker/policy/continuous/continuous_actor.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/network.h"

namespace ding {
namespace {

constexpr float kLogTwo = 0.69314718f;
constexpr double kHalfLogTwoPi = 0.9189385332046727;

// Returns the parameters of a network with the names that they have in a model.
std::vector<ParameterInfo> NamesInModel(absl::Span<const ParameterInfo> parameters) {
  std::vector<ParameterInfo> named(parameters.begin(), parameters.end());
  for (ParameterInfo& info : named) info.name = absl::StrCat("actor/", info.name);
  return named;
}

// tanh(u), from e = exp(-2 |u|).
float TanhFrom(float e, float u) { return std::copysign((1 - e) / (1 + e), u); }

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

absl::Status ContinuousActor::SetStatistics(const RowParts& rows) {
  return normalizer_.has_value() ? normalizer_->Set(rows) : absl::OkStatus();
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

void SquashMean(absl::Span<const float> mean, absl::Span<float> action) {
  DING_CHECK(mean.size() == action.size()) << mean.size() << " and " << action.size();
  for (size_t i = 0; i < mean.size(); ++i) {
    action[i] = TanhFrom(std::exp(-2 * std::abs(mean[i])), mean[i]);
  }
}

void SquashMeanBackward(absl::Span<const float> action, absl::Span<const float> d_action,
                        absl::Span<float> d_mean) {
  DING_CHECK(action.size() == d_action.size() && action.size() == d_mean.size())
      << action.size() << ", " << d_action.size() << " and " << d_mean.size();
  for (size_t i = 0; i < action.size(); ++i) {
    d_mean[i] = d_action[i] * (1 - action[i] * action[i]);
  }
}

void SquashedNormal::Sample(absl::Span<const float> mean, absl::Span<const float> log_std,
                            absl::Span<const float> noise, absl::Span<float> action,
                            absl::Span<float> log_prob) {
  const size_t size = mean.size();
  DING_CHECK(log_std.size() == size && noise.size() == size && action.size() == size &&
             (log_prob.empty() || log_prob.size() * width_ == size))
      << size << ", " << log_std.size() << ", " << noise.size() << ", " << action.size() << " and "
      << log_prob.size() << " for rows of " << width_;
  std_.resize(size);
  for (size_t begin = 0; begin < size; begin += width_) {
    double sum = 0;
    for (size_t at = begin; at < begin + width_; ++at) {
      const float bounded = std::clamp(log_std[at], kMinLogStd, kMaxLogStd);
      std_[at] = std::exp(bounded);
      const float u = mean[at] + std_[at] * noise[at];
      const float e = std::exp(-2 * std::abs(u));
      action[at] = TanhFrom(e, u);
      if (log_prob.empty()) continue;
      const float log_slope = 2 * (kLogTwo - std::abs(u) - std::log(1 + e));
      sum -= 0.5 * noise[at] * noise[at] + bounded + kHalfLogTwoPi + log_slope;
    }
    if (!log_prob.empty()) log_prob[begin / width_] = static_cast<float>(sum);
  }
  log_std_ = log_std;
  noise_ = noise;
  action_ = action;
}

void SquashedNormal::Backward(absl::Span<const float> d_action, absl::Span<const float> d_log_prob,
                              absl::Span<float> d_mean, absl::Span<float> d_log_std) const {
  const size_t size = action_.size();
  DING_CHECK(d_action.size() == size && d_log_prob.size() * width_ == size &&
             d_mean.size() == size && d_log_std.size() == size)
      << d_action.size() << ", " << d_log_prob.size() << ", " << d_mean.size() << " and "
      << d_log_std.size() << " for " << size << " elements in rows of " << width_;
  for (size_t row = 0; row < d_log_prob.size(); ++row) {
    for (size_t at = row * width_; at < (row + 1) * width_; ++at) {
      const float a = action_[at];
      const float d_u = d_action[at] * (1 - a * a) + 2 * d_log_prob[row] * a;
      d_mean[at] = d_u;
      const bool clipped = log_std_[at] < kMinLogStd || log_std_[at] > kMaxLogStd;
      d_log_std[at] = clipped ? 0 : d_u * std_[at] * noise_[at] - d_log_prob[row];
    }
  }
}

}  // namespace ding
