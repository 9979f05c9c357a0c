#include "ding_worker/learner/comm/learner_slave.h"

#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(1);

class LearnerSlaveTest : public SlaveTest<LearnerSlave> {
 protected:
  void Start(const std::string& task_id) {
    coordinator_.StartLearner(task_id);
    WaitForStart(task_id);
  }
  void Answer(const std::string& task_id, uint64_t sequence) {
    CoordinatorMessage message;
    message.mutable_learner_data()->set_task_id(task_id);
    message.mutable_learner_data()->set_sequence(sequence);
    coordinator_.Send(message);
  }
};

TEST_F(LearnerSlaveTest, DemandsAreNumberedAndAnswersComeInOrder) {
  Start("a");
  DING_ASSERT_OK_AND_ASSIGN(const uint64_t first, slave_.Demand(32, 4, 10));
  DING_ASSERT_OK_AND_ASSIGN(const uint64_t second, slave_.Demand(32, 4, 11));
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 2u);
  const LearnerDemand heard = coordinator_.Receive().learner_demand();
  EXPECT_EQ(heard.task_id(), "a");
  EXPECT_EQ(heard.sequence(), 1u);
  EXPECT_EQ(heard.batch_size(), 32);
  EXPECT_EQ(heard.batches(), 4);
  EXPECT_EQ(heard.train_iter(), 10);
  EXPECT_EQ(heard.read(), 0u);
  EXPECT_EQ(coordinator_.Receive().learner_demand().sequence(), 2u);
  Answer("a", 1);
  Answer("a", 2);
  EXPECT_EQ(slave_.NextData(kLong).value().sequence(), 1u);
  EXPECT_EQ(slave_.NextData(kLong).value().sequence(), 2u);
  EXPECT_THAT(slave_.NextData(absl::Milliseconds(10)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("10ms")));
}

TEST(DemandProtocolTest, CountRead_AllBatchesUpToAnAnswer_IsSaidWithTheNextDemand) {
  DemandProtocol demands;
  for (const uint64_t sequence : {1, 2}) {
    EXPECT_EQ(demands.Demand().sequence(), sequence);
    LearnerData data;
    data.set_sequence(sequence);
    data.add_items("");
    data.add_items("");
    demands.Take(data);
    demands.Take(data);  // It comes twice.
    EXPECT_EQ(demands.NextAnswer().sequence(), sequence);
    EXPECT_FALSE(demands.has_answer());
  }
  const auto said = [&demands] { return demands.Demand().read(); };
  demands.CountRead(2);
  demands.CountRead(1);
  EXPECT_EQ(said(), 0u);
  demands.CountRead(1);
  EXPECT_EQ(said(), 1u);
  demands.CountRead(1);  // more than it has
  EXPECT_EQ(said(), 1u);
  demands.CountRead(2);
  EXPECT_EQ(said(), 2u);
}

// So a caller that counts the read parts of an answer counts each once.
TEST_F(LearnerSlaveTest, AnAnswerThatComesTwiceIsHandedOutOnce) {
  Start("a");
  for (const uint64_t sequence : {1, 2, 2, 1, 3}) Answer("a", sequence);
  for (const uint64_t sequence : {1, 2, 3}) {
    DING_ASSERT_OK_AND_ASSIGN(const LearnerData data, slave_.NextData(kLong));
    EXPECT_EQ(data.sequence(), sequence);
  }
}

TEST_F(LearnerSlaveTest, AnswersOfOtherTasksAreDropped) {
  Start("a");
  Answer("a", 1);
  Start("b");
  Answer("a", 2);
  Answer("b", 3);
  EXPECT_EQ(slave_.NextData(kLong).value().sequence(), 3u);
  DING_ASSERT_OK_AND_ASSIGN(const uint64_t sequence, slave_.Demand(1, 1, 0));
  EXPECT_EQ(sequence, 1u) << "numbers are of the worker";
}

TEST_F(LearnerSlaveTest, ClosingTheTaskEndsTheWaitForData) {
  Start("a");
  std::thread closing([this] { coordinator_.CloseTask("a"); });
  EXPECT_THAT(slave_.NextData(kLong), StatusIs(absl::StatusCode::kCancelled));
  closing.join();
  EXPECT_THAT(slave_.Demand(1, 1, 0), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(LearnerSlaveTest, TheEndOfTheSessionEndsTheWaitForData) {
  Start("a");
  std::thread closing([this] { coordinator_.session()->Close("enough"); });
  EXPECT_THAT(slave_.NextData(kLong), StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  closing.join();
}

TEST_F(LearnerSlaveTest, TheLastReportEndsTheTask) {
  Start("a");
  LearnerInfo info;
  info.set_learner_step(3);
  EXPECT_THAT(slave_.SendInfo(info), IsOk());
  EXPECT_EQ(coordinator_.Receive().learner_info().task_id(), "a");
  info.set_learner_done(true);
  EXPECT_THAT(slave_.SendInfo(info), IsOk());
  EXPECT_TRUE(coordinator_.Receive().learner_info().learner_done());
  coordinator_.CloseTask("a");  // as a coordinator does; it is over
  Answer("a", 1);
  Start("b");
  EXPECT_THAT(slave_.TaskStatus(), IsOk());
  EXPECT_THAT(slave_.NextData(absl::ZeroDuration()), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(LearnerSlaveTest, PoliciesArePassedOn) {
  Start("a");
  PolicyVersion policy;
  policy.set_policy_id("policy_0");
  policy.set_version(4);
  EXPECT_THAT(slave_.SendPolicy(policy), IsOk());
  EXPECT_EQ(coordinator_.Receive().policy_version().version(), 4u);
}

}  // namespace
}  // namespace ding
