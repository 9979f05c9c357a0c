#include "ding_worker/interaction/control/slave.h"

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(1);

// A slave without messages of its own. It runs the function of the test as the task.
class TestSlave : public Slave {
 public:
  using Task = std::function<void(TestSlave*)>;

  TestSlave(WorkerSession* session, Task task)
      : Slave(session, {[this](const StartTask& start) {
                          Note("run " + start.collector().task_id());
                          task_(this);
                        },
                        [this] { Note("close"); }}),
        task_(std::move(task)) {}

  using Slave::EndTask;
  using Slave::task_id;

  void Note(const std::string& what) {
    MutexLock lock(&noted_mutex_);
    noted_.push_back(what);
  }
  std::vector<std::string> noted() const {
    MutexLock lock(&noted_mutex_);
    return noted_;
  }
  int taken() const {
    MutexLock lock(&mutex_);
    return taken_;
  }

 private:
  void ResetTask(const StartTask&) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { taken_ = 0; }
  void Take(const CoordinatorMessage&) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ++taken_; }

  const Task task_;
  int taken_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable Mutex noted_mutex_;
  std::vector<std::string> noted_ ABSL_GUARDED_BY(noted_mutex_);
};

// A task that waits until it is closed, and reports how it ended.
void WaitForClose(TestSlave* slave) {
  EXPECT_THAT(slave->Started(), IsOk());
  slave->Fail(slave->Pause(kLong)).IgnoreError();  // The session may be over.
}

class SlaveTest : public testing::Test {
 protected:
  void Serve(TestSlave::Task task) {
    slave_ = std::make_unique<TestSlave>(worker_.get(), std::move(task));
    serving_ = std::thread([this] { end_ = slave_->Serve(); });
  }
  absl::StatusOr<EndRun> End() {
    if (serving_.joinable()) serving_.join();
    return end_;
  }
  void TearDown() override {
    coordinator_.session()->Close("the test is over");
    End().IgnoreError();
  }

  FakeCoordinator coordinator_;
  const std::unique_ptr<WorkerSession> worker_ = coordinator_.Join();
  std::unique_ptr<TestSlave> slave_;
  std::thread serving_;
  absl::StatusOr<EndRun> end_ = absl::UnknownError("serves");
};

TEST_F(SlaveTest, RunsATaskAndEndsWithTheRun) {
  Serve(WaitForClose);
  coordinator_.StartCollector("a");
  EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "a");
  coordinator_.CloseTask("a");
  const WorkerMessage failed = coordinator_.Receive();
  EXPECT_EQ(failed.task_failed().task_id(), "a");
  EXPECT_EQ(failed.task_failed().code(), static_cast<int>(absl::StatusCode::kCancelled));
  coordinator_.EndRun("over");
  DING_ASSERT_OK_AND_ASSIGN(const EndRun end, End());
  EXPECT_EQ(end.reason(), "over");
}

TEST_F(SlaveTest, AFailedTaskReportsItsReason) {
  Serve([](TestSlave* slave) {
    EXPECT_THAT(slave->Fail(absl::InternalError("env 3 died")), IsOk());
  });
  coordinator_.StartCollector("a");
  const WorkerMessage failed = coordinator_.Receive();
  EXPECT_EQ(failed.task_failed().message(), "env 3 died");
  EXPECT_EQ(failed.task_failed().code(), static_cast<int>(absl::StatusCode::kInternal));
}

TEST_F(SlaveTest, ClosingAnotherTaskIsIgnored) {
  Serve(WaitForClose);
  coordinator_.StartCollector("a");
  EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "a");
  coordinator_.CloseTask("b");
  EXPECT_FALSE(coordinator_.HearsMore());
  EXPECT_THAT(slave_->TaskStatus(), IsOk());
}

// CloseTask and StartTask arrive immediately after each other, while the old task is at work.
TEST_F(SlaveTest, TheNextTaskStartsAfterTheOldOneIsOver) {
  std::atomic<bool> closed{false};
  std::atomic<int> begun{0};
  Serve([&](TestSlave* slave) {
    const std::string id = slave->task_id();
    EXPECT_THAT(slave->Started(), IsOk());
    if (begun++ > 0) {
      slave->Fail(slave->Pause(kLong)).IgnoreError();  // The session may be over.
      return;
    }
    while (!closed) absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(absl::Milliseconds(20));  // time for the next task to become known too early
    EXPECT_THAT(slave->TaskStatus(), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(slave->task_id(), id);
    EXPECT_THAT(slave->Fail(slave->TaskStatus()), IsOk());
    slave->CancelTask();  // as a loader does that is closed late
  });
  coordinator_.StartCollector("a");
  EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "a");
  coordinator_.CloseTask("a");
  coordinator_.StartCollector("b");
  closed = true;
  EXPECT_EQ(coordinator_.Receive().task_failed().task_id(), "a");
  EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "b");
  EXPECT_THAT(slave_->TaskStatus(), IsOk());
  EXPECT_EQ(slave_->noted().back(), "run b");
  TearDown();  // The task uses local variables of this function.
}

TEST_F(SlaveTest, StartTaskClosesTheRunningTask) {
  Serve(WaitForClose);
  coordinator_.StartCollector("a");
  EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "a");
  coordinator_.StartCollector("b");
  EXPECT_EQ(coordinator_.Receive().task_failed().task_id(), "a");
  EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "b");
}

TEST_F(SlaveTest, TheEndOfTheSessionEndsTheTask) {
  absl::Status seen;
  Serve([&seen](TestSlave* slave) {
    EXPECT_THAT(slave->Started(), IsOk());
    seen = slave->Pause(kLong);
  });
  coordinator_.StartCollector("a");
  EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "a");
  coordinator_.session()->Close("enough");
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  EXPECT_THAT(seen, StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
}

TEST_F(SlaveTest, AnInvalidMessageEndsServing) {
  Serve(WaitForClose);
  EXPECT_THAT(coordinator_.session()->Send("\xff\xff", kLong), IsOk());
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SlaveTest, ServeReturnsCancelledAfterTheWorkerLeaves) {
  Serve(WaitForClose);
  worker_->Close("leaves");
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(SlaveTest, OtherMessagesGoToTheSubclass) {
  Serve(WaitForClose);
  coordinator_.Acknowledge("a", 1);
  coordinator_.Publish("policy_0", 1, "key");
  coordinator_.EndRun("over");
  EXPECT_THAT(End(), IsOk());
  EXPECT_EQ(slave_->taken(), 2);
  EXPECT_THAT(slave_->noted(), ElementsAre("close"));
}

TEST_F(SlaveTest, TaskThatThrows_FailsWithTheText) {
  Serve([](TestSlave*) { throw std::runtime_error("no envs"); });
  coordinator_.StartCollector("a");
  const WorkerMessage message = coordinator_.Receive();
  EXPECT_EQ(message.task_failed().task_id(), "a");
  EXPECT_THAT(message.task_failed().message(), HasSubstr("threw an exception: no envs"));
}

}  // namespace
}  // namespace ding
