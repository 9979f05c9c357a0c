// The tests of all algorithms, for dual_clip.
#include <vector>

#include "ding_worker/data/sample_columns.h"
#include "ding_worker/policy/testing/algorithm_conformance.h"
#include "gtest/gtest.h"

namespace dual_clip {
namespace {

using ding::AlgorithmConformance;
using ding::PolicyConformance;

// A minibatch has all rows: how they are divided into several is drawn by each learner of a group.
std::vector<ding::AlgorithmCase> Cases() {
  ding::AlgorithmCase c = {"dual_clip", R"(
      type: "dual_clip"
      batch_size: 32
      params {
        [type.googleapis.com/dual_clip.DualClipConfig] {
          ppo {
            actor_critic {
              model { encoder_hidden_size: [16, 8] activation: TANH }
              critic { encoder_hidden_size: [8] activation: TANH }
              learning_rate: 0.003
            }
            epoch_per_collect: 2
            adv_norm: false
          }
        }
      })"};
  c.make_batch = ding::MakeOnPolicyBatch;
  c.needed_column = ding::kColumnAdvantage;
  c.losses = {{"total_loss", "model/", "optimizer/"}};
  return {c};
}

DING_TEST_ALGORITHMS(DualClip, Cases());

}  // namespace
}  // namespace dual_clip
