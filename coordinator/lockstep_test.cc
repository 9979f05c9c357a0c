// Runs in lockstep: the order in which the rows of tasks count, and what ends such a run.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class LockstepTest : public CoordinatorTest {
 protected:
  // Two collectors have the two tasks of the first round.
  LockstepTest() {
    options_.lockstep_tasks = 2;
    options_.max_train_iter = 20;
    commander_options_.lockstep = true;
    commander_options_.evaluates = false;
    commander_options_.collector_task_space = 2;
    Start();
    Join(kLearner, Hello::LEARNER);
    learner_ = TakeLearnerTask(kLearner);
    Handle(kLearner, Started(learner_.task_id()));
    Join(kCollector, Hello::COLLECTOR);
    Join(kOther, Hello::COLLECTOR);
    EXPECT_THAT(TakeCollectorTask(kCollector).task_id(), IsEmpty()) << "there is no policy";
    Publish(1, 0);
    TakeTasks();
  }
  ~LockstepTest() override { EXPECT_THAT(coordinator_->Close("over"), IsOk()); }

  void Publish(uint64_t version, int64_t train_iter) {
    WorkerMessage message = Version("policy_0", version);
    message.mutable_policy_version()->set_train_iter(train_iter);
    Handle(kLearner, message);
  }
  void TakeTasks() {
    first_ = TakeCollectorTask(kCollector);
    second_ = TakeCollectorTask(kOther);
  }
  // Hands over rows of a task, and does not wait until they are pushed.
  void Push(const CollectorTask& task, uint32_t worker, uint64_t sequence, int64_t rows) {
    coordinator_->Handle(
        worker,
        Data(task.task_id(), sequence,
             TestItemsOfChunk(Chunk(worker, static_cast<uint32_t>(sequence)), rows)),
        [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
    Settle(*coordinator_);
  }
  absl::Status End() { return coordinator_->WaitUntilDone(absl::ZeroDuration()); }

  CollectorTask first_;
  CollectorTask second_;
};

TEST_F(LockstepTest, RowsAreInTheOrderOfTheTasks) {
  EXPECT_EQ(first_.number(), 0);
  EXPECT_EQ(second_.number(), 1);
  Handle(kLearner, Demand(learner_.task_id(), 1, 4, 0, /*batches=*/3));
  Push(second_, kOther, 1, 2);
  EXPECT_THAT(TakeAcks(kOther), IsEmpty()) << "the first task is not over";
  EXPECT_EQ(StatusOf(kOther).waits_for(), "the rows of an earlier task of its round");
  Push(first_, kCollector, 1, 3);
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(1)) << "it came later, and goes first";
  EXPECT_EQ(rows(), 3);
  Handle(kCollector, Finished(first_.task_id(), 1));
  EXPECT_THAT(TakeAcks(kOther), ElementsAre(1));
  EXPECT_EQ(rows(), 5);
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty()) << "the second task may have more";
  EXPECT_EQ(StatusOf(kLearner).waits_for(), "1 of 2 tasks have handed over their rows");
  Handle(kOther, Finished(second_.task_id(), 1));
  const std::vector<LearnerData> answers = TakeAnswers(kLearner);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].items_size(), 3);
}

TEST_F(LockstepTest, AVersionBeginsARound) {
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  Push(first_, kCollector, 1, 3);
  Handle(kCollector, Finished(first_.task_id(), 1));
  Push(second_, kOther, 1, 3);
  EXPECT_THAT(TakeCollectorTask(kCollector).task_id(), IsEmpty());
  Handle(kOther, Finished(second_.task_id(), 1));
  Handle(kLearner, Info(learner_.task_id(), 10));
  EXPECT_THAT(TakeCollectorTask(kOther).task_id(), IsEmpty()) << "the learner learns";
  Publish(2, 10);
  TakeTasks();
  EXPECT_EQ(first_.number(), 2);
  EXPECT_EQ(second_.number(), 3);
  EXPECT_EQ(first_.policy().version(), 2u);
}

TEST_F(LockstepTest, TheLastVersionEndsTheRun) {
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  Push(first_, kCollector, 1, 3);
  Handle(kCollector, Finished(first_.task_id(), 1));
  Push(second_, kOther, 1, 3);
  Handle(kOther, Finished(second_.task_id(), 1));
  Handle(kLearner, Info(learner_.task_id(), 20));
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  Publish(2, 20);
  EXPECT_THAT(End(), IsOk());
}

TEST_F(LockstepTest, ALostCollectorEndsTheRun) {
  Push(second_, kOther, 1, 3);
  Lose(kOther);
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kAborted,
                              HasSubstr("collector_task_1 has failed, and a run in lockstep "
                                        "(system.lockstep) cannot go on without it")));
}

TEST_F(LockstepTest, ARoundWithTooFewRowsEndsTheRun) {
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  Handle(kOther, Finished(second_.task_id(), 1));  // It had no rows.
  Push(first_, kCollector, 1, 3);
  EXPECT_EQ(rows(), 3);
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  Handle(kCollector, Finished(first_.task_id(), 1));
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kOutOfRange,
                              HasSubstr("2 tasks have handed over 3 rows, of which 1 batches of 4 "
                                        "cannot be drawn, expected a round with enough of them")));
}

TEST_F(LockstepTest, AVersionWithoutARoundEndsTheRun) {
  Publish(2, 10);
  EXPECT_THAT(End(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("0 rounds gave 1 new versions of the policy, expected as many")));
}

}  // namespace
}  // namespace ding
