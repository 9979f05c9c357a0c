// Tests that every RecurrentNetwork must pass, besides the tests of
// policy/testing/network_conformance.h. Instantiate them for an implementation:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, RecurrentConformance,
//                            testing::Values(RecurrentCase{"Plain", [] { return MakeMine(); }}),
//                            RecurrentCaseName);
//
// All input fields must be float32. The outputs must depend on earlier rows and be differentiable
// for inputs, states and parameters of size 1; choose an activation without kinks (tanh).
#ifndef DING_WORKER_POLICY_TESTING_RECURRENT_CONFORMANCE_H_
#define DING_WORKER_POLICY_TESTING_RECURRENT_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "ding_worker/policy/network.h"
#include "gtest/gtest.h"

namespace ding {

struct RecurrentCase {
  std::string name;
  std::function<std::unique_ptr<RecurrentNetwork>()> create;
};

// Makes GoogleTest print the name of a case instead of its bytes.
inline void PrintTo(const RecurrentCase& of_test, std::ostream* out) { *out << of_test.name; }

inline std::string RecurrentCaseName(const testing::TestParamInfo<RecurrentCase>& info) {
  return info.param.name;
}

class RecurrentConformance : public testing::TestWithParam<RecurrentCase> {
 protected:
  void SetUp() override { network_ = GetParam().create(); }

  std::unique_ptr<RecurrentNetwork> network_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_RECURRENT_CONFORMANCE_H_
