// The choice of the best category.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_POLICY_ARGMAX_H_
#define DING_WORKER_POLICY_ARGMAX_H_

#include <cstdint>

#include "absl/types/span.h"

namespace ding {

// Returns the index of the largest legal value of `values` [A >= 1], the lowest index among equals; -1 if none
// is legal. `mask` has one element per value, 0 if it is illegal (policy/action_mask.h); empty: all are legal.
int64_t Argmax(absl::Span<const float> values, absl::Span<const uint8_t> mask = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_ARGMAX_H_
