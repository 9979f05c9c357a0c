#include "ding_worker/coordinator/simulation/simulation.h"

#include <cstdint>
#include <numeric>

#include "ding_worker/base/log.h"
#include "ding_worker/coordinator/simulation/planted_bug.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() : before_(SetMinLogSeverity(LogSeverity::kError)) {}
  ~SimulationTest() override { SetMinLogSeverity(before_); }

 private:
  const LogSeverity before_;
};

TEST_F(SimulationTest, ASeedRepeatsARun) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulationOptions options{seed};
    options.traces = true;
    const SimulationResult first = Simulate(options);
    const SimulationResult second = Simulate(options);
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.trace, second.trace);
  }
}

TEST_F(SimulationTest, FindsEachPlantedBug) {
  for (int bug = 1; bug <= kPlantedBugs; ++bug) {
    uint64_t runs = 0;
    while (runs < 10000 && Simulate({1000000 + runs, bug}).broken.empty()) ++runs;
    EXPECT_LT(runs, 10000u) << "bug " << bug;
  }
}

TEST_F(SimulationTest, Shrink_LeavesOutFaults) {
  SimulationOptions options;
  options.planted = 1;
  while (Simulate(options).broken.empty()) ++options.seed;
  const SimulationResult whole = Simulate(options);
  const SimulationResult shrunk = Simulate(Shrink(options));
  const auto count = [](const SimulationResult& result) {
    return std::accumulate(result.faults.begin(), result.faults.end(), int64_t{0});
  };
  EXPECT_EQ(shrunk.rule, whole.rule);
  EXPECT_LT(count(shrunk), count(whole));
  EXPECT_THAT(shrunk.trace, testing::Contains(testing::HasSubstr("BROKEN: " + whole.rule)));
}

}  // namespace
}  // namespace ding
