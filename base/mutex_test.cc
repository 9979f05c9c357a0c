#include "ding_worker/base/mutex.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread.h"
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

TEST(ThreadTeamTest, CallsTheWorkOnceForEachMember) {
  for (const int size : {1, 2, 3, 8}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto team, ThreadTeam::Create(size, "a test"));
    EXPECT_EQ(team->size(), size);
    std::vector<int> calls(static_cast<size_t>(size));
    for (int round = 1; round <= 200; ++round) {
      team->Run([&](int member) { ++calls[static_cast<size_t>(member)]; });
      EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(size), round));
    }
  }
}

TEST(ThreadTeamTest, MembersWorkAtTheSameTime) {
  DING_ASSERT_OK_AND_ASSIGN(const auto team, ThreadTeam::Create(3, "a test"));
  // Each member returns only when all have come, which would never happen one after the other.
  std::atomic<int> here{0};
  team->Run([&](int) {
    here.fetch_add(1);
    while (here.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(here.load(), 3);
}

TEST(ThreadTeamTest, ThreadsThatSleepWakeForTheNextWork) {
  DING_ASSERT_OK_AND_ASSIGN(const auto team, ThreadTeam::Create(2, "a test"));
  int64_t sum = 0;
  for (int round = 0; round < 20; ++round) {
    // By then the other thread sleeps; and then the caller, while the other one works.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    team->Run([&](int member) {
      if (member == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++sum;
    });
    EXPECT_EQ(sum, round + 1);
  }
}

TEST(ThreadTeamTest, AThreadWhoseTeamIsBusyWorksAlone) {
  DING_ASSERT_OK_AND_ASSIGN(const auto team, ThreadTeam::Create(2, "a test"));
  constexpr int kRounds = 2000;
  const auto count = [&](std::vector<int>* calls) {
    for (int round = 0; round < kRounds; ++round) {
      team->Run([&](int member) { ++(*calls)[static_cast<size_t>(member)]; });
    }
  };
  std::vector<int> calls(2);
  std::vector<int> other_calls(2);
  std::thread other([&] { count(&other_calls); });
  count(&calls);
  other.join();
  EXPECT_EQ(calls, std::vector<int>(2, kRounds));
  EXPECT_EQ(other_calls, std::vector<int>(2, kRounds));
}

}  // namespace
}  // namespace ding
