// Registers the wrappers that change actions: discretize_action, rescale_action and clip_action.
// They have no state. The first two map their actions to the bounds of the env, so they cannot
// stand behind the third, which hides these bounds.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrappers/wrapper_specs.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"

namespace ding {
namespace {

// The finite bounds of each element of the env's action.
struct Bounds {
  std::vector<float> low;
  std::vector<float> high;
};

absl::StatusOr<Bounds> BoundsOf(const EnvSpec& spec) {
  const FieldSpec& action = spec.action->field(0);
  Bounds bounds;
  for (int64_t i = 0; i < action.num_elements(); ++i) {
    if (action.is_discrete() || action.low.empty()) break;
    const size_t at = action.low.size() == 1 ? 0 : static_cast<size_t>(i);
    if (!std::isfinite(action.low[at]) || !std::isfinite(action.high[at])) break;
    bounds.low.push_back(static_cast<float>(action.low[at]));
    bounds.high.push_back(static_cast<float>(action.high[at]));
  }
  if (static_cast<int64_t>(bounds.low.size()) == action.num_elements()) return bounds;
  return absl::InvalidArgumentError(absl::StrCat("the action is ", action.DebugString(),
                                                 ", expected float32 with finite bounds"));
}

class DiscretizeAction : public EnvWrapper {
 public:
  DiscretizeAction(EnvSpec spec, Bounds bounds, int bins)
      : EnvWrapper(std::move(spec), {false, true, false, true}),
        bounds_(std::move(bounds)),
        bins_(bins) {}

  void BeginStep(const RowView& action, const RowRef& inner_action) override {
    const absl::Span<const int64_t> bins = action.field<int64_t>(0);
    const absl::Span<float> values = inner_action.field<float>(0);
    for (size_t i = 0; i < values.size(); ++i) {
      // In double, which the difference of two bounds does not overflow.
      const double part = static_cast<double>(bins[i]) / (bins_ - 1);
      const double value = bounds_.low[i] + part * (double{bounds_.high[i]} - bounds_.low[i]);
      values[i] = std::min(static_cast<float>(value), bounds_.high[i]);  // Rounding may pass it.
    }
  }

 private:
  const Bounds bounds_;
  const int bins_;
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateDiscretize(const EnvWrapperConfig& /*config*/,
                                                             const DiscretizeActionConfig& params,
                                                             const EnvSpec& inner) {
  DING_ASSIGN_OR_RETURN(Bounds bounds, BoundsOf(inner));
  const std::vector<int64_t> counts(bounds.low.size(), params.bins());
  DING_ASSIGN_OR_RETURN(EnvSpec spec,
                        WithAction(inner, counts.size() == 1 ? Discrete("action", params.bins())
                                                             : MultiDiscrete("action", counts)));
  return std::make_unique<DiscretizeAction>(std::move(spec), std::move(bounds), params.bins());
}

// Maps actions of [low, high] to the bounds of the env; without a range, only clips them.
class FitAction : public EnvWrapper {
 public:
  FitAction(EnvSpec spec, const Bounds& bounds, bool rescales, float low, float high)
      : EnvWrapper(std::move(spec), {false, true, !rescales, rescales}), from_(rescales ? low : 0) {
    for (size_t i = 0; i < bounds.low.size(); ++i) {
      // In double, as above.
      const double slope =
          rescales ? (double{bounds.high[i]} - bounds.low[i]) / (double{high} - low) : 1;
      elements_.push_back(
          {rescales ? bounds.low[i] : 0, static_cast<float>(slope), bounds.low[i], bounds.high[i]});
    }
  }

  void BeginStep(const RowView& action, const RowRef& inner_action) override {
    const float* given = action.field<float>(0).data();
    float* value = inner_action.field<float>(0).data();
    for (const Element& element : elements_) {
      const float scaled = element.to + (*given++ - from_) * element.slope;
      *value++ = std::clamp(scaled, element.low, element.high);
    }
  }

 private:
  // An element of an action: `from_` becomes `to`, and its bounds.
  struct Element {
    float to;
    float slope;
    float low;
    float high;
  };

  const float from_;
  std::vector<Element> elements_;
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> Fit(const EnvSpec& inner, bool rescales, double low,
                                                double high) {
  DING_ASSIGN_OR_RETURN(const Bounds bounds, BoundsOf(inner));
  DING_ASSIGN_OR_RETURN(
      EnvSpec spec, WithAction(inner, Box("action", inner.action->field(0).shape, {low}, {high})));
  return std::make_unique<FitAction>(std::move(spec), bounds, rescales, static_cast<float>(low),
                                     static_cast<float>(high));
}

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateRescale(const EnvWrapperConfig& /*config*/,
                                                          const RescaleActionConfig& params,
                                                          const EnvSpec& inner) {
  if (!(params.low() < params.high()) || !std::isfinite(params.high() - params.low())) {
    return absl::InvalidArgumentError(absl::StrCat("params.low is ", params.low(),
                                                   " and params.high is ", params.high(),
                                                   ", expected finite numbers, low below high"));
  }
  return Fit(inner, /*rescales=*/true, params.low(), params.high());
}

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateClip(const EnvWrapperConfig& /*config*/,
                                                       const ClipActionConfig& params,
                                                       const EnvSpec& inner) {
  return Fit(inner, /*rescales=*/false, -params.bound(), params.bound());
}

DING_REGISTER(EnvWrapperRegistry(), "discretize_action", CreateDiscretize,
              "makes `bins` categories of each dimension of the action");
DING_REGISTER(EnvWrapperRegistry(), "rescale_action", CreateRescale,
              "maps actions of [low, high] to the bounds of the env");
DING_REGISTER(EnvWrapperRegistry(), "clip_action", CreateClip,
              "clips actions to the bounds of the env");

}  // namespace
}  // namespace ding
