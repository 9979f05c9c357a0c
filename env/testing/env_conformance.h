// Tests that every Env must pass. They check that the spec is valid, that an env writes its whole
// row and nothing else, that values are within the declared bounds, that an episode is a function
// of its seed and actions, that the time limit holds, and that a saved episode continues exactly
// (skipped for an env that cannot save its state).
//
// The suite plays episodes of at most `max_steps` steps, with random legal actions of all players.
// A failure says what the env did, in which call, and what its spec promises.
//
// Example (in the test of an env; depends on //env/testing:env_conformance and gtest_main):
//   INSTANTIATE_TEST_SUITE_P(CartPole, EnvConformance,
//                            testing::Values(EnvConformanceCase{"v1", [] { return Create(); }}),
//                            EnvConformanceName);
#ifndef DING_WORKER_ENV_TESTING_ENV_CONFORMANCE_H_
#define DING_WORKER_ENV_TESTING_ENV_CONFORMANCE_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "ding_worker/env/env.h"
#include "gtest/gtest.h"

namespace ding {

struct EnvConformanceCase {
  std::string name;  // part of the test names: letters, digits, underscores
  EnvFactory factory;
  int64_t max_steps = 1000;
};

// Lets GoogleTest print the name of a case instead of its bytes.
inline void PrintTo(const EnvConformanceCase& of_test, std::ostream* out) { *out << of_test.name; }

class EnvConformance : public testing::TestWithParam<EnvConformanceCase> {
 protected:
  // Creates env_; a test ends here if the factory fails.
  void SetUp() override;
  std::unique_ptr<Env> NewEnv() const;

  std::unique_ptr<Env> env_;
};

std::string EnvConformanceName(const testing::TestParamInfo<EnvConformanceCase>& info);

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_ENV_CONFORMANCE_H_
