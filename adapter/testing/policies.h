// Small policies and batches for tests of learners that learn together.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ADAPTER_TESTING_POLICIES_H_
#define DING_WORKER_ADAPTER_TESTING_POLICIES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/interaction/all_reduce.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Those that are learned from rows of whatever minibatch alike: advantages are not normalized.
enum class TestPolicy { kDqn, kPpo, kPpoWithMaxKl, kA2c, kBc };

std::string TestPolicyName(TestPolicy kind);
// Equal parameters every time; `network`: its type in the registry.
std::unique_ptr<Policy> MakeTestPolicy(TestPolicy kind, GradientReducer* reducer,
                                       const std::string& network = "mlp");
Batch MakeTestBatch(TestPolicy kind, int64_t rows, uint64_t seed);
// Puts a number that is none into a batch that nobody else has.
void SpoilTestBatch(TestPolicy kind, const Batch& batch);
// The settings of Forward().
NamedValues TestSettings();
// All parameters, one behind the other.
std::vector<float> ModelOf(const LearnMode& policy);

// `reduce` as if it were owned; whoever owns it outlives what is returned.
std::unique_ptr<AllReduce> Borrow(AllReduce* reduce);

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_TESTING_POLICIES_H_
