// Tests that every Network must pass; instantiate them for an implementation:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, NetworkConformance,
//                            testing::Values(NetworkCase{"Plain", [] { return MakeMine(); }}),
//                            NetworkCaseName);
//
// The network must have at least two input elements, float32 or bytes, and one output element. Its
// outputs must be differentiable nearly everywhere for inputs and parameters of size 1.
#ifndef DING_WORKER_POLICY_TESTING_NETWORK_CONFORMANCE_H_
#define DING_WORKER_POLICY_TESTING_NETWORK_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "ding_worker/policy/network.h"
#include "gtest/gtest.h"

namespace ding {

struct NetworkCase {
  std::string name;
  std::function<std::unique_ptr<Network>()> create;
};

// Makes GoogleTest print the name of a case instead of its bytes.
inline void PrintTo(const NetworkCase& of_test, std::ostream* out) { *out << of_test.name; }

inline std::string NetworkCaseName(const testing::TestParamInfo<NetworkCase>& info) {
  return info.param.name;
}

class NetworkConformance : public testing::TestWithParam<NetworkCase> {
 protected:
  void SetUp() override { network_ = GetParam().create(); }

  std::unique_ptr<Network> network_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_NETWORK_CONFORMANCE_H_
