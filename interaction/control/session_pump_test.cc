#include "ding_worker/interaction/control/session_pump.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(20);

// Counts how often it runs.
class CountingJob {
 public:
  explicit CountingJob(absl::Duration again, std::function<void()> during = nullptr)
      : again_(again), during_(std::move(during)) {}

  absl::Duration Run() {
    if (during_ != nullptr) during_();
    MutexLock lock(&mutex_);
    ++runs_;
    ran_.SignalAll();
    return again_;
  }
  // Waits until the job has run `runs` times, but not longer than `timeout` for each run. Whether
  // it has.
  bool WaitForRuns(int runs, absl::Duration timeout) {
    MutexLock lock(&mutex_);
    while (runs_ < runs && ran_.WaitFor(&mutex_, timeout)) {
    }
    return runs_ >= runs;
  }
  int runs() {
    MutexLock lock(&mutex_);
    return runs_;
  }
  std::shared_ptr<SessionPump::Job> AddTo(SessionPump* pump) {
    return pump->Add([this] { return Run(); });
  }

 private:
  const absl::Duration again_;
  const std::function<void()> during_;
  Mutex mutex_;
  CondVar ran_;
  int runs_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(SessionPumpTest, AProcessHasOnePump) {
  DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<SessionPump> pump, SessionPump::Get());
  DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<SessionPump> same, SessionPump::Get());
  EXPECT_EQ(pump, same);
}

TEST(SessionPumpTest, AJobRunsWhenItIsWoken) {
  DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<SessionPump> pump, SessionPump::Get());
  CountingJob job(absl::InfiniteDuration());
  const auto waker = job.AddTo(pump.get());
  EXPECT_FALSE(job.WaitForRuns(1, kShort));
  for (int i = 1; i <= 100; ++i) {
    SessionPump::Wake(waker.get());
    ASSERT_TRUE(job.WaitForRuns(i, kLong));
  }
  EXPECT_FALSE(job.WaitForRuns(101, kShort));
  pump->Remove(waker.get());
  SessionPump::Wake(waker.get());
  EXPECT_FALSE(job.WaitForRuns(101, kShort));
}

TEST(SessionPumpTest, AJobRunsAgainAfterTheTimeItReturned) {
  DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<SessionPump> pump, SessionPump::Get());
  CountingJob often(absl::Milliseconds(1));
  CountingJob late(absl::Hours(1));
  const auto late_waker = late.AddTo(pump.get());
  SessionPump::Wake(late_waker.get());
  const auto waker = often.AddTo(pump.get());
  SessionPump::Wake(waker.get());
  EXPECT_TRUE(often.WaitForRuns(10, kLong));
  EXPECT_EQ(late.runs(), 1);
  pump->Remove(waker.get());
  pump->Remove(late_waker.get());
}

TEST(SessionPumpTest, AJobWokenWhileRunningRunsOnceMore) {
  DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<SessionPump> pump, SessionPump::Get());
  std::shared_ptr<SessionPump::Job> waker;
  int wakes = 0;
  CountingJob job(absl::InfiniteDuration(), [&] {
    if (wakes++ < 5) SessionPump::Wake(waker.get());
  });
  waker = job.AddTo(pump.get());
  SessionPump::Wake(waker.get());
  EXPECT_TRUE(job.WaitForRuns(6, kLong));
  EXPECT_FALSE(job.WaitForRuns(7, kShort));
  pump->Remove(waker.get());
}

TEST(SessionPumpTest, RemoveWaitsForTheJobAndAWakerMayOutliveThePump) {
  DING_ASSERT_OK_AND_ASSIGN(std::shared_ptr<SessionPump> pump, SessionPump::Get());
  Mutex mutex;
  CondVar changed;
  bool inside = false, ended = false;
  auto job = std::make_unique<CountingJob>(absl::ZeroDuration(), [&] {
    MutexLock lock(&mutex);
    inside = true;
    changed.SignalAll();
    changed.WaitFor(&mutex, kShort);
    ended = true;
  });
  const auto waker = job->AddTo(pump.get());
  SessionPump::Wake(waker.get());
  {
    MutexLock lock(&mutex);
    while (!inside) changed.WaitFor(&mutex, kLong);
    ended = false;
  }
  pump->Remove(waker.get());
  job.reset();
  pump.reset();
  SessionPump::Wake(waker.get());
  MutexLock lock(&mutex);
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace ding
