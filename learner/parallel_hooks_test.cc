#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "ding_worker/metrics/sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Fixture {
  explicit Fixture(int64_t freq, ProcessGroup* group = nullptr) {
    ComponentDeps deps;
    deps.name = "learner";
    BaseLearner::Options options;
    options.train_iterations = 6;
    auto created = BaseLearner::Create(options, &policy, {}, deps, group);
    EXPECT_THAT(created, IsOk());
    learner = *std::move(created);
    const auto send_policy = [this](ILearner* l) {
      policies.push_back(absl::StrCat(l->train_iter(), " weight ", policy.weight));
      return absl::OkStatus();
    };
    for (const auto position : {HookPosition::kBeforeRun, HookPosition::kAfterIter}) {
      learner->RegisterHook(
          std::make_shared<SendPolicyHook>("send_policy", 100, position, freq, send_policy));
    }
    const auto send_info = [this](ILearner* l) {
      const LearnInfo info = l->learn_info();
      infos.push_back(absl::StrCat(info.learner_step, info.learner_done ? " done" : ""));
      return send_status;
    };
    for (const auto position : {HookPosition::kAfterIter, HookPosition::kAfterRun}) {
      learner->RegisterHook(
          std::make_shared<SendLearnInfoHook>("send_learn_info", 100, position, freq, send_info));
    }
  }
  absl::Status Start() {
    return learner->Start([] { return TrainData(); });
  }

  FakeLearnMode policy;
  std::unique_ptr<ILearner> learner;
  std::vector<std::string> policies;
  std::vector<std::string> infos;
  absl::Status send_status;
};

TEST(ParallelHooksTest, SendAfterEveryIteration) {
  Fixture f(1);
  ASSERT_THAT(f.Start(), IsOk());
  EXPECT_THAT(f.policies, ElementsAre("0 weight 0", "1 weight 1", "2 weight 2", "3 weight 3",
                                      "4 weight 4", "5 weight 5", "6 weight 6"));
  EXPECT_THAT(f.infos, ElementsAre("1", "2", "3", "4", "5", "6", "6 done"));
}

TEST(ParallelHooksTest, SendAtTheFrequency) {
  Fixture f(4);
  ASSERT_THAT(f.Start(), IsOk());
  EXPECT_THAT(f.policies, ElementsAre("0 weight 0", "4 weight 4"));
  EXPECT_THAT(f.infos, ElementsAre("4", "6 done"));
}

TEST(ParallelHooksTest, SendOnceAfterSeveralStepsOnABatch) {
  Fixture each(1);
  each.policy.steps_per_batch = 3;
  ASSERT_THAT(each.Start(), IsOk());
  EXPECT_THAT(each.policies, ElementsAre("0 weight 0", "3 weight 3", "6 weight 6"));
  EXPECT_THAT(each.infos, ElementsAre("3", "6", "6 done"));
  // The fourth iteration is within the second batch.
  Fixture fourth(4);
  fourth.policy.steps_per_batch = 3;
  ASSERT_THAT(fourth.Start(), IsOk());
  EXPECT_THAT(fourth.policies, ElementsAre("0 weight 0", "6 weight 6"));
}

TEST(ParallelHooksTest, AFailureEndsTheRun) {
  Fixture f(2);
  f.send_status = absl::UnavailableError("no store");
  EXPECT_THAT(f.Start(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("hook 'send_learn_info' (after_iter) at iteration 2: no store")));
  EXPECT_EQ(f.learner->train_iter(), 2);
}

class SecondOfTwo : public ProcessGroup {
 public:
  int rank() const override { return 1; }
  int world_size() const override { return 2; }
  absl::Status AllReduceMean(absl::Span<double> /*values*/) override { return absl::OkStatus(); }
};

// The other ranks still report the priorities of their own rows.
TEST(ParallelHooksTest, OtherRanksPublishNothing) {
  SecondOfTwo group;
  Fixture f(1, &group);
  ASSERT_THAT(f.Start(), IsOk());
  EXPECT_THAT(f.policies, IsEmpty());
  EXPECT_THAT(f.infos, Not(IsEmpty()));
}

}  // namespace
}  // namespace ding
