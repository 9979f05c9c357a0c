// A digest of what a model is made of: the names, types and shapes of its parameters, and not their values. It is equal in
// all learners of a group.
//
// Threads: thread-safe, where the policy is.
#ifndef DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_
#define DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// An error is that of LearnMode::SaveModel().
absl::StatusOr<std::string> ModelDigest(const LearnMode& policy);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_
