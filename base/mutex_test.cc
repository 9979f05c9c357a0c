#include "ding_worker/base/mutex.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(Mutex, AdmitsOneThreadAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20000;
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        MutexLock lock(&mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(Mutex, TryLockFailsWhileHeld) {
  Mutex mutex;
  mutex.Lock();
  std::thread([&] {
    const bool locked = mutex.TryLock();
    EXPECT_FALSE(locked);
    if (locked) mutex.Unlock();
  }).join();
  mutex.Unlock();
  const bool locked = mutex.TryLock();
  EXPECT_TRUE(locked);
  if (locked) mutex.Unlock();
}

TEST(CondVar, HandsAValueFromThreadToThread) {
  Mutex mutex;
  CondVar changed;
  int turn = 0;
  const auto play = [&](int mine) {
    for (int round = 0; round < 1000; ++round) {
      MutexLock lock(&mutex);
      while (turn % 2 != mine) changed.WaitFor(&mutex, absl::InfiniteDuration());
      ++turn;
      changed.Signal();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn, 2000);
}

TEST(CondVar, AnInfiniteWaitDoesNotReturnAtOnce) {
  Mutex mutex;
  CondVar changed;
  bool ready = false;
  int wakes = 0;
  std::thread waiter([&] {
    MutexLock lock(&mutex);
    while (!ready) {
      changed.WaitUntil(&mutex, Deadline::After(absl::InfiniteDuration()));
      ++wakes;
    }
  });
  absl::SleepFor(absl::Milliseconds(50));
  {
    MutexLock lock(&mutex);
    ready = true;
    changed.SignalAll();
  }
  waiter.join();
  // If the wait returned at once, the loop would have run thousands of times.
  EXPECT_LE(wakes, 10);
}

TEST(CondVar, GivesUpAtTheDeadlineAndHoldsTheMutexAgain) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  const Deadline deadline = Deadline::After(absl::Milliseconds(20));
  while (never.WaitUntil(&mutex, deadline)) {
  }
  EXPECT_TRUE(deadline.Passed());
  EXPECT_FALSE(never.WaitUntil(&mutex, Deadline::After(-absl::InfiniteDuration())));
  std::thread([&] {
    const bool locked = mutex.TryLock();
    EXPECT_FALSE(locked);
    if (locked) mutex.Unlock();
  }).join();
}

}  // namespace
}  // namespace ding
