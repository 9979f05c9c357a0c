// Random observations and training data for tests and benchmarks of policies.
//
// The same arguments give the same bytes. Fields may be float32 boxes, filled with values in
// [-1, 1), pictures of bytes, discrete ones, and action masks; actions taken are legal.
#ifndef DING_WORKER_POLICY_RANDOM_BATCH_H_
#define DING_WORKER_POLICY_RANDOM_BATCH_H_

#include <cstdint>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"

namespace ding {

Batch MakeObservationBatch(const SpecPtr& observation, int64_t rows, uint64_t seed);

// Transitions in the columns of data/sample_columns.h that every buffer gives; one in five
// terminated.
Batch MakeTransitionBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                          uint64_t seed);

// What on-policy policies learn from: "action" (and "raw_action" if it is continuous), "log_prob",
// "value", "adv" and "return" beside the observations.
Batch MakeOnPolicyBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                        uint64_t seed);

}  // namespace ding

#endif  // DING_WORKER_POLICY_RANDOM_BATCH_H_
