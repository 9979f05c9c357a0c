#include "ding_worker/env/env_adapters.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_host.h"

namespace ding {
namespace {

// The state of a WeightedReward.
constexpr char kReturns[] = "component_returns";
constexpr char kInner[] = "env";

// Narrows a bound as the values are, so that -1.2 equals -1.2f. An observation of an env that was
// within bounds of float64 stays within them after both were narrowed, because rounding keeps the
// order of numbers.
double InPrecisionOf(DType dtype, double bound) {
  return dtype == DType::kFloat32 ? static_cast<double>(static_cast<float>(bound)) : bound;
}

// With more digits where a few make it look like a bound.
std::string TextOf(double value, double low, double high) {
  std::string text = absl::StrCat(value);
  const bool ambiguous = text == absl::StrCat(low) || text == absl::StrCat(high);
  return ambiguous ? absl::StrFormat("%.9g", value) : text;
}

class BoundedEnv : public Env {
 public:
  BoundedEnv(std::unique_ptr<Env> env, OutOfBounds mode)
      : env_(std::move(env)), bounds_(env_->spec(), mode) {}

  const EnvSpec& spec() const override { return env_->spec(); }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    DING_RETURN_IF_ERROR(env_->Reset(start, obs));
    return bounds_.Enforce(/*env_id=*/-1, obs);
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    DING_RETURN_IF_ERROR(env_->Step(action, obs, result));
    return result->abnormal ? absl::OkStatus() : bounds_.Enforce(/*env_id=*/-1, obs);
  }
  absl::Status SaveState(StateWriter* writer) const override { return env_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return env_->LoadState(reader); }
  absl::StatusOr<Image> Render() override { return env_->Render(); }

 private:
  const std::unique_ptr<Env> env_;
  ObservationBounds bounds_;
};

// The spec of the env with one reward: the bounds are those of the weighted sum.
EnvSpec OneReward(const EnvSpec& inner, const std::vector<double>& weights) {
  EnvSpec spec = inner;
  spec.reward_shape.clear();
  spec.reward_low = spec.reward_high = 0;
  for (const double weight : weights) {
    if (weight == 0) continue;  // 0 * infinity would be NaN.
    spec.reward_low += weight * (weight > 0 ? inner.reward_low : inner.reward_high);
    spec.reward_high += weight * (weight > 0 ? inner.reward_high : inner.reward_low);
  }
  return spec;
}

class WeightedReward : public Env {
 public:
  WeightedReward(std::unique_ptr<Env> env, std::vector<double> weights)
      : env_(std::move(env)),
        weights_(std::move(weights)),
        spec_(OneReward(env_->spec(), weights_)),
        returns_(weights_.size(), 0) {}

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    returns_.assign(weights_.size(), 0);
    return env_->Reset(start, obs);
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ClearStepResult(env_->spec(), result);
    DING_RETURN_IF_ERROR(env_->Step(action, obs, result));
    DING_RETURN_IF_ERROR(CheckRewardComponents(env_->spec(), *result));
    double sum = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      sum += weights_[i] * result->reward_components[i];
      returns_[i] += result->reward_components[i];
    }
    result->reward = static_cast<float>(sum);
    result->reward_components.clear();
    if (result->terminated || result->truncated) result->component_returns = returns_;
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    ScopedStateWriter inner(writer, kInner);
    DING_RETURN_IF_ERROR(env_->SaveState(&inner));
    return writer->WriteSpan<double>(kReturns, returns_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_RETURN_IF_ERROR(reader->ReadSpan<double>(kReturns, absl::MakeSpan(returns_)));
    ScopedStateReader inner(reader, kInner);
    return env_->LoadState(&inner);
  }

  absl::StatusOr<Image> Render() override { return env_->Render(); }

 private:
  const std::unique_ptr<Env> env_;
  const std::vector<double> weights_;
  const EnvSpec spec_;
  std::vector<double> returns_;  // of the components, in this episode
};

}  // namespace

ObservationBounds::ObservationBounds(const EnvSpec& spec, OutOfBounds mode)
    : name_(spec.name), mode_(mode) {
  for (int i = 0; i < spec.observation->size(); ++i) {
    const FieldSpec& field = spec.observation->field(i);
    const auto count = static_cast<size_t>(field.num_elements());
    Field bounds;
    bounds.index = i;
    bounds.is_category = field.is_discrete() || field.dtype == DType::kBool;
    if (field.is_discrete()) {
      bounds.low.assign(count, 0);
      for (size_t k = 0; k < count; ++k) {
        bounds.high.push_back(
            static_cast<double>(field.CategoryCount(static_cast<int64_t>(k)) - 1));
      }
    } else if (!field.low.empty()) {
      for (size_t k = 0; k < count; ++k) {
        const size_t bound = field.low.size() == 1 ? 0 : k;
        bounds.low.push_back(InPrecisionOf(field.dtype, field.low[bound]));
        bounds.high.push_back(InPrecisionOf(field.dtype, field.high[bound]));
      }
    } else if (field.dtype == DType::kBool) {
      bounds.low.assign(count, 0);
      bounds.high.assign(count, 1);
    } else {
      continue;
    }
    fields_.push_back(std::move(bounds));
  }
}

template <typename T>
absl::Status ObservationBounds::EnforceField(int env_id, const Field& field, const RowRef& row) {
  const absl::Span<T> values = row.field<T>(field.index);
  const double* const low = field.low.data();
  const double* const high = field.high.data();
  bool within = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    within &= !((value < low[i]) | (value > high[i]));
  }
  if (within) return absl::OkStatus();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!(value < low[i] || value > high[i]) || std::isinf(value)) continue;
    const std::string found =
        absl::StrCat("observation '", row.spec().field(field.index).name, "', element ", i, ", is ",
                     TextOf(value, low[i], high[i]), ", expected a value in [", low[i], ", ",
                     high[i], "] as its space says");
    if (mode_ == OutOfBounds::kClip) {
      Warn(env_id, found, "it is clipped");
      values[i] = static_cast<T>(std::clamp(value, low[i], high[i]));
    } else if (mode_ == OutOfBounds::kWarn && !field.is_category) {
      Warn(env_id, found, "it stays");
    } else {
      return absl::OutOfRangeError(
          absl::StrCat(found, " (env.out_of_bounds: CLIP clips such values)"));
    }
  }
  return absl::OkStatus();
}

void ObservationBounds::Warn(int env_id, const std::string& found, const char* consequence) {
  ++warned_;
  if ((warned_ & (warned_ - 1)) != 0) return;  // The first, second, fourth, eighth, ... time.
  const std::string env = env_id < 0 ? "an env" : absl::StrCat("env ", env_id);
  std::fprintf(stderr, "WARNING: %s (%s): %s; %s (env.out_of_bounds, %lld so far)\n", env.c_str(),
               name_.c_str(), found.c_str(), consequence, static_cast<long long>(warned_));
}

absl::Status ObservationBounds::Enforce(int env_id, const RowRef& row) {
  for (const Field& field : fields_) {
    absl::Status status;
    switch (row.spec().dtype(field.index)) {
      case DType::kBool:
      case DType::kUint8:
        status = EnforceField<uint8_t>(env_id, field, row);
        break;
      case DType::kInt32:
        status = EnforceField<int32_t>(env_id, field, row);
        break;
      case DType::kInt64:
        status = EnforceField<int64_t>(env_id, field, row);
        break;
      case DType::kFloat32:
        status = EnforceField<float>(env_id, field, row);
        break;
      case DType::kFloat64:
        status = EnforceField<double>(env_id, field, row);
        break;
    }
    DING_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

std::unique_ptr<Env> MakeBoundedEnv(std::unique_ptr<Env> env, OutOfBounds mode) {
  return std::make_unique<BoundedEnv>(std::move(env), mode);
}

absl::StatusOr<std::unique_ptr<Env>> MakeWeightedReward(std::unique_ptr<Env> env,
                                                        std::vector<double> weights) {
  const EnvSpec& spec = env->spec();
  DING_RETURN_IF_ERROR(ValidateEnvSpec(spec));
  if (static_cast<int64_t>(weights.size()) != spec.reward_components()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reward_weights are [", absl::StrJoin(weights, ", "), "], but the reward of env '",
        spec.name, "' is float32", ShapeString(spec.reward_shape), ", expected ",
        spec.reward_components() == 0 ? "no weights: it is one number already"
                                      : absl::StrCat(spec.reward_components(), " weights")));
  }
  for (const double weight : weights) {
    if (std::isfinite(weight)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "reward_weights are [", absl::StrJoin(weights, ", "), "], expected finite numbers"));
  }
  return std::make_unique<WeightedReward>(std::move(env), std::move(weights));
}

}  // namespace ding
