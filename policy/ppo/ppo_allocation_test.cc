// Learning and acting must not allocate while sizes repeat: the allocator would take as much time as a
// layer, and fragment memory over billions of calls.
#include <cstdint>
#include <memory>
#include <vector>

#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/ppo/ppo.h"
#include "ding_worker/policy/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(PpoAllocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = *MakeSpec({Box("obs", {4})});
  const SpecPtr action = *MakeSpec({Discrete("action", 2)});
  MlpOptions mlp;
  mlp.encoder_hidden_size = {32, 16};
  PpoOptions options;
  options.epochs = 2;
  options.minibatch_size = 24;
  options.policy.grad_clip_norm = 0.5;
  options.policy.networks.normalize_obs = true;
  const auto policy =
      *CreatePpo(*Mlp::Create(mlp, observation, *MakeSpec({Box("logit", {2})}), 0),
                 *Mlp::Create(mlp, observation, *MakeSpec({ActorCritic::ValueField()}), 1),
                 observation, action, options);
  const Batch batch = MakeOnPolicyBatch(observation, action, 64, 1);
  const Batch obs = MakeObservationBatch(observation, 8, 1);
  const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 8);
  const BatchBuilder actions = *BatchBuilder::Create(policy->eval_mode()->output_spec(), 8);
  std::vector<LearnStep> steps;
  int64_t before = 0;
  for (int i = 0; i < 10; ++i) {
    if (i == 1) before = AllocationCount();
    const bool ok = policy->learn_mode()->Forward(batch, {}, &steps).ok() &&
                    policy->collect_mode()->Forward(obs.view(), {}, {}, out.view()).ok() &&
                    policy->eval_mode()->Forward(obs.view(), {}, {}, actions.view()).ok();
    ASSERT_TRUE(ok);
  }
  EXPECT_GT(before, 0) << "the counter does not count";
  EXPECT_EQ(AllocationCount() - before, 0);
}

}  // namespace
}  // namespace ding
