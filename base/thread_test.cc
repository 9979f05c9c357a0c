#include "ding_worker/base/thread.h"

#include <atomic>
#include <thread>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread_limit_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(StartThreadTest, RunsTheBody) {
  std::atomic<bool> ran{false};
  DING_ASSERT_OK_AND_ASSIGN(std::thread thread, StartThread("a test", [&ran] { ran = true; }));
  thread.join();
  EXPECT_TRUE(ran);
}

TEST(CheckThreadsTest, SucceedsForAFewThreads) {
  EXPECT_THAT(CheckThreads(0), IsOk());
  EXPECT_THAT(CheckThreads(20), IsOk());
}

TEST(StartThreadTest, ReturnsAnErrorWhenTheSystemRefusesAThread) {
  RunInChild([] {
    RefuseThreads();
    EXPECT_THAT(StartThread("a test", [] {}).status(), IsResourceExhausted("a thread for a test"));
    EXPECT_THAT(CheckThreads(3),
                IsResourceExhausted("needs 3 more threads, but could start only 0"));
  });
}

}  // namespace
}  // namespace ding
