// Architectures that together use every feature of MlpOptions, for tests of networks, with rows for them. All
// inputs and outputs are float32.
#ifndef DING_WORKER_POLICY_MLP_MLP_TEST_CASES_H_
#define DING_WORKER_POLICY_MLP_MLP_TEST_CASES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/network_conformance.h"

namespace ding {

struct MlpTestCase {
  std::string name;
  MlpOptions options;
  std::vector<FieldSpec> input;
  std::vector<FieldSpec> output;
};

std::vector<MlpTestCase> MlpTestCases();
// Architectures with dropout or layer normalization, which Mlp alone has.
std::vector<MlpTestCase> NormalizedMlpTestCases();

// Returns the cases of NetworkConformance for networks of these architectures, which `create` makes.
std::vector<NetworkCase> MlpNetworkCases(
    const std::function<std::unique_ptr<Network>(const MlpTestCase&)>& create,
    const std::vector<MlpTestCase>& architectures = MlpTestCases());

// Returns rows of `spec`, whose fields are float32, with normally distributed elements.
BatchBuilder NormalRows(const SpecPtr& spec, int64_t rows, Rng rng);

}  // namespace ding

#endif  // DING_WORKER_POLICY_MLP_MLP_TEST_CASES_H_
