// Small policies and batches, for tests of learners that train together.
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
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Policies for which it does not matter in which minibatch a row is: advantages are not normalized.
enum class TestPolicy { kDqn, kPpo, kPpoWithMaxKl, kPpoInMinibatches, kA2c, kBc, kSac, kTd3 };

// The policy's type in the registry.
std::string TestPolicyName(TestPolicy kind);
// Makes a policy, each time with the same parameters. `network` is a type in the registry of
// networks.
std::unique_ptr<Policy> MakeTestPolicy(TestPolicy kind, GradientReducer* reducer,
                                       const std::string& network = "mlp");
// Makes a random batch that this policy can learn from.
Batch MakeTestBatch(TestPolicy kind, int64_t rows, uint64_t seed);
// Writes a NaN into a column that the policy learns from. No other code may use the batch.
void SpoilTestBatch(TestPolicy kind, const Batch& batch);
// The settings to pass to Forward().
NamedValues TestSettings();
// All parameters of the policy in one vector.
std::vector<float> ModelOf(const LearnMode& policy);

// Returns an object that forwards to `reduce`, for functions that want to own one. `reduce` must
// outlive it.
std::unique_ptr<AllReduce> Borrow(AllReduce* reduce);

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_TESTING_POLICIES_H_
