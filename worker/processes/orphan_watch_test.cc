#include <unistd.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/worker/processes/supervisor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ExitedWithCode;

constexpr int kLivedOn = 7;

// Whether the supervisor lives, and whether the process works for a session that is over or not.
struct Situation {
  bool supervisor_lives = false;
  bool has_session = false;
  bool session_is_over = false;
};

// Lives in the situation for a second and then ends with kLivedOn.
void LiveIn(Situation situation) {
  OrphanWatch watch;
  OrphanWatch::Options options;
  options.supervisor_lives = [&situation] { return situation.supervisor_lives; };
  options.patience = absl::Milliseconds(100);
  ASSERT_THAT(watch.Start(options), IsOk());
  if (situation.has_session) watch.SetSession([&situation] { return !situation.session_is_over; });
  absl::SleepFor(absl::Seconds(1));
  _exit(kLivedOn);
}

class OrphanWatchDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(OrphanWatchDeathTest, AWorkerThatWaitsToJoinEndsWithItsSupervisor) {
  EXPECT_EXIT(LiveIn({}), ExitedWithCode(1), "is gone and it has not ended within 100ms");
}

TEST_F(OrphanWatchDeathTest, AWorkerWhoseSessionIsOverEndsWithItsSupervisor) {
  Situation situation;
  situation.has_session = true;
  situation.session_is_over = true;
  EXPECT_EXIT(LiveIn(situation), ExitedWithCode(1), "it is ended now");
}

TEST_F(OrphanWatchDeathTest, AWorkerWithASessionWorksOnWithoutItsSupervisor) {
  Situation situation;
  situation.has_session = true;
  EXPECT_EXIT(LiveIn(situation), ExitedWithCode(kLivedOn), "");
}

TEST_F(OrphanWatchDeathTest, ASupervisedWorkerIsLeftAlone) {
  Situation situation;
  situation.supervisor_lives = true;
  EXPECT_EXIT(LiveIn(situation), ExitedWithCode(kLivedOn), "");
}

}  // namespace
}  // namespace ding
