#include "ding_worker/learner/stopper_registry.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/stopper_types.h"

namespace ding {
namespace {

absl::Status CheckHasEvaluations(const StopperDeps& deps) {
  if (deps.has_evaluations) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "it judges evaluations, but this run has none, so that it could never stop: expected an "
      "env.type in which "
      "the policy is evaluated, or policy.eval.metric_evaluator.stop_value in its place");
}

absl::StatusOr<std::unique_ptr<IStopper>> MakeNoImprovement(const StopperConfig& config,
                                                            const StopperDeps& deps) {
  NoImprovementParams params;
  DING_RETURN_IF_ERROR(ReadParams(config, &params));
  DING_RETURN_IF_ERROR(CheckHasEvaluations(deps));
  if (params.evaluations() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluations is ", params.evaluations(), ", expected at least 1"));
  }
  if (!(params.min_delta() >= 0) || std::isinf(params.min_delta())) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_delta is ", params.min_delta(), ", expected a number of at least 0"));
  }
  // The first evaluation is the one that the next ones are compared with.
  if (params.evaluations() >= deps.max_evaluations) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluations is ", params.evaluations(),
        ", so that it could never stop: expected less than ", deps.max_evaluations,
        ", as many as the run's budget (max_train_iter, max_env_step, max_seconds) allows"));
  }
  return std::make_unique<NoImprovementStopper>(params.evaluations(), params.min_delta());
}

absl::StatusOr<std::unique_ptr<IStopper>> MakeValueReached(const StopperConfig& config,
                                                           const StopperDeps& deps) {
  ValueReachedParams params;
  DING_RETURN_IF_ERROR(ReadParams(config, &params));
  DING_RETURN_IF_ERROR(CheckHasEvaluations(deps));
  if (!params.has_value() || !std::isfinite(params.value())) {
    return absl::InvalidArgumentError(
        absl::StrCat("value is ", params.has_value() ? absl::StrCat(params.value()) : "not set",
                     ", so that it could never stop: expected a mean return to reach"));
  }
  if (params.value() > deps.max_return) {
    return absl::InvalidArgumentError(absl::StrCat(
        "value is ", params.value(), ", so that it could never stop: expected at most ",
        deps.max_return, ", which is the highest return that the env allows"));
  }
  return std::make_unique<ValueReachedStopper>(params.value());
}

absl::StatusOr<std::unique_ptr<IStopper>> MakeWallClock(const StopperConfig& config,
                                                        const StopperDeps& deps) {
  WallClockParams params;
  DING_RETURN_IF_ERROR(ReadParams(config, &params));
  if (!(params.seconds() > 0) || std::isinf(params.seconds())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "seconds is ", params.has_seconds() ? absl::StrCat(params.seconds()) : "not set",
        ", expected a number above 0"));
  }
  const absl::Duration limit = absl::Seconds(params.seconds());
  if (limit >= deps.max_time) {
    return absl::InvalidArgumentError(
        absl::StrCat("seconds is ", params.seconds(),
                     ", so that it could never stop: expected less than system.max_seconds, ",
                     absl::ToDoubleSeconds(deps.max_time)));
  }
  return std::make_unique<WallClockStopper>(limit);
}

}  // namespace

Registry<StopperCreator>& StopperRegistry() {
  static auto* const registry = [] {
    auto* made = new Registry<StopperCreator>("stopper");
    made->Register("no_improvement", MakeNoImprovement,
                   {"ends the run when so many evaluations in a row were not better",
                    &NoImprovementParams::descriptor},
                   __FILE__);
    made->Register("value_reached", MakeValueReached,
                   {"ends the run when the mean return of an evaluation reaches a value",
                    &ValueReachedParams::descriptor},
                   __FILE__);
    made->Register("wall_clock", MakeWallClock,
                   {"ends the run when it has taken so many seconds", &WallClockParams::descriptor},
                   __FILE__);
    return made;
  }();
  return *registry;
}

// EntriesOfKind() finds the built-in types, too, before anybody has asked for one.
[[maybe_unused]] static const bool kListed = (StopperRegistry(), true);

absl::StatusOr<std::unique_ptr<IStopper>> create_stopper(const StopperConfig& config,
                                                         const StopperDeps& deps) {
  DING_ASSIGN_OR_RETURN(const StopperCreator create, StopperRegistry().Find(config.type()));
  return CallFactory("stopper", config.type(), [&] { return create(config, deps); });
}

}  // namespace ding
