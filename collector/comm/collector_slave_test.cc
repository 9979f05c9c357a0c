#include "ding_worker/collector/comm/collector_slave.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr uint64_t kWindow = CollectorProtocol::kMaxUnacknowledged;

class CollectorSlaveTest : public SlaveTest<CollectorSlave> {
 protected:
  void Start(const std::string& task_id) {
    coordinator_.StartCollector(task_id);
    WaitForStart(task_id);
  }
  void Start(const CollectorTask& task) {
    CoordinatorMessage message;
    *message.mutable_start_task()->mutable_collector() = task;
    coordinator_.Send(message);
    WaitForStart(task.task_id());
  }
  absl::Status Announce(const std::string& items = "items") {
    CollectorProgress progress;
    progress.cur_step = ++steps_;
    return slave_.Announce(items, progress);
  }
  void AnnounceAll(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_THAT(Announce(), IsOk());
  }
  // On a thread of its own, after as many as may be under way.
  absl::Status AnnounceOneMore(const std::function<void()>& meanwhile) {
    absl::Status status = absl::UnknownError("waits");
    std::thread announcing([&] { status = Announce(); });
    meanwhile();
    announcing.join();
    return status;
  }

  int64_t steps_ = 0;
};

TEST_F(CollectorSlaveTest, AnnouncesInOrderWithProgress) {
  Start("a");
  AnnounceAll(2);
  for (uint64_t i = 1; i <= 2; ++i) {
    const CollectorData data = coordinator_.Receive().collector_data();
    EXPECT_EQ(data.task_id(), "a");
    EXPECT_EQ(data.sequence(), i);
    EXPECT_EQ(data.items(), "items");
    EXPECT_EQ(data.progress().cur_step(), static_cast<int64_t>(i));
  }
}

TEST_F(CollectorSlaveTest, WaitsForAnAcknowledgementWhenTooManyAreUnderWay) {
  Start("a");
  AnnounceAll(kWindow);
  for (uint64_t i = 0; i < kWindow; ++i) coordinator_.Receive();
  const absl::Status status = AnnounceOneMore([this] {
    EXPECT_FALSE(coordinator_.HearsMore()) << "it waits";
    coordinator_.Acknowledge("a", 1);
    EXPECT_EQ(coordinator_.Receive().collector_data().sequence(), kWindow + 1);
  });
  EXPECT_THAT(status, IsOk());
}

TEST_F(CollectorSlaveTest, ATaskMayAskForFewerUnderWay) {
  CollectorTask task;
  task.set_task_id("a");
  task.set_max_unacknowledged(1);
  Start(task);
  AnnounceAll(1);
  coordinator_.Receive();
  const absl::Status status = AnnounceOneMore([this] {
    EXPECT_FALSE(coordinator_.HearsMore()) << "it waits";
    coordinator_.Acknowledge("a", 1);
    EXPECT_EQ(coordinator_.Receive().collector_data().sequence(), 2u);
  });
  EXPECT_THAT(status, IsOk());
}

TEST_F(CollectorSlaveTest, ATaskMayWaitForEachAcknowledgement) {
  CollectorTask task;
  task.set_task_id("a");
  task.set_max_unacknowledged(0);
  Start(task);
  for (const bool closed : {false, true}) {
    std::atomic<bool> returned{false};
    absl::Status status = absl::UnknownError("waits");
    std::thread announcing([&] {
      status = Announce();
      returned = true;
    });
    coordinator_.Receive();
    EXPECT_FALSE(coordinator_.HearsMore());
    EXPECT_FALSE(returned) << "it waits";
    closed ? slave_.CancelTask() : coordinator_.Acknowledge("a", 1);
    announcing.join();
    EXPECT_THAT(status, IsOk()) << "it was announced, also if the task is closed meanwhile";
  }
  EXPECT_THAT(Announce(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(CollectorSlaveTest, ActsAtRandomUntilAnAcknowledgementDoesNotSaySo) {
  CollectorTask task;
  task.set_task_id("a");
  EXPECT_FALSE(slave_.acts_at_random());
  task.set_acts_at_random(true);
  Start(task);
  EXPECT_TRUE(slave_.acts_at_random());
  AnnounceAll(2);
  CoordinatorMessage message;
  message.mutable_collector_data_ack()->set_task_id("a");
  message.mutable_collector_data_ack()->set_sequence(1);
  message.mutable_collector_data_ack()->set_acts_at_random(true);
  coordinator_.Send(message);
  coordinator_.Acknowledge("another task", 1);
  coordinator_.Acknowledge("a", 2);
  for (int i = 0; i < 5000 && slave_.acts_at_random(); ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_FALSE(slave_.acts_at_random());
}

// An acknowledgement that comes again, or late, does not make room twice.
TEST_F(CollectorSlaveTest, RepeatedAcknowledgementsHaveNoEffect) {
  Start("a");
  AnnounceAll(kWindow);
  for (uint64_t i = 0; i < kWindow; ++i) coordinator_.Receive();
  coordinator_.Acknowledge("a", 2);
  coordinator_.Acknowledge("a", 2);
  coordinator_.Acknowledge("a", 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(AnnounceOneMore([this] { coordinator_.Receive(); }), IsOk());
  }
  const absl::Status status = AnnounceOneMore([this] {
    EXPECT_FALSE(coordinator_.HearsMore());
    coordinator_.CloseTask("a");
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(CollectorSlaveTest, ClosingTheTaskWakesTheWait) {
  Start("a");
  AnnounceAll(kWindow);
  EXPECT_THAT(AnnounceOneMore([this] { coordinator_.CloseTask("a"); }),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(CollectorSlaveTest, TheEndOfTheSessionWakesTheWait) {
  Start("a");
  AnnounceAll(kWindow);
  EXPECT_THAT(AnnounceOneMore([this] { coordinator_.session()->Close("enough"); }),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
}

// Its task was closed, and what it announced was never acknowledged.
TEST_F(CollectorSlaveTest, TheNextTaskDoesNotWaitForTheLastOnes) {
  Start("a");
  AnnounceAll(kWindow);
  coordinator_.CloseTask("a");
  Start("b");
  AnnounceAll(kWindow);
  const WorkerMessage last = coordinator_.ReceiveUntil([](const WorkerMessage& message) {
    return message.collector_data().sequence() == 2 * kWindow;
  });
  EXPECT_EQ(last.collector_data().task_id(), "b");
}

TEST_F(CollectorSlaveTest, ANumberThatWasNotSentIsUsedAgain) {
  Start("a");
  EXPECT_THAT(Announce(std::string(kMaxMessageBytes, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Announce(), IsOk());
  EXPECT_EQ(coordinator_.Receive().collector_data().sequence(), 1u);
}

TEST_F(CollectorSlaveTest, TheNewestPolicyWins) {
  Start("a");
  EXPECT_FALSE(slave_.NewerPolicy(0, 0, absl::ZeroDuration()).value().has_value());
  coordinator_.Publish("policy_0", 3, "three");
  coordinator_.Publish("policy_0", 2, "late");
  coordinator_.Publish("policy_1", 9, "of another task");
  coordinator_.Publish("policy_0", 4, "four");
  const std::optional<PolicyVersion> newest = slave_.NewerPolicy(0, 3, kLong).value();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->version(), 4u);
  EXPECT_EQ(newest->key(), "four");
  EXPECT_FALSE(slave_.NewerPolicy(0, 4, absl::Milliseconds(20)).value().has_value());
}

// Two who play against each other: what one was before, it stays.
TEST_F(CollectorSlaveTest, OnlyALearningPlayerGetsNewerPolicies) {
  CollectorTask task;
  task.set_task_id("a");
  task.set_policy_id("policy_0");
  task.add_player()->set_update_policy(true);
  PolicyVersion* const pinned = task.add_player()->mutable_policy();
  pinned->set_policy_id("policy_0");
  pinned->set_version(2);
  pinned->set_key("two");
  Start(task);
  coordinator_.Publish("policy_0", 5, "five");
  EXPECT_EQ(slave_.NewerPolicy(0, 0, kLong).value()->key(), "five");
  EXPECT_EQ(slave_.NewerPolicy(1, 0, kLong).value()->key(), "two");
  EXPECT_FALSE(slave_.NewerPolicy(1, 2, absl::Milliseconds(20)).value().has_value());
  EXPECT_TRUE(slave_.FollowsPolicy(0));
  EXPECT_FALSE(slave_.FollowsPolicy(1));
  EXPECT_THAT(slave_.NewerPolicy(2, 0, kLong),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in a task of 2")));
}

// Two evaluations of one version are the same: a newer one comes only when that cannot be read.
TEST_F(CollectorSlaveTest, AnEvaluationUsesThePolicyThatItsTaskNames) {
  CollectorTask task;
  task.set_task_id("a");
  task.set_policy_id("policy_0");
  task.set_eval_flag(true);
  task.mutable_policy()->set_version(2);
  task.mutable_policy()->set_key("two");
  Start(task);
  coordinator_.Publish("policy_0", 5, "five");
  EXPECT_EQ(slave_.NewerPolicy(0, 2, kLong).value()->key(), "five");
  EXPECT_EQ(slave_.NewerPolicy(0, 0, kLong).value()->key(), "two");
  task.set_task_id("b");
  task.clear_policy();
  Start(task);
  coordinator_.Publish("policy_0", 6, "six");
  EXPECT_EQ(slave_.NewerPolicy(0, 0, kLong).value()->key(), "six") << "there was none";
}

TEST_F(CollectorSlaveTest, ATaskBeginsWithoutThePolicyOfTheLastOne) {
  Start("a");
  coordinator_.Publish("policy_0", 3, "three");
  EXPECT_TRUE(slave_.NewerPolicy(0, 0, kLong).value().has_value());
  Start("b");
  EXPECT_FALSE(slave_.NewerPolicy(0, 0, absl::ZeroDuration()).value().has_value());
}

TEST_F(CollectorSlaveTest, WaitingForAPolicyEndsWithTheTask) {
  Start("a");
  std::thread closing([this] { coordinator_.CloseTask("a"); });
  EXPECT_THAT(slave_.NewerPolicy(0, 0, kLong), StatusIs(absl::StatusCode::kCancelled));
  closing.join();
}

TEST_F(CollectorSlaveTest, StallsAndEndsAreReported) {
  Start("a");
  AnnounceAll(1);
  EXPECT_THAT(slave_.ReportStall("the store is full"), IsOk());
  coordinator_.Receive();
  const CollectorData stalled = coordinator_.Receive().collector_data();
  EXPECT_FALSE(stalled.has_sequence());
  EXPECT_EQ(stalled.progress().stalled(), "the store is full");
  EXPECT_EQ(stalled.progress().cur_step(), 1) << "with the progress so far";
  CollectorFinished info;
  info.set_collector_done(true);
  EXPECT_THAT(slave_.Finish(info), IsOk());
  EXPECT_EQ(coordinator_.Receive().collector_finished().task_id(), "a");
}

}  // namespace
}  // namespace ding
