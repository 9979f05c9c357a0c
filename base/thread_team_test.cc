#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ThreadTeamTest, CallsTheWorkOnceForEachMember) {
  for (const int size : {1, 2, 3, 8}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ThreadTeam> team,
                              ThreadTeam::Create(size, "a test"));
    EXPECT_EQ(team->size(), size);
    std::vector<int> calls(static_cast<size_t>(size));
    for (int round = 1; round <= 200; ++round) {
      team->Run([&](int member) { ++calls[static_cast<size_t>(member)]; });
      EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(size), round));
    }
  }
}

TEST(ThreadTeamTest, MembersWorkAtTheSameTime) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ThreadTeam> team,
                            ThreadTeam::Create(3, "a test"));
  // Each member returns only when all have come, which would never happen one after the other.
  std::atomic<int> here{0};
  team->Run([&](int) {
    here.fetch_add(1);
    while (here.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(here.load(), 3);
}

TEST(ThreadTeamTest, ThreadsThatSleepWakeForTheNextWork) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ThreadTeam> team,
                            ThreadTeam::Create(2, "a test"));
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
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ThreadTeam> team,
                            ThreadTeam::Create(2, "a test"));
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
