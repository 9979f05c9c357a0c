// Learning and acting must not allocate while sizes repeat: the allocator would take as much time as a
// layer, and fragment memory over billions of calls.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(DqnAllocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = *MakeSpec({Box("obs", {4})});
  const SpecPtr action = *MakeSpec({Discrete("action", 2)});
  MlpOptions mlp;
  mlp.encoder_hidden_size = {32, 16};
  mlp.dueling = true;
  DqnOptions options;
  options.learn.priority = true;
  options.grad_clip_norm = 1;
  const auto policy = *DqnPolicy::Create(
      *Mlp::Create(mlp, observation, *MakeSpec({Box("q", {2})}), 0), action, options);
  const Batch batch = MakeTransitionBatch(observation, action, 64, 1);
  const BatchBuilder obs = *BatchBuilder::Create(observation, 8);
  std::fill(obs.column<float>(0).begin(), obs.column<float>(0).end(), 0.5f);
  const BatchBuilder out = *BatchBuilder::Create(action, 8);
  const std::vector<int> env_ids = {0, 1, 2, 3, 4, 5, 6, 7};
  const NamedValues settings = {{"eps", 0.5}};
  std::vector<LearnStep> steps;
  int64_t before = 0;
  for (int i = 0; i < 10; ++i) {
    if (i == 1) before = AllocationCount();
    const bool ok =
        policy->learn_mode()->Forward(batch, {}, &steps).ok() &&
        policy->collect_mode()->Forward(obs.view(), env_ids, settings, out.view()).ok() &&
        policy->eval_mode()->Forward(obs.view(), env_ids, settings, out.view()).ok();
    ASSERT_TRUE(ok);
  }
  EXPECT_GT(before, 0) << "the counter does not count";
  EXPECT_EQ(AllocationCount() - before, 0);
}

}  // namespace
}  // namespace ding
