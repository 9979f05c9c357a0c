#include "ding_worker/coordinator/simulation/simulation.h"

#include <cstdint>

#include "absl/strings/str_join.h"
#include "ding_worker/base/log.h"
#include "ding_worker/coordinator/simulation/planted_bug.h"
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

TEST_F(SimulationTest, RulesHold) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const SimulationResult result = Simulate({seed});
    if (result.broken.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ": " << result.broken << "\n"
                  << absl::StrJoin(Simulate(Shrink({seed})).trace, "\n");
    break;
  }
}

TEST_F(SimulationTest, ASeedRepeatsARun) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulationOptions options{seed};
    options.traces = true;
    const SimulationResult first = Simulate(options);
    const SimulationResult second = Simulate(options);
    EXPECT_EQ(first.steps, second.steps);
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

}  // namespace
}  // namespace ding
