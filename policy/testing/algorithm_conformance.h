// Tests that every algorithm that learns by gradients must pass in addition to PolicyConformance:
// it allocates nothing while sizes repeat, a group of two learners gives the results of one, and
// the gradients of the named losses agree with finite differences. policy/algorithms_test.cc has
// one line for each algorithm of this repository.
//
// To count allocations, it replaces operator new of the whole program. A program that cannot have
// this tests its policies with //policy:policy_conformance alone.
//
// Example:
//   const std::vector<AlgorithmCase> kCases = {{"mine", R"(type: "mine" params { ... })"}};
//   DING_TEST_ALGORITHMS(Mine, kCases);
#ifndef DING_WORKER_POLICY_TESTING_ALGORITHM_CONFORMANCE_H_
#define DING_WORKER_POLICY_TESTING_ALGORITHM_CONFORMANCE_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {

// A loss that an iteration reports, and what it trains. `parameters` and `optimizer` are prefixes
// of names in the saved model and train state.
struct LossGradient {
  std::string loss = "total_loss";
  std::string parameters = "model/";
  std::string optimizer = "optimizer/";  // of these parameters, in the same order
};

struct AlgorithmCase {
  std::string name;
  std::string config;                                   // of PolicyConfig, as text
  SpecPtr observation = *MakeSpec({Box("obs", {4})});   // as in PolicyConformanceCase
  SpecPtr action = *MakeSpec({Discrete("action", 3)});  // likewise
  std::function<Batch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                      uint64_t seed)>
      make_batch = MakeTransitionBatch;       // likewise
  std::string needed_column = kColumnReward;  // likewise
  // The losses whose gradients are compared with finite differences of the reported values. All
  // gradients of a loss may share a scale of at most 1, such as the scale of clipping. The networks
  // of `config` must be smooth (activation: TANH), and each term of the loss must have a gradient
  // or not depend on the parameters.
  std::vector<LossGradient> losses = {};
};

inline std::ostream& operator<<(std::ostream& out, const AlgorithmCase& c) { return out << c.name; }

// The same algorithms as cases of PolicyConformance.
std::vector<PolicyConformanceCase> PolicyCasesOf(const std::vector<AlgorithmCase>& cases);

class AlgorithmConformance : public testing::TestWithParam<AlgorithmCase> {};

#define DING_TEST_ALGORITHMS(name, cases)                                                    \
  INSTANTIATE_TEST_SUITE_P(name, PolicyConformance, testing::ValuesIn(PolicyCasesOf(cases)), \
                           testing::PrintToStringParamName());                               \
  INSTANTIATE_TEST_SUITE_P(name, AlgorithmConformance, testing::ValuesIn(cases),             \
                           testing::PrintToStringParamName())

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_ALGORITHM_CONFORMANCE_H_
