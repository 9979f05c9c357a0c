// A coordinator for tests of servers: it gives no tasks, and notes who came and what was said.
//
// Threads: thread-safe.
#ifndef DING_WORKER_COORDINATOR_TESTING_NOTING_COORDINATOR_H_
#define DING_WORKER_COORDINATOR_TESTING_NOTING_COORDINATOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class NotingCoordinator : public Coordinator {
 public:
  void Start() override {}
  void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& /*peer*/) override {
    MutexLock lock(&mutex_);
    names_[worker] = hello.name();
    changed_.SignalAll();
  }
  void WorkerLost(uint32_t worker, const absl::Status& why) override {
    MutexLock lock(&mutex_);
    lost_[names_[worker]] = why;
    names_.erase(worker);
    changed_.SignalAll();
  }
  void Handle(uint32_t worker, WorkerMessage message, Done done) override {
    CoordinatorMessage answer;
    if (message.has_status_request()) {
      *answer.mutable_run_status() = status();
    } else if (message.has_operator_request()) {
      answer.mutable_operator_reply()->set_message(
          absl::StrCat("grown by ", message.operator_request().grow()));
    } else if (on_handle != nullptr) {
      return done(on_handle(worker, message));
    } else {
      MutexLock lock(&mutex_);
      heard_.push_back(absl::StrCat(names_[worker], ": ", message.task_started().task_id()));
      if (holds) held_.push_back(std::exchange(done, nullptr));
      changed_.SignalAll();
    }
    if (answer.message_case() != CoordinatorMessage::MESSAGE_NOT_SET) sender->Send(worker, answer);
    if (done != nullptr) done(absl::OkStatus());
  }
  void Admit(const Hello& /*hello*/, Admitted admitted) override {
    if (decides_nothing) return;
    uint32_t worker = 0;
    {
      MutexLock lock(&mutex_);
      worker = ++last_worker_;
    }
    admitted(worker);
  }
  bool DealWithCollectorJudgeFinish(const CollectorFinished& /*info*/) const override {
    return false;
  }
  bool DealWithLearnerJudgeFinish(const LearnerInfo& /*info*/) const override { return false; }
  absl::Status CloseJournal() override { return absl::OkStatus(); }
  void KeepData() override {}
  int32_t incarnation() const override { return 1; }
  absl::Status WaitUntilDone(absl::Duration /*timeout*/) override { return absl::OkStatus(); }
  void RequestEnd(const std::string& /*reason*/) override {}
  absl::Status Close(const std::string& /*reason*/) override { return absl::OkStatus(); }
  RunStatus status() const override {
    RunStatus status;
    status.set_run("run-7");
    return status;
  }
  Counters counters() const override { return {}; }

  // Waits until this worker is lost, and returns why it was.
  absl::Status WhyLost(const std::string& name) {
    MutexLock lock(&mutex_);
    while (lost_.count(name) == 0) {
      if (!changed_.WaitFor(&mutex_, absl::Minutes(1))) return absl::UnknownError("it is not lost");
    }
    return lost_[name];
  }
  uint32_t NumberOf(const std::string& name) {
    MutexLock lock(&mutex_);
    while (true) {
      for (const auto& [worker, other] : names_) {
        if (other == name) return worker;
      }
      if (!changed_.WaitFor(&mutex_, absl::Minutes(1))) return 0;
    }
  }
  // Waits for that many workers: a worker has its Welcome a moment before the handler knows it.
  bool WaitForWorkers(size_t count) {
    MutexLock lock(&mutex_);
    while (names_.size() < count) {
      if (!changed_.WaitFor(&mutex_, absl::Minutes(1))) return false;
    }
    return true;
  }
  std::vector<std::string> heard(size_t at_least) {
    MutexLock lock(&mutex_);
    while (heard_.size() < at_least && changed_.WaitFor(&mutex_, absl::Minutes(1))) {
    }
    return heard_;
  }
  size_t present() const {
    MutexLock lock(&mutex_);
    return names_.size();
  }
  size_t joined() const {
    MutexLock lock(&mutex_);
    return names_.size() + lost_.size();
  }

  // Says that the messages which it holds are done.
  void ReleaseHeld() {
    std::vector<Done> held;
    {
      MutexLock lock(&mutex_);
      held.swap(held_);
    }
    for (const Done& done : held) done(absl::OkStatus());
  }

  // Set these before use.
  WorkerSender* sender = nullptr;
  std::function<absl::Status(uint32_t, const WorkerMessage&)> on_handle;
  std::atomic<bool> decides_nothing{false};  // whether Admit() never answers
  std::atomic<bool> holds{false};            // whether messages are not done until ReleaseHeld()

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  uint32_t last_worker_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status> lost_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> heard_ ABSL_GUARDED_BY(mutex_);
  std::vector<Done> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TESTING_NOTING_COORDINATOR_H_
