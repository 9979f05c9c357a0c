// N learners that train on the parts of a batch get the same parameters as one learner that trains
// on the whole batch. Tested for policies from the registry, in one process.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/adapter/testing/policies.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/in_process_all_reduce.h"
#include "ding_worker/interaction/testing/rank_threads.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::Eq;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;
using testing::SizeIs;

constexpr int kSteps = 5;
constexpr int64_t kRows = 48;
constexpr absl::Duration kLong = absl::Minutes(1);

AllReduceCreator InProcess() {
  static auto* const hub = new InProcessAllReduceHub;
  return [](const AllReduceOptions& options, Rendezvous*) { return hub->Connect(options); };
}

// The rows of this rank, from rank * rows / world_size on. If the rows cannot be divided evenly,
// some parts have one row more.
Batch PartOf(const Batch& batch, int rank, int world_size) {
  const int64_t begin = batch.rows() * rank / world_size;
  return batch.Slice(begin, batch.rows() * (rank + 1) / world_size - begin);
}

// The parameters of each rank after kSteps.
std::vector<std::vector<float>> Learn(const TestPolicy& kind, int world_size) {
  Mutex mutex;
  std::vector<std::vector<float>> models;
  RunRanks(InProcess(), world_size, kLong, [&](AllReduce* reduce) {
    GroupMember group;
    group.Enter(Borrow(reduce));
    const std::unique_ptr<Policy> policy = MakeTestPolicy(kind, &group);
    for (int step = 0; step < kSteps; ++step) {
      const Batch batch = MakeTestBatch(kind, kRows, /*seed=*/100 + step);
      std::vector<LearnStep> steps;
      ASSERT_THAT(policy->learn_mode()->Forward(PartOf(batch, reduce->rank(), world_size),
                                                TestSettings(), &steps),
                  IsOk());
    }
    MutexLock lock(&mutex);
    models.push_back(ModelOf(*policy->learn_mode()));
  });
  return models;
}

std::vector<float> LearnAlone(const TestPolicy& kind) {
  const std::unique_ptr<Policy> policy = MakeTestPolicy(kind, /*reducer=*/nullptr);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<LearnStep> steps;
    EXPECT_THAT(policy->learn_mode()->Forward(MakeTestBatch(kind, kRows, /*seed=*/100 + step),
                                              TestSettings(), &steps),
                IsOk());
  }
  return ModelOf(*policy->learn_mode());
}

class DataParallel : public testing::TestWithParam<TestPolicy> {};

TEST_P(DataParallel, LearnersOfPartsEqualOneLearnerOfTheWhole) {
  const std::vector<float> alone = LearnAlone(GetParam());
  const std::vector<float> begin = ModelOf(*MakeTestPolicy(GetParam(), nullptr)->learn_mode());
  ASSERT_THAT(alone, Not(Pointwise(FloatNear(1e-3f), begin))) << "the parameters must change";
  // 48 rows cannot be divided by 5.
  for (const int world_size : {1, 2, 4, 5}) {
    const std::vector<std::vector<float>> models = Learn(GetParam(), world_size);
    ASSERT_THAT(models, SizeIs(static_cast<size_t>(world_size)));
    EXPECT_THAT(models, Each(Eq(models.front())))
        << "all ranks must have the same bits, world_size " << world_size;
    EXPECT_THAT(models.front(), Pointwise(FloatNear(2e-5f), alone)) << "world_size " << world_size;
  }
}

// If one learner cannot take a step, none takes it. All take the next one.
TEST_P(DataParallel, ANonFiniteLossFailsTheStepForAll) {
  Mutex mutex;
  std::vector<std::vector<float>> models;
  RunRanks(InProcess(), 2, kLong, [&](AllReduce* reduce) {
    GroupMember group;
    group.Enter(Borrow(reduce));
    const std::unique_ptr<Policy> policy = MakeTestPolicy(GetParam(), &group);
    const std::vector<float> begin = ModelOf(*policy->learn_mode());
    std::vector<LearnStep> steps;
    Batch bad = MakeTestBatch(GetParam(), kRows / 2, 7);
    if (reduce->rank() == 1) SpoilTestBatch(GetParam(), bad);
    const absl::Status failed = policy->learn_mode()->Forward(bad, TestSettings(), &steps);
    if (reduce->rank() == 1) {
      EXPECT_THAT(failed, StatusIs(absl::StatusCode::kInternal));
    } else {
      EXPECT_THAT(failed, StatusIs(absl::StatusCode::kAborted, HasSubstr("another learner")));
    }
    EXPECT_FALSE(group.broken());
    EXPECT_EQ(ModelOf(*policy->learn_mode()), begin);
    ASSERT_THAT(
        policy->learn_mode()->Forward(MakeTestBatch(GetParam(), kRows / 2, 8 + reduce->rank()),
                                      TestSettings(), &steps),
        IsOk());
    EXPECT_NE(ModelOf(*policy->learn_mode()), begin);
    MutexLock lock(&mutex);
    models.push_back(ModelOf(*policy->learn_mode()));
  });
  EXPECT_THAT(models, Each(Eq(models.front())));
}

// A batch that the policy cannot use at all makes a failed step, too.
TEST_P(DataParallel, ABatchOfAnotherLayoutFailsTheStepForAll) {
  RunRanks(InProcess(), 2, kLong, [&](AllReduce* reduce) {
    GroupMember group;
    group.Enter(Borrow(reduce));
    const std::unique_ptr<Policy> policy = MakeTestPolicy(GetParam(), &group);
    std::vector<LearnStep> steps;
    const Batch batch = reduce->rank() == 0 ? Batch() : MakeTestBatch(GetParam(), kRows, 1);
    EXPECT_THAT(policy->learn_mode()->Forward(batch, TestSettings(), &steps),
                StatusIs(reduce->rank() == 0 ? absl::StatusCode::kInvalidArgument
                                             : absl::StatusCode::kAborted));
  });
}

TEST_P(DataParallel, ALostLearnerFailsTheStepAndBreaksTheGroup) {
  RunRanks(InProcess(), 2, kLong, [&](AllReduce* reduce) {
    if (reduce->rank() == 1) return;
    GroupMember group;
    group.Enter(Borrow(reduce));
    const std::unique_ptr<Policy> policy = MakeTestPolicy(GetParam(), &group);
    const std::vector<float> begin = ModelOf(*policy->learn_mode());
    std::vector<LearnStep> steps;
    EXPECT_THAT(
        policy->learn_mode()->Forward(MakeTestBatch(GetParam(), kRows, 1), TestSettings(), &steps),
        StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_TRUE(group.broken());
    EXPECT_EQ(ModelOf(*policy->learn_mode()), begin);
  });
}

INSTANTIATE_TEST_SUITE_P(Policies, DataParallel,
                         testing::Values(TestPolicy::kDqn, TestPolicy::kPpo, TestPolicy::kA2c,
                                         TestPolicy::kBc, TestPolicy::kSac, TestPolicy::kTd3),
                         [](const auto& info) { return TestPolicyName(info.param); });

// The divergence may be too large on one rank and not on the other: the mean decides for both.
TEST(DataParallelTest, AllStopAtTheSameMinibatchWhenTheMeanDivergenceIsTooLarge) {
  Mutex mutex;
  std::vector<size_t> steps_taken;
  std::vector<std::vector<float>> models;
  RunRanks(InProcess(), 2, kLong, [&](AllReduce* reduce) {
    GroupMember group;
    group.Enter(Borrow(reduce));
    const std::unique_ptr<Policy> policy = MakeTestPolicy(TestPolicy::kPpoWithMaxKl, &group);
    std::vector<LearnStep> steps;
    ASSERT_THAT(policy->learn_mode()->Forward(
                    MakeTestBatch(TestPolicy::kPpoWithMaxKl, kRows, 50 + reduce->rank()),
                    TestSettings(), &steps),
                IsOk());
    MutexLock lock(&mutex);
    steps_taken.push_back(steps.size());
    models.push_back(ModelOf(*policy->learn_mode()));
  });
  EXPECT_THAT(steps_taken, Each(Eq(steps_taken.front())));
  EXPECT_EQ(steps_taken.front(), 6u) << "one of them alone would have taken 7";
  EXPECT_THAT(models, Each(Eq(models.front())));
}

// Rows of whole episodes cannot be shared out evenly.
TEST(DataParallelTest, LearnersWithUnequalPartsTakeTheSameMinibatches) {
  Mutex mutex;
  std::vector<size_t> steps_taken;
  std::vector<std::vector<float>> models;
  RunRanks(InProcess(), 3, kLong, [&](AllReduce* reduce) {
    GroupMember group;
    group.Enter(Borrow(reduce));
    const auto policy = MakeTestPolicy(TestPolicy::kPpoInMinibatches, &group);
    const Batch batch = MakeTestBatch(TestPolicy::kPpoInMinibatches, kRows, /*seed=*/60);
    const int64_t begins[] = {0, 1, 31, kRows};
    const int64_t begin = begins[reduce->rank()];
    std::vector<LearnStep> steps;
    ASSERT_THAT(policy->learn_mode()->Forward(
                    batch.Slice(begin, begins[reduce->rank() + 1] - begin), TestSettings(), &steps),
                IsOk());
    MutexLock lock(&mutex);
    steps_taken.push_back(steps.size());
    models.push_back(ModelOf(*policy->learn_mode()));
  });
  EXPECT_THAT(steps_taken, Each(size_t{2 * kRows / 16})) << "as many as one learner of the whole";
  EXPECT_THAT(models, Each(Eq(models.front())));
}

TEST(DataParallelTest, StatisticsAreThoseOfTheRowsOfAllRanks) {
  const Batch batch = MakeTestBatch(TestPolicy::kPpo, kRows, /*seed=*/70);
  const absl::Span<const float> obs = batch.column<float>("obs");
  const int64_t width = static_cast<int64_t>(obs.size()) / kRows;
  RunningNormalizer alone(width, 10);
  for (int round = 0; round < 2; ++round) alone.Update(obs);
  RunRanks(InProcess(), 3, kLong, [&](AllReduce* reduce) {
    GroupMember group;
    group.Enter(Borrow(reduce));
    RunningNormalizer shared(width, 10);
    const int64_t begins[] = {0, 31, kRows, kRows};  // none for the last one
    for (int round = 0; round < 2; ++round) {
      const int64_t begin = begins[reduce->rank()] * width;
      const int64_t end = begins[reduce->rank() + 1] * width;
      ASSERT_THAT(
          shared.Update(obs.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                        [&](absl::Span<double> values) { return SumOverLearners(&group, values); }),
          IsOk());
    }
    EXPECT_EQ(shared.count(), 2 * kRows);
    for (int64_t i = 0; i < width; ++i) {
      const auto column = static_cast<size_t>(i);
      EXPECT_NEAR(shared.mean()[column], alone.mean()[column], 1e-12);
      EXPECT_NEAR(shared.Variance(i), alone.Variance(i), 1e-12);
    }
    // An error of one rank is an error for all, and changes nothing.
    const int64_t count = shared.count();
    EXPECT_THAT(
        shared.Update(obs,
                      [&](absl::Span<double> values) {
                        return SumOverLearners(&group, values,
                                               reduce->rank() == 1 ? absl::DataLossError("bad rows")
                                                                   : absl::OkStatus());
                      }),
        StatusIs(reduce->rank() == 1 ? absl::StatusCode::kDataLoss : absl::StatusCode::kAborted));
    EXPECT_EQ(shared.count(), count);
  });
}

// Runs LogReduceHook in a group: the logged value is the mean of the values that the ranks
// reported.
TEST(DataParallelTest, TheHookLogsTheMeanOverTheRanks) {
  RunRanks(InProcess(), 2, kLong, [](AllReduce* reduce) {
    GroupMember group;
    group.Enter(Borrow(reduce));
    const std::unique_ptr<Policy> policy = MakeTestPolicy(TestPolicy::kDqn, &group);
    double reported = 0;
    double reduced = 0;
    LearnerHooks hooks;
    class Read : public LearnerHook {
     public:
      Read(int priority, double* to)
          : LearnerHook("read", priority, HookPosition::kAfterIter), to_(to) {}
      absl::Status Call(LearnerView* learner) override {
        *to_ = learner->current_step()->scalars.GetOr("total_loss", -1);
        return absl::OkStatus();
      }
      double* const to_;
    };
    add_learner_hook(&hooks, std::make_shared<Read>(kLogReduceHookPriority - 1, &reported));
    add_learner_hook(&hooks, std::make_shared<LogReduceHook>("log_reduce", kLogReduceHookPriority,
                                                             HookPosition::kAfterIter));
    add_learner_hook(&hooks, std::make_shared<Read>(kLogReduceHookPriority + 1, &reduced));
    BaseLearner::Options options;
    options.log_policy = false;
    const auto learner =
        BaseLearner::Create(options, policy->learn_mode(), hooks, {}, &group).value();
    ASSERT_THAT(learner->Train(MakeTestBatch(TestPolicy::kDqn, kRows, 3 + reduce->rank())), IsOk());
    std::vector<double> mean = {reported};
    ASSERT_THAT(group.AllReduceMean(absl::MakeSpan(mean)), IsOk());
    EXPECT_NE(reported, reduced);
    EXPECT_EQ(reduced, mean[0]);
  });
}

}  // namespace
}  // namespace ding
