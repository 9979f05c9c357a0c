// Learning and acting must not allocate while sizes repeat: the allocator would take as much time
// as a layer, and fragment memory over billions of calls.
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/impala/impala.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/testing/allocation.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ImpalaAllocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = *MakeSpec({Box("obs", {4})});
  const SpecPtr action = *MakeSpec({Discrete("action", 2)});
  MlpOptions mlp;
  mlp.encoder_hidden_size = {32, 16};
  ImpalaOptions options;
  options.policy.grad_clip_norm = 0.5;
  options.policy.networks.normalize_obs = true;
  const auto policy = *ImpalaPolicy::Create(
      *Mlp::Create(mlp, observation, *MakeSpec({Box("logit", {2})}), 0),
      *Mlp::Create(mlp, observation, *MakeSpec({ActorCritic::ValueField()}), 1), observation,
      action, options);
  const Batch batch = MakeImpalaTestBatch(observation, action, 64, 16, 1);
  const Batch obs = MakeObservationBatch(observation, 8, 1);
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(), batch, obs);
}

}  // namespace
}  // namespace ding
