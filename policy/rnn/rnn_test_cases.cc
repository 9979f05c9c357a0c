#include "ding_worker/policy/rnn/rnn_test_cases.h"

#include "ding_worker/base/rng.h"
#include "ding_worker/policy/mlp/mlp_structure.h"

namespace ding {
namespace {

constexpr uint64_t kSeed = 7;

template <typename ConformanceCase>
std::vector<ConformanceCase> ConformanceCases(const CreateRnnTestCase& create) {
  std::vector<ConformanceCase> cases;
  for (RnnTestCase test_case : RnnTestCases()) {
    test_case.options.mlp.activation = MlpOptions::Activation::kTanh;
    cases.push_back({test_case.name, [create, test_case] { return create(test_case); }});
  }
  return cases;
}

}  // namespace

std::vector<RnnTestCase> RnnTestCases() {
  std::vector<RnnTestCase> cases;
  for (const RnnCell cell : {RnnCell::kLstm, RnnCell::kGru}) {
    int64_t hidden = 4;
    for (const MlpTestCase& mlp : MlpTestCases()) {
      // The first is of no use to a whole network, and the cell has one input.
      if (mlp.options.output_activation || mlp.options.separate_encoders) continue;
      RnnTestCase test_case;
      test_case.name = (cell == RnnCell::kLstm ? "Lstm" : "Gru") + mlp.name;
      test_case.options.cell = cell;
      test_case.options.hidden_size = hidden;
      test_case.options.mlp = mlp.options;
      test_case.mlp = mlp;
      cases.push_back(test_case);
      hidden = hidden % 19 + 3;  // among others 8, 16 and 17
    }
  }
  return cases;
}

std::vector<NetworkCase> RnnNetworkCases(const CreateRnnTestCase& create) {
  return ConformanceCases<NetworkCase>(create);
}

std::vector<RecurrentCase> RnnRecurrentCases(const CreateRnnTestCase& create) {
  return ConformanceCases<RecurrentCase>(create);
}

RandomSequences::RandomSequences(const RecurrentNetwork& network, int64_t count, int64_t length,
                                 double resets)
    : rows(NormalRows(network.input_spec(), count * length, Rng(kSeed, "rnn_test", 1))),
      d_output(NormalRows(network.output_spec(), count * length, Rng(kSeed, "rnn_test", 2))),
      state(static_cast<size_t>(count * network.state_size())),
      is_first(static_cast<size_t>(count * length)) {
  Rng rng(kSeed, "rnn_test", 3);
  for (float& value : state) value = static_cast<float>(rng.Uniform(-1, 1));
  for (uint8_t& mark : is_first) mark = rng.Uniform() < resets ? 1 : 0;
  view.rows = rows.view();
  view.length = length;
  view.state = state;
  view.is_first = is_first;
}

}  // namespace ding
