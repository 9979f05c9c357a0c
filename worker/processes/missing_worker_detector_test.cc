#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/processes/operator_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MissingWorkerDetectorTest : public testing::Test {
 protected:
  std::vector<int64_t> Update(std::initializer_list<int64_t> pids) {
    RunStatus status;
    for (const int64_t pid : pids) status.add_worker()->set_pid(pid);
    return watch_.Update(status.worker());
  }

  SimulatedClock clock_;
  MissingWorkerDetector watch_{absl::Seconds(3), &clock_};
};

TEST_F(MissingWorkerDetectorTest, AWorkerAwayForTooLongIsReportedOnce) {
  EXPECT_THAT(Update({1, 2, 3}), IsEmpty());
  clock_.Advance(absl::Seconds(100));
  EXPECT_THAT(Update({2}), ElementsAre(1, 3)) << "nobody was seen for so long";
  EXPECT_THAT(Update({2}), IsEmpty());
}

TEST_F(MissingWorkerDetectorTest, AWorkerThatReturnsInTimeIsNotReported) {
  EXPECT_THAT(Update({1, 2}), IsEmpty());
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(Update({2}), IsEmpty());
  clock_.Advance(absl::Milliseconds(999));
  EXPECT_THAT(Update({1, 2}), IsEmpty());
  clock_.Advance(absl::Milliseconds(2999));
  EXPECT_THAT(Update({2}), IsEmpty());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_THAT(Update({2}), ElementsAre(1));
}

TEST_F(MissingWorkerDetectorTest, ForgiveRestartsTheTime) {
  EXPECT_THAT(Update({1}), IsEmpty());
  clock_.Advance(absl::Seconds(2));
  watch_.Forgive();
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(Update({}), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Update({}), ElementsAre(1));
}

TEST_F(MissingWorkerDetectorTest, AWorkerThatNeverJoinedIsNotReported) {
  clock_.Advance(absl::Seconds(100));
  EXPECT_THAT(Update({}), IsEmpty());
}

}  // namespace
}  // namespace ding
