// Architectures that together use every feature of RnnOptions, for tests of recurrent networks, with sequences
// for them. All inputs and outputs are float32.
#ifndef DING_WORKER_POLICY_RNN_RNN_TEST_CASES_H_
#define DING_WORKER_POLICY_RNN_RNN_TEST_CASES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/data/batch.h"
#include "ding_worker/policy/mlp/mlp_test_cases.h"
#include "ding_worker/policy/network_conformance.h"
#include "ding_worker/policy/recurrent_conformance.h"
#include "ding_worker/policy/recurrent_network.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {

// One network for each architecture and cell.
struct RnnTestCase {
  std::string name;
  RnnOptions options;
  MlpTestCase mlp;
};

std::vector<RnnTestCase> RnnTestCases();

using CreateRnnTestCase = std::function<std::unique_ptr<RecurrentNetwork>(const RnnTestCase&)>;

// Return the cases of the suites for networks of all these architectures, which `create` makes. Their
// activation is tanh: the suites take finite differences of float32 outputs with steps that cross kinks of
// ReLU, because the outputs of a cell are small.
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

#endif  // DING_WORKER_POLICY_RNN_RNN_TEST_CASES_H_
