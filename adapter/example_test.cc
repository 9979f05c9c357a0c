// The example of docs/reference/adapter.md.
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/adapter/testing/policies.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/in_process_all_reduce.h"
#include "ding_worker/interaction/testing/rank_threads.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(AdapterExample, TwoLearnersHaveTheSameParameters) {
  InProcessAllReduceHub hub;
  const AllReduceCreator connect = [&hub](const AllReduceOptions& options, Rendezvous*) {
    return hub.Connect(options);
  };
  const Batch batch = MakeTestBatch(TestPolicy::kDqn, 32, /*seed=*/1);
  Mutex mutex;
  std::vector<std::vector<float>> models;
  RunRanks(connect, 2, absl::Seconds(30), [&](AllReduce* reduce) {
    GroupMember group;
    group.Enter(Borrow(reduce));
    const std::unique_ptr<Policy> policy = MakeTestPolicy(TestPolicy::kDqn, &group);
    std::vector<LearnStep> steps;
    const Batch part = batch.Slice(reduce->rank() * 16, 16);
    EXPECT_THAT(policy->learn_mode()->Forward(part, {}, &steps), IsOk());
    MutexLock lock(&mutex);
    models.push_back(ModelOf(*policy->learn_mode()));
  });
  EXPECT_EQ(models[0], models[1]);
}

}  // namespace
}  // namespace ding
