// Looks for NaN and infinity in columns and parameters, fast enough for every batch.
#ifndef DING_WORKER_POLICY_FINITE_H_
#define DING_WORKER_POLICY_FINITE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ding {

bool AllFinite(absl::Span<const float> values);
// The index of the first value that is not finite; -1 if all are.
int64_t FindNonFinite(absl::Span<const float> values);

}  // namespace ding

#endif  // DING_WORKER_POLICY_FINITE_H_
