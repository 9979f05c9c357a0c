// Tests that every Policy must pass; instantiate them for yours, in or outside this repository.
//
// Example:
//   INSTANTIATE_TEST_SUITE_P(Mine, PolicyConformance, testing::Values(PolicyConformanceCase{
//       "mine", [](uint64_t seed, PolicyModes modes) { return CreateMine(seed, modes); },
//       *MakeSpec({Box("obs", {4})}), *MakeSpec({Discrete("action", 2)}), /*learns=*/true,
//       MakeTransitionBatch}));
#ifndef DING_WORKER_POLICY_POLICY_CONFORMANCE_H_
#define DING_WORKER_POLICY_POLICY_CONFORMANCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {

struct PolicyConformanceCase {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Policy>>(uint64_t seed, PolicyModes modes)> create;
  SpecPtr observation;  // fields that policy/testing/random_batch.h can fill
  SpecPtr action;
  bool learns = true;  // whether the policy has a learn_mode()
  // Makes training data for the learn mode.
  std::function<Batch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                      uint64_t seed)>
      make_batch = MakeTransitionBatch;
  // A float32 column of the training data that must exist and must not have NaN.
  std::string needed_column = kColumnReward;
};

// Makes GoogleTest print the name of a case instead of its bytes.
inline void PrintTo(const PolicyConformanceCase& of_test, std::ostream* out) {
  *out << of_test.name;
}

inline std::ostream& operator<<(std::ostream& out, const PolicyConformanceCase& c) {
  return out << c.name;
}

class PolicyConformance : public testing::TestWithParam<PolicyConformanceCase> {
 protected:
  std::unique_ptr<Policy> Create(uint64_t seed);
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_POLICY_CONFORMANCE_H_
