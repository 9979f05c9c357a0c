// Small observation and action spaces for tests of policies.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TESTING_SPECS_H_
#define DING_WORKER_POLICY_TESTING_SPECS_H_

#include <cstdint>

#include "ding_worker/data/spec.h"

namespace ding {

// "obs" float32[width].
SpecPtr VectorObservation(int64_t width = 4);

// "obs/action_mask" bool[categories].
FieldSpec ActionMaskSpec(int64_t categories);

// ActionMaskSpec(categories) and "obs/x" float32[width].
SpecPtr MaskedObservation(int64_t categories, int64_t width = 4);

// "action", one of `categories`.
SpecPtr DiscreteAction(int64_t categories = 3);

// "action" float32[2], from (-2, -1) to (2, 3): bounds that are not symmetric show a wrong scale or shift.
SpecPtr BoxAction();

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_SPECS_H_
