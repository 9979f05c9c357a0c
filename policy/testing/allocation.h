// Counts what a policy allocates while sizes repeat: the allocator would take as much time as a
// layer, and fragment memory over billions of calls.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_TESTING_ALLOCATION_H_
#define DING_WORKER_POLICY_TESTING_ALLOCATION_H_

#include "ding_worker/data/batch.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Expects that learning from `batch` and acting on the rows of `obs`, one env each, with setting
// "eps", allocate nothing from the eleventh time on.
void ExpectAllocatesNothingWhileSizesRepeat(Policy* policy, const Batch& batch, const Batch& obs);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_ALLOCATION_H_
