#include "ding_worker/worker/pipeline/second_thread.h"

#include <utility>

#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {

absl::StatusOr<std::unique_ptr<SecondThread>> SecondThread::Start(absl::string_view purpose) {
  auto second = std::unique_ptr<SecondThread>(new SecondThread(purpose));
  DING_ASSIGN_OR_RETURN(second->thread_,
                        StartThread(purpose, [thread = second.get()] { thread->Run(); }));
  return second;
}

SecondThread::~SecondThread() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void SecondThread::Begin(std::function<absl::Status()> work) {
  MutexLock lock(&mutex_);
  DING_CHECK(work_ == nullptr);
  work_ = std::move(work);
  changed_.SignalAll();
}

absl::Status SecondThread::Wait() {
  MutexLock lock(&mutex_);
  while (work_ != nullptr) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  return std::exchange(result_, absl::OkStatus());
}

void SecondThread::Run() {
  while (true) {
    std::function<absl::Status()> work;
    {
      MutexLock lock(&mutex_);
      while (work_ == nullptr && !closing_) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
      if (work_ == nullptr) return;
      work = work_;
    }
    absl::Status result = CallUser(purpose_, work);
    MutexLock lock(&mutex_);
    result_ = std::move(result);
    work_ = nullptr;
    changed_.SignalAll();
  }
}

}  // namespace ding
