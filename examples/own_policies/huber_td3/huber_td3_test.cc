// The tests of all algorithms, for huber_td3.
#include <vector>

#include "ding_worker/data/spec.h"
#include "ding_worker/policy/testing/algorithm_conformance.h"
#include "gtest/gtest.h"

namespace huber_td3 {
namespace {

using ding::AlgorithmConformance;
using ding::PolicyConformance;

std::vector<ding::AlgorithmCase> Cases() {
  ding::AlgorithmCase c = {"huber_td3", R"(
      type: "huber_td3"
      params {
        [type.googleapis.com/huber_td3.HuberTd3Config] {
          td3 {
            continuous {
              model { encoder_hidden_size: [16, 8] activation: TANH }
              actor_learning_rate: 0.003
              critic_learning_rate: 0.003
            }
            actor_update_freq: 1
          }
        }
      })"};
  c.action = *ding::MakeSpec({ding::Box("action", {2}, {-2, -1}, {2, 3})});
  c.losses = {{"critic_loss", "critic/", "critic_optimizer/"},
              {"actor_loss", "model/actor/", "actor_optimizer/"}};
  return {c};
}

DING_TEST_ALGORITHMS(HuberTd3, Cases());

}  // namespace
}  // namespace huber_td3
