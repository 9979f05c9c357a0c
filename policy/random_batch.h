// Random observations and training data for tests and benchmarks of policies.
//
// Equal arguments give equal bytes. Fields may be float32 boxes, which get values in [-1, 1), pictures
// of bytes, discrete fields and action masks; the actions are legal.
#ifndef DING_WORKER_POLICY_RANDOM_BATCH_H_
#define DING_WORKER_POLICY_RANDOM_BATCH_H_

#include <cstdint>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"

namespace ding {

Batch MakeObservationBatch(const SpecPtr& observation, int64_t rows, uint64_t seed);

// Returns transitions with the columns of data/sample_columns.h that all buffers have. One in five is
// terminated.
Batch MakeTransitionBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                          uint64_t seed);

// Returns training data for on-policy policies: observations, "action" (and "raw_action" if it is
// continuous), "log_prob", "value", "adv" and "return".
Batch MakeOnPolicyBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                        uint64_t seed);

}  // namespace ding

#endif  // DING_WORKER_POLICY_RANDOM_BATCH_H_
