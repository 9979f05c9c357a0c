#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process/env_process_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using Verdict = ProcessDeadline::Verdict;

constexpr ProcessDeadline::Limits kLimits = {absl::Seconds(60), absl::Seconds(5),
                                             absl::Seconds(20)};

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// A process that was started at 0 and does `call`; kKill: it is late `seconds` after that.
Verdict After(int seconds, EnvCall call, const ProcessDeadline::Limits& limits = kLimits) {
  ProcessDeadline deadline;
  deadline.Start(At(0), 0);
  return deadline.Check(At(seconds), 0, call, limits).value();
}

TEST(ProcessDeadlineTest, EachCallHasItsLimit) {
  for (const EnvCall call : {EnvCall::kStarting, EnvCall::kBuild, EnvCall::kIdle}) {
    EXPECT_EQ(After(60, call), Verdict::kInTime);
    EXPECT_EQ(After(61, call), Verdict::kKill);
  }
  EXPECT_EQ(After(5, EnvCall::kStep), Verdict::kInTime);
  EXPECT_EQ(After(6, EnvCall::kStep), Verdict::kKill);
  for (const EnvCall call : {EnvCall::kReset, EnvCall::kRender, EnvCall::kSave, EnvCall::kLoad}) {
    EXPECT_EQ(After(20, call), Verdict::kInTime);
    EXPECT_EQ(After(21, call), Verdict::kKill);
  }
  EXPECT_EQ(After(1000000, EnvCall::kWaiting), Verdict::kInTime) << "it waits for its next attempt";
  EXPECT_EQ(After(1000000, EnvCall::kStep, {}), Verdict::kInTime) << "zero is no limit";
}

TEST(ProcessDeadlineTest, ProgressBeginsTheTimeAnew) {
  ProcessDeadline deadline;
  deadline.Start(At(0), 7);
  EXPECT_EQ(deadline.Check(At(5), 7, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  EXPECT_EQ(deadline.Check(At(6), 8, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  EXPECT_EQ(deadline.Check(At(11), 8, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  EXPECT_THAT(deadline.kill_cause(), IsOk());
  EXPECT_EQ(deadline.Check(At(12), 8, EnvCall::kStep, kLimits).value(), Verdict::kKill);
  EXPECT_THAT(deadline.kill_cause(),
              IsError(absl::StatusCode::kDeadlineExceeded,
                      "its process did not finish a step in 5s (step_timeout)"));
}

TEST(ProcessDeadlineTest, TheTimeBeginsWhenTheCallerBeginsToWait) {
  ProcessDeadline deadline;
  deadline.Start(At(0), 0);
  deadline.Watch(At(100), 0);
  EXPECT_EQ(deadline.Check(At(105), 0, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  deadline.Watch(At(105), 0);  // The caller waits for the same.
  EXPECT_EQ(deadline.Check(At(106), 0, EnvCall::kStep, kLimits).value(), Verdict::kKill);

  deadline.End();
  deadline.Start(At(200), 0);
  EXPECT_THAT(deadline.kill_cause(), IsOk());
  deadline.Watch(At(300), 0);
  EXPECT_EQ(deadline.Check(At(305), 0, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  deadline.Watch(At(305), 1);  // For what the process has begun since.
  EXPECT_EQ(deadline.Check(At(310), 1, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
}

TEST(ProcessDeadlineTest, AProcessThatOutlivesItsKillIsAnError) {
  ProcessDeadline deadline;
  deadline.Start(At(0), 0);
  ASSERT_EQ(deadline.Check(At(6), 0, EnvCall::kStep, kLimits).value(), Verdict::kKill);
  EXPECT_EQ(deadline.Check(At(10), 1, EnvCall::kStep, kLimits).value(), Verdict::kInTime)
      << "it is killed once";
  EXPECT_THAT(deadline.Check(At(11), 1, EnvCall::kStep, kLimits),
              IsError(absl::StatusCode::kInternal,
                      "a process that was killed 5s ago is still there; its process"));
}

}  // namespace
}  // namespace ding
