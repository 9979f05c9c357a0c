// Saves and loads the parameters of a network as named tensors: "model/encoder/0/weight", ...
//
// Loading is strict: the scope must have every parameter with its shape and finite values, and nothing
// else. All tensors are read and checked before the first parameter is changed.
#ifndef DING_WORKER_POLICY_PARAMETER_STATE_H_
#define DING_WORKER_POLICY_PARAMETER_STATE_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/network.h"

namespace ding {

// The scope of a policy's model in a state.
inline constexpr char kModelScope[] = "model";

// Writes `values`, with the layout `info`, as tensors "<scope>/<name>".
absl::Status SaveParameters(absl::Span<const ParameterInfo> info, absl::Span<const float> values,
                            absl::string_view scope, StateWriter* writer);

// Reads the tensors of SaveParameters() into `values`. The scope may also have the names `others`, which something else
// reads.
//   kInvalidArgument  lists all parameters that are missing, unknown or not finite, or have another
//                     dtype or shape; `values` is unchanged
absl::Status LoadParameters(absl::Span<const ParameterInfo> info, absl::string_view scope,
                            StateReader* reader, absl::Span<float> values,
                            const std::set<std::string>& others = {});

// Loads the model of a policy without parameters: kInvalidArgument if it has any.
absl::Status LoadEmptyModel(StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_POLICY_PARAMETER_STATE_H_
