#include "ding_worker/worker/pipeline/second_thread.h"

#include <memory>
#include <stdexcept>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(SecondThreadTest, WorksBesideItsOwnerAndReturnsWhatTheWorkReturned) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SecondThread> second,
                            SecondThread::Start("counting"));
  EXPECT_THAT(second->Wait(), IsOk()) << "no work is under way";
  int count = 0;
  for (int i = 0; i < 1000; ++i) {
    std::thread::id id;
    second->Begin([&]() -> absl::Status {
      ++count;
      id = std::this_thread::get_id();
      if (count % 2 == 0) return absl::OkStatus();
      return absl::AbortedError("odd");
    });
    EXPECT_THAT(second->Wait(),
                StatusIs(i % 2 == 1 ? absl::StatusCode::kOk : absl::StatusCode::kAborted));
    EXPECT_EQ(count, i + 1);
    EXPECT_NE(id, std::this_thread::get_id());
  }
  EXPECT_THAT(second->Wait(), IsOk()) << "an error is returned once";
}

TEST(SecondThreadTest, AnExceptionIsAnError) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SecondThread> second,
                            SecondThread::Start("learning"));
  second->Begin([]() -> absl::Status { throw std::runtime_error("scripted"); });
  EXPECT_THAT(second->Wait(),
              StatusIs(absl::StatusCode::kInternal, "learning threw an exception: scripted"));
  second->Begin([] { return absl::OkStatus(); });
  EXPECT_THAT(second->Wait(), IsOk());
}

TEST(SecondThreadTest, TheDestructorWaitsForTheWork) {
  bool done = false;
  {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SecondThread> second,
                              SecondThread::Start("sleeping"));
    second->Begin([&] {
      absl::SleepFor(absl::Milliseconds(20));
      done = true;
      return absl::OkStatus();
    });
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace ding
