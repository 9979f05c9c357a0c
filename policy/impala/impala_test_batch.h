// Random training data for tests of IMPALA.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_IMPALA_IMPALA_TEST_BATCH_H_
#define DING_WORKER_POLICY_IMPALA_IMPALA_TEST_BATCH_H_

#include <cstdint>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"

namespace ding {

// Returns `rows` rows as sequences of `length`: those of MakeTransitionBatch(), with "raw_action" if the
// action is continuous, "log_prob", "mask", "burn_in" and "is_first". Of every second sequence some rows at
// its end are padding; episodes begin inside of sequences.
Batch MakeImpalaTestBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                          int64_t length, uint64_t seed);

}  // namespace ding

#endif  // DING_WORKER_POLICY_IMPALA_IMPALA_TEST_BATCH_H_
