#include "ding_worker/policy/testing/allocation.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ding_worker/base/allocation_count.h"
#include "ding_worker/data/named_values.h"
#include "gtest/gtest.h"

namespace ding {

void ExpectAllocatesNothingWhileSizesRepeat(Policy* policy, const Batch& batch, const Batch& obs) {
  const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), obs.rows());
  const BatchBuilder eval_out =
      *BatchBuilder::Create(policy->eval_mode()->output_spec(), obs.rows());
  std::vector<int> env_ids(static_cast<size_t>(obs.rows()));
  std::iota(env_ids.begin(), env_ids.end(), 0);
  const NamedValues settings = {{"eps", 0.5}};
  std::vector<LearnStep> steps;
  int64_t before = 0;
  // Some iterations do more than the first: every tenth measures the gradient, and an actor may
  // learn less often.
  constexpr int kWarmUp = 10;
  for (int i = 0; i < 2 * kWarmUp; ++i) {
    if (i == kWarmUp) before = AllocationCount();
    const bool ok =
        policy->learn_mode()->Forward(batch, {}, &steps).ok() &&
        policy->collect_mode()->Forward(obs.view(), env_ids, settings, out.view()).ok() &&
        policy->eval_mode()->Forward(obs.view(), env_ids, settings, eval_out.view()).ok();
    ASSERT_TRUE(ok);
  }
  EXPECT_GT(before, 0) << "the counter does not count";
  EXPECT_EQ(AllocationCount() - before, 0);
}

}  // namespace ding
