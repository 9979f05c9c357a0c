#include "ding_worker/base/process_resources.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(GpuCountTest, IsThatOfTheCounterOrZero) {
  EXPECT_EQ(CountGpus(), 0);
  SetGpuCounter([] { return 3; });
  EXPECT_EQ(CountGpus(), 3);
  EXPECT_DEATH(SetGpuCounter([] { return 1; }), "two counters of GPUs");
}

}  // namespace
}  // namespace ding
