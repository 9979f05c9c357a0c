#include "ding_worker/worker/run_folder/save_outage.h"

#include <string>

#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

absl::Status Full() { return absl::ResourceExhaustedError("No space left on device"); }

TEST(SaveOutageTest, Note_FailuresWithinThePatience_LetTheRunGoOn) {
  SimulatedClock clock;
  SaveOutage outage(&clock);
  EXPECT_THAT(outage.Note("ckpt_best", Full()), IsOk());
  clock.Advance(SaveOutage::kPatience - absl::Seconds(1));
  EXPECT_THAT(outage.Note("ckpt_best", Full()), IsOk());
  EXPECT_THAT(outage.Note("ckpt_best", absl::OkStatus()), IsOk());
  clock.Advance(absl::Seconds(2));
  EXPECT_THAT(outage.Note("ckpt_best", Full()), IsOk()) << "this is another outage";
}

TEST(SaveOutageTest, Note_AnOutageBeyondThePatience_IsTheErrorOfWhatFails) {
  SimulatedClock clock;
  SaveOutage outage(&clock);
  EXPECT_THAT(outage.Note("iteration_10", Full()), IsOk());
  // Another file that can be written does not end the outage.
  clock.Advance(absl::Minutes(5));
  EXPECT_THAT(outage.Note("result.json", absl::OkStatus()), IsOk());
  clock.Advance(absl::Minutes(5));
  EXPECT_THAT(outage.Note("iteration_20", Full()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("iteration_20 could not be written for 10m: No space left")));
}

TEST(SaveOutageTest, Wait_TriesAgainUntilItIsWritten) {
  SaveOutage outage(Clock::Real());
  int calls = 0;
  const auto save = [&] { return ++calls < 2 ? Full() : absl::OkStatus(); };
  EXPECT_THAT(outage.Wait("result.json", save, [] { return false; }), IsOk());
  EXPECT_EQ(calls, 2);
}

TEST(SaveOutageTest, Wait_EndsAtOnceIfItIsStoppedOrTheCauseCannotPass) {
  SaveOutage outage(Clock::Real());
  EXPECT_THAT(outage.Wait("result.json", Full, [] { return true; }),
              StatusIs(absl::StatusCode::kResourceExhausted));
  const auto limited = [] { return absl::ResourceExhaustedError("cannot write: File too large"); };
  EXPECT_THAT(outage.Wait("result.json", limited, [] { return false; }),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace ding
