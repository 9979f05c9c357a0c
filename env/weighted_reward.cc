#include "ding_worker/env/weighted_reward.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_host.h"

namespace ding {
namespace {

constexpr char kReturns[] = "component_returns";
constexpr char kInner[] = "env";

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
