// The conformance tests of all algorithms: a new one joins by one line.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/policy/algorithm_conformance.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// A config of `type` with params of the message `message`, whose network `model` is a small MLP.
std::string Config(const std::string& type, const std::string& message, const std::string& params,
                   const std::string& run = "priority: true") {
  return absl::StrCat("type: '", type, "' ", run, " params { [type.googleapis.com/ding.", message,
                      "] { ", params, " } }");
}

constexpr char kDqn[] =
    "dqn { model { encoder_hidden_size: [16, 8] dueling: true } learning_rate: 0.003 "
    "target_update_freq: 2 grad_clip_norm: 1 }";

std::string Distributional(const std::string& type, const std::string& message,
                           const std::string& params = "") {
  return Config(type, message, absl::StrCat(kDqn, params));
}

std::vector<AlgorithmCase> Algorithms() {
  return {
      {"c51", Distributional("c51", "C51Config", " atoms: 21")},
      {"rainbow", Distributional("rainbow", "RainbowConfig", " atoms: 21")},
      {"qrdqn", Distributional("qrdqn", "QrdqnConfig", " quantiles: 20")},
      {"iqn", Distributional("iqn", "IqnConfig", " fractions: 8")},
      {"cql", Config("cql", "CqlConfig", absl::StrCat(kDqn, " alpha: 0.5"))},
  };
}

DING_TEST_ALGORITHMS(All, Algorithms());

}  // namespace
}  // namespace ding
