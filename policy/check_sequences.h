// Checks the sizes of sequences for implementations of RecurrentNetwork.
#ifndef DING_WORKER_POLICY_CHECK_SEQUENCES_H_
#define DING_WORKER_POLICY_CHECK_SEQUENCES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/policy/recurrent_network.h"

namespace ding {

//   kInvalidArgument  the sizes of `sequences`, or that of `states`, the place for the states after the rows,
//                     do not fit together, or do not fit states of `state_size` floats
absl::Status CheckSequences(const Sequences& sequences, int64_t state_size,
                            absl::Span<const float> states);

}  // namespace ding

#endif  // DING_WORKER_POLICY_CHECK_SEQUENCES_H_
