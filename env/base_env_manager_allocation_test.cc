// A step of BaseEnvManager allocates nothing as long as no episode ends.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/pendulum.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(BaseEnvManagerAllocationTest, StepAllocatesNothing) {
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<BaseEnvManager> manager,
      BaseEnvManager::Create({}, std::vector<EnvFactory>(4, [] { return CreatePendulum(); })));
  ASSERT_THAT(manager->Launch(), IsOk());
  std::vector<float> actions(4, 0.5f);
  std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
  const ColumnsView rows(manager->env_spec().action.get(), &column, 0, 4);
  const int64_t before = AllocationCount();
  EXPECT_GT(before, 0) << "nothing is counted";
  bool all_ok = true;
  for (int i = 0; i < 100; ++i) {  // An episode has 200 steps.
    all_ok &= manager->Step(manager->ready_obs().env_ids, rows).ok();
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_TRUE(all_ok);
}

}  // namespace
}  // namespace ding
