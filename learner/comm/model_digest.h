// A digest of the structure of a model: the names, types and shapes of its parameters, but not their values. All learners
// of a group must have the same.
//
// Threads: thread-safe, where the policy is.
#ifndef DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_
#define DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Returns the errors of LearnMode::SaveModel().
absl::StatusOr<std::string> ModelDigest(const LearnMode& policy);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_
