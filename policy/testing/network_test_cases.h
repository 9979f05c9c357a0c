// Architectures that together use every feature of MlpOptions or RnnOptions, for tests of networks,
// with rows and sequences for them. All inputs and outputs are float32.
#ifndef DING_WORKER_POLICY_TESTING_NETWORK_TEST_CASES_H_
#define DING_WORKER_POLICY_TESTING_NETWORK_TEST_CASES_H_

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
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/recurrent_conformance.h"

namespace ding {

struct MlpTestCase {
  std::string name;
  MlpOptions options;
  std::vector<FieldSpec> input;
  std::vector<FieldSpec> output;
};

std::vector<MlpTestCase> MlpTestCases();
// Architectures with dropout or layer normalization, which only Mlp has.
std::vector<MlpTestCase> NormalizedMlpTestCases();

// Returns the cases of NetworkConformance for networks of these architectures, which `create`
// makes.
std::vector<NetworkCase> MlpNetworkCases(
    const std::function<std::unique_ptr<Network>(const MlpTestCase&)>& create,
    const std::vector<MlpTestCase>& architectures = MlpTestCases());

// Returns rows of `spec`, whose fields are float32, with normally distributed elements.
BatchBuilder NormalRows(const SpecPtr& spec, int64_t rows, Rng rng);

// One network for each architecture and cell.
struct RnnTestCase {
  std::string name;
  RnnOptions options;
  MlpTestCase mlp;
};

std::vector<RnnTestCase> RnnTestCases();

using CreateRnnTestCase = std::function<std::unique_ptr<RecurrentNetwork>(const RnnTestCase&)>;

// Return the cases of the suites for networks of all these architectures, which `create` makes.
// Their activation is tanh: the suites take finite differences of float32 outputs. The outputs of a
// cell are small, so that the steps would cross kinks of ReLU.
std::vector<NetworkCase> RnnNetworkCases(const CreateRnnTestCase& create);
std::vector<RecurrentCase> RnnRecurrentCases(const CreateRnnTestCase& create);

// Sequences of random rows, with states and beginnings of episodes.
struct RandomSequences {
  // `resets` is the probability that a row begins an episode.
  RandomSequences(const RecurrentNetwork& network, int64_t count, int64_t length, double resets);

  const BatchBuilder rows;
  const BatchBuilder d_output;
  std::vector<float> state;
  std::vector<uint8_t> is_first;
  Sequences view;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_NETWORK_TEST_CASES_H_
