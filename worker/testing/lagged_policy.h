// A policy whose collect mode acts by older parameters, as collectors in other processes do. It
// shows, in a serial and reproducible run, what the age of data costs an algorithm.
//
//     learn mode    version 0 ──► 1 ──► ... ──► n        a version per call of Forward()
//     collect mode  acts by version max(0, n - lag)
//     eval mode     acts by version n
//
// Versions are not saved: a run that is resumed begins with all of them equal to its model.
//
// Ownership: the policy owns its parts.
// Threads: as for Policy.
#ifndef DING_WORKER_WORKER_TESTING_LAGGED_POLICY_H_
#define DING_WORKER_WORKER_TESTING_LAGGED_POLICY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {

// Creates the policy of `config` twice, one to learn and one to act. With `lag` 0 it acts exactly
// as the policy alone. Returns the errors of create_policy(); also kInvalidArgument if `lag` is
// negative, if the context lacks the learn mode or the collect mode, or if the policy learns from
// data of its current parameters only.
absl::StatusOr<std::unique_ptr<Policy>> CreateLaggedPolicy(const PolicyConfig& config,
                                                           const PolicyContext& context,
                                                           int64_t lag);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_LAGGED_POLICY_H_
