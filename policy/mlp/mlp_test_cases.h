// Architectures that together use every feature of MlpOptions, for tests of networks. All inputs and
// outputs are float32.
#ifndef DING_WORKER_POLICY_MLP_MLP_TEST_CASES_H_
#define DING_WORKER_POLICY_MLP_MLP_TEST_CASES_H_

#include <string>
#include <vector>

#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"

namespace ding {

struct MlpTestCase {
  std::string name;
  MlpOptions options;
  std::vector<FieldSpec> input;
  std::vector<FieldSpec> output;
};

std::vector<MlpTestCase> MlpTestCases();

}  // namespace ding

#endif  // DING_WORKER_POLICY_MLP_MLP_TEST_CASES_H_
