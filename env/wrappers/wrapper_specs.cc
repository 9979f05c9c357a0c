#include "ding_worker/env/wrappers/wrapper_specs.h"

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

std::string FieldNames(const Spec& spec) {
  std::string names;
  for (const FieldSpec& field : spec.fields()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", field.name);
  }
  return names;
}

}  // namespace

absl::StatusOr<int> FindObsField(const EnvSpec& spec, const std::string& name) {
  const Spec& observation = *spec.observation;
  if (!name.empty()) return observation.IndexOf(name, "the observation");
  int found = -1;
  for (int i = 0; i < observation.size(); ++i) {
    if (observation.field(i).name == kActionMaskField) continue;
    if (found >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("params.field is not set, expected one of ",
                                                     FieldNames(observation),
                                                     ": the observation has several fields"));
    }
    found = i;
  }
  return found;
}

absl::StatusOr<EnvSpec> WithObsField(const EnvSpec& spec, int index, FieldSpec field) {
  std::vector<FieldSpec> fields(spec.observation->fields().begin(),
                                spec.observation->fields().end());
  fields[static_cast<size_t>(index)] = std::move(field);
  EnvSpec changed = spec;
  DING_ASSIGN_OR_RETURN(changed.observation, MakeSpec(std::move(fields)));
  return changed;
}

absl::StatusOr<EnvSpec> WithAction(const EnvSpec& spec, FieldSpec action) {
  EnvSpec changed = spec;
  DING_ASSIGN_OR_RETURN(changed.action, MakeSpec({std::move(action)}));
  return changed;
}

absl::Status CheckCategory(const EnvSpec& spec, int64_t action) {
  const FieldSpec& field = spec.action->field(0);
  if (!field.is_discrete() || field.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the action is ", field.DebugString(), ", expected one discrete action"));
  }
  if (action >= 0 && action < field.num_categories) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("params.action is ", action, ", expected 0 to ", field.num_categories - 1));
}

absl::Status CheckOneReward(const EnvSpec& spec) {
  if (spec.reward_shape.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the reward has ", spec.reward_components(),
                   " components, expected one number: set env.reward_weights"));
}

void CopyOtherFields(const RowView& from, int index, const RowRef& to) {
  for (int i = 0; i < from.spec().size(); ++i) {
    if (i == index) continue;
    std::memcpy(to.raw_field(i), from.raw_field(i), static_cast<size_t>(from.spec().row_bytes(i)));
  }
}

}  // namespace ding
