#include "ding_worker/env/env.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ding {

absl::Status Env::SaveState(StateWriter* /*writer*/) const {
  return absl::UnimplementedError(absl::StrCat(spec().name, " cannot save its state"));
}

absl::Status Env::LoadState(StateReader* /*reader*/) {
  return absl::UnimplementedError(absl::StrCat(spec().name, " cannot load its state"));
}

absl::StatusOr<Image> Env::Render() {
  return absl::UnimplementedError(absl::StrCat(spec().name, " cannot render"));
}

absl::Status ValidateEnvSpec(const EnvSpec& spec) {
  const auto error = [&spec](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("env '", spec.name, "': ", parts...));
  };
  if (spec.observation == nullptr || spec.observation->size() == 0) {
    return error("its spec has no observation fields");
  }
  for (const FieldSpec& field : spec.observation->fields()) {
    if (field.name != "obs" && !absl::StartsWith(field.name, "obs/")) {
      return error("observation field '", field.name, "' must be named 'obs' or 'obs/<name>'");
    }
    if (field.dtype == DType::kFloat64) {
      return error("observation field '", field.name, "' is float64; narrow it to float32");
    }
  }
  if (spec.action == nullptr || spec.action->size() != 1 ||
      spec.action->field(0).name != "action") {
    return error("its spec must have exactly one action field, named 'action'");
  }
  const FieldSpec& action = spec.action->field(0);
  if (!action.is_discrete() && action.dtype != DType::kFloat32) {
    return error("action is ", action.DebugString(), ", expected discrete or float32");
  }
  if (spec.max_episode_steps < 0) {
    return error("max_episode_steps is ", spec.max_episode_steps, ", expected 0 or more");
  }
  return absl::OkStatus();
}

}  // namespace ding
