// The tests of all algorithms, for munchausen.
#include <vector>

#include "ding_worker/policy/testing/algorithm_conformance.h"
#include "gtest/gtest.h"

namespace munchausen {
namespace {

using ding::AlgorithmConformance;
using ding::PolicyConformance;

std::vector<ding::AlgorithmCase> Cases() {
  ding::AlgorithmCase c = {"munchausen", R"(
      type: "munchausen"
      params {
        [type.googleapis.com/munchausen.MunchausenConfig] {
          dqn {
            model { encoder_hidden_size: [16, 8] activation: TANH }
            learning_rate: 0.003
            target_update_freq: 2
          }
        }
      })"};
  c.losses = {{"total_loss", "model/", "optimizer/"}};
  return {c};
}

DING_TEST_ALGORITHMS(Munchausen, Cases());

}  // namespace
}  // namespace munchausen
