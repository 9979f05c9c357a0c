// Saves and loads the parameters of a network as named tensors: "model/encoder/0/weight", ...
//
// Loading is strict: below the scope there must be every parameter with its shape, finite, and
// nothing else. All is read and checked before the first parameter is changed.
#ifndef DING_WORKER_POLICY_PARAMETER_STATE_H_
#define DING_WORKER_POLICY_PARAMETER_STATE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/network.h"

namespace ding {

// The scope of a policy's model in a state.
inline constexpr char kModelScope[] = "model";

// Writes `values`, laid out as `info` says, as tensors "<scope>/<name>".
absl::Status SaveParameters(absl::Span<const ParameterInfo> info, absl::Span<const float> values,
                            absl::string_view scope, StateWriter* writer);

// Reads what SaveParameters() wrote into `values`.
//   kInvalidArgument  a parameter is missing, has another dtype or shape or is not finite, or there
//                     is one too many: lists all of them. `values` is as before.
absl::Status LoadParameters(absl::Span<const ParameterInfo> info, absl::string_view scope,
                            StateReader* reader, absl::Span<float> values);

// LoadParameters() of a policy without parameters: kInvalidArgument if there are any.
absl::Status LoadEmptyModel(StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_POLICY_PARAMETER_STATE_H_
