// A fixture for tests of what the worker's side of the control plane sends and receives: a slave whose
// coordinator is controlled by the test. Its tasks have no thread; the test does their work.
//
// Threads: thread-compatible.
//
// Example:
//   using MySlaveTest = SlaveTest<MySlave>;
//   TEST_F(MySlaveTest, ...) {
//     coordinator_.StartLearner("a");
//     WaitForStart("a");
//     EXPECT_THAT(slave_.Started(), IsOk());
//   }
#ifndef DING_WORKER_INTERACTION_TESTING_SLAVE_TEST_FIXTURE_H_
#define DING_WORKER_INTERACTION_TESTING_SLAVE_TEST_FIXTURE_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "gtest/gtest.h"

namespace ding {

// `SlaveType` is constructed from a session and Slave::Callbacks.
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

#endif  // DING_WORKER_INTERACTION_TESTING_SLAVE_TEST_FIXTURE_H_
