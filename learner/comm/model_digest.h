// Digests of a model: of its structure (the names, types and shapes of its parameters), which must
// be equal in all learners of a group, and of its parameters.
//
// Threads: thread-safe, where the policy is.
#ifndef DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_
#define DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// All functions return the errors of LearnMode::SaveModel().
absl::StatusOr<std::string> ModelDigest(const LearnMode& policy);

// Returns the name and the CRC-32C of the bytes of each parameter, in the order in which they are
// saved.
absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> TensorDigests(
    const LearnMode& policy);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_MODEL_DIGEST_H_
