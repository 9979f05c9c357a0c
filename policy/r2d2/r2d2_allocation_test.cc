// Learning and acting must not allocate while sizes repeat, as those of DQN (policy/dqn/dqn_allocation_test.cc).
#include <cstdint>
#include <memory>
#include <vector>

#include "ding_worker/base/allocation_count.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/r2d2/r2d2.h"
#include "ding_worker/policy/random_batch.h"
#include "ding_worker/policy/testing/leaky_network.h"
#include "ding_worker/policy/testing/random_sequences.h"
#include "ding_worker/policy/testing/specs.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(R2d2Allocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = MaskedObservation(3);
  const SpecPtr action = DiscreteAction();
  R2d2Options options;
  options.dqn.learn.priority = true;
  options.dqn.grad_clip_norm = 1;
  const auto policy = *R2d2Policy::Create(
      std::make_unique<LeakyNetwork>(*MakeSpec({observation->field(1)}), *MakeSpec({Box("q", {3})}),
                                     /*state_size=*/3, /*seed=*/0),
      action, options, observation);
  const Batch batch = MakeRandomSequences(observation, action, /*seed=*/1);
  const Batch obs = MakeObservationBatch(observation, 3, /*seed=*/1);
  const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 3);
  const BatchBuilder eval_out = *BatchBuilder::Create(action, 3);
  const std::vector<int> env_ids = {0, 1, 2};
  const NamedValues settings = {{"eps", 0.5}};
  std::vector<LearnStep> steps;
  int64_t before = 0;
  for (int i = 0; i < 10; ++i) {
    if (i == 1) before = AllocationCount();
    const bool ok =
        policy->learn_mode()->Forward(batch, {}, &steps).ok() &&
        policy->collect_mode()->Forward(obs.view(), env_ids, settings, out.view()).ok() &&
        policy->eval_mode()->Forward(obs.view(), env_ids, settings, eval_out.view()).ok();
    ASSERT_TRUE(ok);
  }
  EXPECT_GT(before, 0) << "the counter does not count";
  EXPECT_EQ(AllocationCount() - before, 0);
}

}  // namespace
}  // namespace ding
