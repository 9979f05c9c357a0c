// The tests of all algorithms, for tsallis.
#include <vector>

#include "ding_worker/data/spec.h"
#include "ding_worker/policy/testing/algorithm_conformance.h"
#include "gtest/gtest.h"

namespace tsallis {
namespace {

using ding::AlgorithmConformance;
using ding::PolicyConformance;

std::vector<ding::AlgorithmCase> Cases() {
  ding::AlgorithmCase c = {"tsallis", R"(
      type: "tsallis"
      params {
        [type.googleapis.com/tsallis.TsallisConfig] {
          sac {
            continuous {
              model { encoder_hidden_size: [16, 8] activation: TANH }
              actor_learning_rate: 0.003
              critic_learning_rate: 0.003
            }
          }
        }
      })"};
  c.action = *ding::MakeSpec({ding::Box("action", {2}, {-2, -1}, {2, 3})});
  c.losses = {{"critic_loss", "critic/", "critic_optimizer/"},
              {"actor_loss", "model/actor/", "actor_optimizer/"}};
  return {c};
}

DING_TEST_ALGORITHMS(Tsallis, Cases());

}  // namespace
}  // namespace tsallis
