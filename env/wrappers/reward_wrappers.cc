// Registers the wrappers that change rewards: reward_scale and reward_clip. The return of an
// episode stays that of the env ("eval_episode_return"); its sum so far is saved.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrappers/wrapper_specs.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"

namespace ding {
namespace {

// `Change` maps a reward to another one, both double.
template <typename Change>
class ChangedReward : public EnvWrapper {
 public:
  ChangedReward(EnvSpec spec, const Change& change)
      : EnvWrapper(std::move(spec), {}), change_(change) {}

  absl::StatusOr<Ask> AfterReset(const RowView&, const RowRef&, const RowRef&) override {
    return_ = 0;
    return Ask::kNothing;
  }
  absl::StatusOr<Ask> AfterStep(const RowView&, const RowRef&, const RowRef&,
                                StepResult* result) override {
    return_ += result->reward;
    result->reward = static_cast<float>(change_(result->reward));
    const bool over = result->terminated || result->truncated;
    if (over && !result->info.Get(kEpisodeReturn).has_value()) {
      result->info.Set(kEpisodeReturn, return_);
    }
    return Ask::kNothing;
  }
  absl::Status SaveState(StateWriter* writer) const override {
    return writer->WriteDouble("return", return_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(return_, reader->ReadDouble("return"));
    return absl::OkStatus();
  }

 private:
  const Change change_;
  double return_ = 0;
};

template <typename Change>
absl::StatusOr<std::unique_ptr<EnvWrapper>> Create(const EnvSpec& inner, const Change& change) {
  DING_RETURN_IF_ERROR(CheckOneReward(inner));
  EnvSpec spec = inner;
  const double a = change(inner.reward_low);
  const double b = change(inner.reward_high);
  spec.reward_low = std::min(a, b);
  spec.reward_high = std::max(a, b);
  return std::make_unique<ChangedReward<Change>>(std::move(spec), change);
}

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateScale(const EnvWrapperConfig& /*config*/,
                                                        const RewardScaleConfig& params,
                                                        const EnvSpec& inner) {
  const double scale = params.scale();
  if (!std::isfinite(scale) || scale == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("params.scale is ", scale, ", expected a finite number other than 0"));
  }
  return Create(inner, [scale](double reward) { return scale * reward; });
}

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateClip(const EnvWrapperConfig& /*config*/,
                                                       const RewardClipConfig& params,
                                                       const EnvSpec& inner) {
  const double low = params.low();
  const double high = params.high();
  if (!(low < high)) {
    return absl::InvalidArgumentError(absl::StrCat("params.low is ", low, " and params.high is ",
                                                   high, ", expected low below high"));
  }
  return Create(inner, [low, high](double reward) { return std::clamp(reward, low, high); });
}

DING_REGISTER(EnvWrapperRegistry(), "reward_scale", CreateScale, "multiplies rewards by `scale`");
DING_REGISTER(EnvWrapperRegistry(), "reward_clip", CreateClip, "clips rewards to [low, high]");

}  // namespace
}  // namespace ding
