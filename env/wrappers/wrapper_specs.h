// Helpers of wrappers: they find fields and change specs.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ENV_WRAPPERS_WRAPPER_SPECS_H_
#define DING_WORKER_ENV_WRAPPERS_WRAPPER_SPECS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"

namespace ding {

// Returns the index of the observation field `name`. If `name` is empty, returns the index of the
// only field besides the action mask. kNotFound and kInvalidArgument list the existing fields.
absl::StatusOr<int> FindObsField(const EnvSpec& spec, const std::string& name);
// Returns the spec with another field in the place of observation field `index`.
absl::StatusOr<EnvSpec> WithObsField(const EnvSpec& spec, int index, FieldSpec field);
// Returns the spec with another action.
absl::StatusOr<EnvSpec> WithAction(const EnvSpec& spec, FieldSpec action);
// kInvalidArgument, naming field and value, unless `action` is a category of the env's one discrete
// action.
absl::Status CheckCategory(const EnvSpec& spec, int64_t action);
// kInvalidArgument if the reward has components.
absl::Status CheckOneReward(const EnvSpec& spec);

// Copies all observation fields except field `index`. Their layouts must be the same in both rows.
void CopyOtherFields(const RowView& from, int index, const RowRef& to);

}  // namespace ding

#endif  // DING_WORKER_ENV_WRAPPERS_WRAPPER_SPECS_H_
