// Gives a test the coordinator's end of one worker's session, and a fixture for tests of slaves
// (SlaveTest).
//
// Threads: thread-safe, except for Join() and JoinWith().
// Errors:  a message that cannot be sent or parsed ends the test's process.
//
// Example:
//   FakeCoordinator coordinator;
//   const std::unique_ptr<WorkerSession> worker = coordinator.Join();
//   coordinator.StartCollector("task_0");
//   EXPECT_EQ(coordinator.Receive().task_started().task_id(), "task_0");
#ifndef DING_WORKER_INTERACTION_TESTING_FAKE_COORDINATOR_H_
#define DING_WORKER_INTERACTION_TESTING_FAKE_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gtest/gtest.h"

namespace ding {

class FakeCoordinator {
 public:
  static constexpr char kAddress[] = "coordinator";
  static constexpr uint32_t kWorker = 7;

  FakeCoordinator();
  ~FakeCoordinator();

  // Returns a worker's session whose other end is session().
  std::unique_ptr<WorkerSession> Join();
  // Does the same, but calls `greet` in place of answering the worker's Hello.
  absl::StatusOr<std::unique_ptr<WorkerSession>> JoinWith(
      const WorkerSession::Options& options,
      const std::function<void(const Hello&, Session*)>& greet);
  static CoordinatorMessage MakeWelcome();

  InProcessTransport* transport() { return &transport_; }
  Session* session() { return session_.get(); }

  void Send(const CoordinatorMessage& message);
  // Start tasks with "buffer_0" and "policy_0".
  void StartCollector(const std::string& task_id);
  void StartLearner(const std::string& task_id, uint64_t first_version = 1);
  void CloseTask(const std::string& task_id);
  void Acknowledge(const std::string& task_id, uint64_t sequence);
  void Publish(const std::string& policy_id, uint64_t version, const std::string& key);
  void EndRun(const std::string& reason);

  // Returns the next message, or an empty one if none arrives within a minute.
  WorkerMessage Receive();
  // Returns the next message that `wanted` accepts, or an empty one as Receive() does. Drops the
  // others.
  WorkerMessage ReceiveUntil(const std::function<bool(const WorkerMessage&)>& wanted);
  // Whether a message arrives within a short time. Tests use it to check that no message arrives.
  bool HearsMore();

 private:
  InProcessTransport transport_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Session> session_;
};

// A fixture for tests of what the worker's side of the control plane sends and receives: a slave
// whose coordinator is controlled by the test. Its tasks have no thread; the test does their work.
// `SlaveType` is constructed from a session and Slave::Callbacks.
//
// Example:
//   using MySlaveTest = SlaveTest<MySlave>;
//   TEST_F(MySlaveTest, ...) {
//     coordinator_.StartLearner("a");
//     WaitForStart("a");
//     EXPECT_THAT(slave_.Started(), IsOk());
//   }
template <typename SlaveType>
class SlaveTest : public testing::Test {
 protected:
  SlaveTest()
      : worker_(coordinator_.Join()),
        slave_(worker_.get(), {[this](const StartTask& start) { NoteStart(start); },
                               /*close=*/nullptr}),
        serving_([this] { slave_.Serve().status().IgnoreError(); }) {}
  void TearDown() override {
    coordinator_.session()->Close("the test is over");
    serving_.join();
  }

  // Waits until the slave has begun the task.
  void WaitForStart(const std::string& task_id) {
    MutexLock lock(&mutex_);
    while (started_ != task_id) ASSERT_TRUE(changed_.WaitFor(&mutex_, absl::Minutes(1)));
  }

  FakeCoordinator coordinator_;
  const std::unique_ptr<WorkerSession> worker_;

 private:
  void NoteStart(const StartTask& start) {
    MutexLock lock(&mutex_);
    started_ = start.has_collector() ? start.collector().task_id() : start.learner().task_id();
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::string started_ ABSL_GUARDED_BY(mutex_);

 protected:
  SlaveType slave_;

 private:
  std::thread serving_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TESTING_FAKE_COORDINATOR_H_
