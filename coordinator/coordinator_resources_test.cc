// What becomes of tasks that need more than a worker has.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CoordinatorResourcesTest : public CoordinatorTest {
 protected:
  void JoinWith(uint32_t worker, Hello::Role role, double cpus, int64_t memory_bytes, int gpus) {
    Hello hello = HelloOf(role, cpus);
    hello.mutable_resources()->set_memory_bytes(memory_bytes);
    hello.mutable_resources()->set_gpus(gpus);
    coordinator_->WorkerJoined(worker, hello, "peer");
    Settle(*coordinator_);
  }
  absl::Status EndOfRun() { return coordinator_->WaitUntilDone(absl::ZeroDuration()); }
  bool GoesOn() { return absl::IsDeadlineExceeded(EndOfRun()); }
  std::vector<std::string> Warnings() {
    const RunStatus status = coordinator_->status();
    return {status.warning().begin(), status.warning().end()};
  }
};

TEST_F(CoordinatorResourcesTest, ALearnerWithEnoughGetsTheTask) {
  commander_options_.learner_resources.set_cpus(2);
  commander_options_.learner_resources.set_memory_bytes(1000);
  commander_options_.learner_resources.set_gpus(1);
  Start();
  JoinWith(kLearner, Hello::LEARNER, 2, 1000, 1);
  EXPECT_EQ(TakeLearnerTask(kLearner).resources().gpus(), 1);
  EXPECT_THAT(Warnings(), IsEmpty());
  EXPECT_TRUE(GoesOn());
}

TEST_F(CoordinatorResourcesTest, WhenTheOnlyLearnerHasTooLittleTheRunEndsAtOnce) {
  commander_options_.learner_resources.set_cpus(1);
  commander_options_.learner_resources.set_memory_bytes(1000);
  commander_options_.learner_resources.set_gpus(2);
  Start();
  EXPECT_THAT(Warnings(), IsEmpty()) << "nobody has joined";
  JoinWith(kLearner, Hello::LEARNER, 8, 999, 1);
  const auto why = AllOf(
      HasSubstr("no learner that has joined has what learner_task_0 needs"),
      HasSubstr("the largest one is LEARNER-x: "
                "policy.other.commander.learner_resources.memory_bytes is 1000, and it has 999; "
                "policy.other.commander.learner_resources.gpus is 2, and it has 1."));
  EXPECT_THAT(EndOfRun(), StatusIs(absl::StatusCode::kFailedPrecondition, why));
  EXPECT_THAT(Warnings(), ElementsAre(why));
  EXPECT_TRUE(IsLetGo(kLearner));
}

TEST_F(CoordinatorResourcesTest, SaysAtOnceWhatLacksAndWaitsForExpectedCollectors) {
  options_.collectors = 3;
  commander_options_.collector_resources.set_cpus(4);
  Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  JoinWith(kCollector, Hello::COLLECTOR, 1, 0, 0);
  JoinWith(kOther, Hello::COLLECTOR, 2, 0, 0);
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("collector_resources.cpus is 4, and it has 2")));
  EXPECT_TRUE(GoesOn());
  EXPECT_THAT(TakeCollectorTask(kCollector).task_id(), IsEmpty());
  JoinWith(kOther + 1, Hello::COLLECTOR, 4, 0, 0);
  EXPECT_EQ(TakeCollectorTask(kOther + 1).task_id(), "collector_task_0");
  EXPECT_THAT(Warnings(), IsEmpty());
  EXPECT_TRUE(GoesOn());
}

TEST_F(CoordinatorResourcesTest, EndsWhenAllExpectedCollectorsHaveTooLittle) {
  options_.collectors = 2;
  commander_options_.collector_resources.set_gpus(1);
  Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  Join(kCollector, Hello::COLLECTOR);
  EXPECT_TRUE(GoesOn());
  Join(kOther, Hello::COLLECTOR);
  EXPECT_THAT(EndOfRun(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("collector_resources.gpus is 1, and it has 0")));
}

TEST_F(CoordinatorResourcesTest, EndsWhenTheTaskHasWaitedForTooLong) {
  options_.collectors = 2;
  commander_options_.collector_resources.set_gpus(1);
  Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  Join(kCollector, Hello::COLLECTOR);
  Advance(options_.collector_task_timeout - absl::Seconds(1));
  EXPECT_TRUE(GoesOn());
  Advance(absl::Seconds(1));
  EXPECT_THAT(EndOfRun(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("collector_resources.gpus is 1, and it has 0")));
}

TEST_F(CoordinatorResourcesTest, ARunThatHadAWorkerWithEnoughWaitsForOneToComeBack) {
  commander_options_.learner_resources.set_gpus(1);
  Start();
  JoinWith(kLearner, Hello::LEARNER, 1, 0, 1);
  EXPECT_EQ(TakeLearnerTask(kLearner).task_id(), "learner_task_0");
  JoinWith(kOther, Hello::LEARNER, 1, 0, 0);
  Lose(kLearner);
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("learner_resources.gpus is 1, and it has 0")));
  Advance(options_.learner_task_timeout);
  EXPECT_TRUE(GoesOn());
  JoinWith(kOther + 1, Hello::LEARNER, 1, 0, 1);
  EXPECT_THAT(TakeLearnerTask(kOther + 1).task_id(), HasSubstr("learner_task_"));
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(CoordinatorResourcesTest, AnAggregatorGetsTheTaskWhenItsLearnersHaveEnough) {
  commander_options_.learner_resources.set_cpus(4);
  Start();
  Hello hello = HelloOf(Hello::LEARNER);
  hello.clear_resources();
  coordinator_->WorkerJoined(kLearner, hello, "peer");
  Settle(*coordinator_);
  EXPECT_TRUE(GoesOn()) << "its learners are yet to come";
  WorkerMessage message;
  message.mutable_resources()->set_cpus(2);
  Handle(kLearner, message);
  EXPECT_TRUE(GoesOn());
  EXPECT_THAT(TakeLearnerTask(kLearner).task_id(), IsEmpty());
  message.mutable_resources()->set_cpus(4);
  Handle(kLearner, message);
  EXPECT_EQ(TakeLearnerTask(kLearner).task_id(), "learner_task_0");
}

TEST_F(CoordinatorResourcesTest, StatusShowsTheResourcesOfAWorker) {
  Start();
  JoinWith(kLearner, Hello::LEARNER, 2.5, 1000, 3);
  const Resources shown = StatusOf(kLearner).resources();
  EXPECT_EQ(shown.cpus(), 2.5);
  EXPECT_EQ(shown.memory_bytes(), 1000);
  EXPECT_EQ(shown.gpus(), 3);
}

TEST_F(CoordinatorResourcesTest, NegativeNeedsAreRefused) {
  commander_options_.collector_resources.set_cpus(-1);
  commander_options_.collector_resources.set_memory_bytes(-2);
  commander_options_.learner_resources.set_gpus(-3);
  EXPECT_THAT(SoloCommander::Problems(commander_options_),
              ElementsAre("collector_resources.cpus is -1, expected at least 0 cores",
                          "collector_resources.memory_bytes is -2, expected at least 0 bytes",
                          "learner_resources.gpus is -3, expected at least 0"));
}

}  // namespace
}  // namespace ding
