// What every Env must do, as tests that run on yours: valid spec, whole rows written and no others,
// values within the declared bounds, episodes that are a function of seed and actions, time limit,
// exact continuation of a saved episode (skipped for an env that cannot save itself).
//
// The suite plays whole episodes with random legal actions of all players, at most `max_steps`
// steps each. A failure says what the env did, in which call, and what its spec promises.
//
// Example (in the test of an env; depends on //env:conformance and gtest_main):
//   INSTANTIATE_TEST_SUITE_P(CartPole, EnvConformance,
//                            testing::Values(EnvConformanceCase{"v1", [] { return Create(); }}),
//                            EnvConformanceName);
#ifndef DING_WORKER_ENV_CONFORMANCE_H_
#define DING_WORKER_ENV_CONFORMANCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ding_worker/env/env.h"
#include "gtest/gtest.h"

namespace ding {

struct EnvConformanceCase {
  std::string name;  // in the names of the tests: letters, digits, underscores
  EnvFactory factory;
  int64_t max_steps = 1000;
};

class EnvConformance : public testing::TestWithParam<EnvConformanceCase> {
 protected:
  // Ends the test if there is none.
  void SetUp() override;
  std::unique_ptr<Env> NewEnv() const;

  std::unique_ptr<Env> env_;
};

std::string EnvConformanceName(const testing::TestParamInfo<EnvConformanceCase>& info);

}  // namespace ding

#endif  // DING_WORKER_ENV_CONFORMANCE_H_
