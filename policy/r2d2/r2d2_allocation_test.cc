#include <memory>
#include <utility>

#include "ding_worker/data/spec.h"
#include "ding_worker/policy/r2d2/r2d2.h"
#include "ding_worker/policy/testing/allocation.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(R2d2Allocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = MaskedObservation(3);
  const SpecPtr action = DiscreteAction();
  R2d2Options options;
  options.dqn.learn.priority = true;
  options.dqn.grad_clip_norm = 1;
  auto network = std::make_unique<LeakyNetwork>(
      *MakeSpec({observation->field(1)}), *MakeSpec({Box("q", {3})}), /*state_size=*/3, /*seed=*/0);
  const auto policy = *R2d2Policy::Create(std::move(network), action, options, observation);
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(), MakeRandomSequences(observation, action, 1),
                                         MakeObservationBatch(observation, 3, 1));
}

}  // namespace
}  // namespace ding
