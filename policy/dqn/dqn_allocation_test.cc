#include <memory>

#include "ding_worker/data/spec.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/testing/allocation.h"
#include "ding_worker/policy/testing/random_batch.h"
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
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(),
                                         MakeTransitionBatch(observation, action, 64, 1),
                                         MakeObservationBatch(observation, 8, 1));
}

}  // namespace
}  // namespace ding
