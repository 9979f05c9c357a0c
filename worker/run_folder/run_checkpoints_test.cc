#include "ding_worker/worker/run_folder/run_checkpoints.h"

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<CheckpointComponent> Number(int64_t value) {
  return {{"number", [value](StateWriter* writer) { return writer->WriteInt("value", value); }}};
}

std::vector<CheckpointComponent> Failing() {
  return {{"number", [](StateWriter*) { return absl::ResourceExhaustedError("disk full"); }}};
}

class RunCheckpointsTest : public testing::Test {
 protected:
  RunCheckpointsTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/run_checkpoints_XXXXXX");
    folder_ = mkdtemp(folder.data());
  }
  ~RunCheckpointsTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string Path(absl::string_view name) const {
    return JoinPath(folder_, absl::StrCat("ckpt/", name));
  }
  std::vector<std::string> Names() const {
    const absl::StatusOr<std::vector<std::string>> names = ListDirectory(Path(""));
    EXPECT_THAT(names, IsOk());
    return names.value_or(std::vector<std::string>());
  }
  // Returns the number in the newest resume point, or -1 if there is none.
  int64_t Newest() const {
    const absl::StatusOr<std::optional<ResumePoint>> point = OpenNewestResumePoint(folder_);
    EXPECT_THAT(point, IsOk());
    if (!point.ok() || !point->has_value()) return -1;
    const int64_t number = *(*(*point)->checkpoint.Component("number"))->ReadInt("value");
    EXPECT_EQ((*point)->position, number);
    return number;
  }
  void WriteResumePoints(const std::vector<int64_t>& env_steps) {
    RunCheckpoints checkpoints(folder_);
    for (const int64_t env_step : env_steps) {
      checkpoints.SaveResumePoint(env_step, {"test", {}}, Number(env_step));
      EXPECT_THAT(checkpoints.Flush(), IsOk());
    }
  }

  std::string folder_;
};

TEST_F(RunCheckpointsTest, KeepsTheLastTwoResumePointsAndAllThatHaveNames) {
  {
    RunCheckpoints checkpoints(folder_);
    EXPECT_THAT(checkpoints.Save("iteration_1", {"test", {}}, Number(1)), IsOk());
    EXPECT_THAT(checkpoints.Save("ckpt_best", {"test", {}}, Number(2)), IsOk());
    EXPECT_THAT(checkpoints.Save("ckpt_best", {"test", {}}, Number(3)), IsOk());
  }
  WriteResumePoints({8, 80, 90, 100});  // This is not the alphabetical order of the names.
  EXPECT_THAT(Names(), ElementsAre("ckpt_best", "iteration_1", "resume_100", "resume_90"));
  EXPECT_EQ(Newest(), 100);
}

TEST_F(RunCheckpointsTest, ThereMayBeNoResumePoint) {
  EXPECT_EQ(Newest(), -1);
  EXPECT_THAT(CleanUpCheckpoints(folder_, -1), IsOk());
}

TEST_F(RunCheckpointsTest, PassesOverDamagedPoints) {
  WriteResumePoints({10, 20});
  ASSERT_THAT(RemoveRecursively(Path("resume_20/number.safetensors")), IsOk());
  EXPECT_EQ(Newest(), 10);
  ASSERT_THAT(RemoveRecursively(Path("resume_10/manifest.json")), IsOk());
  EXPECT_EQ(Newest(), -1);
}

// Fails while `full` is true.
std::vector<CheckpointComponent> NumberUnlessFull(int64_t value, const std::atomic<bool>* full) {
  return {{"number", [value, full](StateWriter* writer) {
             return full->load() ? absl::ResourceExhaustedError("disk full")
                                 : writer->WriteInt("value", value);
           }}};
}

TEST_F(RunCheckpointsTest, WhatCannotBeWrittenIsWrittenLater) {
  std::atomic<bool> full{true};
  SimulatedClock clock;
  RunCheckpoints checkpoints(folder_, &clock);
  EXPECT_THAT(checkpoints.Save("ckpt_best", {"test", {}}, NumberUnlessFull(1, &full)), IsOk());
  EXPECT_THAT(checkpoints.Save("iteration_1", {"test", {}}, NumberUnlessFull(2, &full)), IsOk());
  checkpoints.SaveResumePoint(7, {"test", {}}, NumberUnlessFull(7, &full));
  EXPECT_THAT(checkpoints.Flush(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  // A newer one takes the place of the first.
  EXPECT_THAT(checkpoints.Save("ckpt_best", {"test", {}}, NumberUnlessFull(3, &full)), IsOk());
  EXPECT_THAT(checkpoints.Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Names(), testing::IsEmpty());
  full = false;
  clock.Advance(SaveOutage::kRetryPeriod);
  EXPECT_THAT(checkpoints.Retry(), IsOk());
  EXPECT_THAT(checkpoints.Flush(), IsOk());
  EXPECT_THAT(Names(), ElementsAre("ckpt_best", "iteration_1", "resume_7"));
  EXPECT_EQ(*(*CheckpointReader::Open(Path("ckpt_best"))->Component("number"))->ReadInt("value"),
            3);
}

TEST_F(RunCheckpointsTest, AnOutageThatLastsIsAnError) {
  SimulatedClock clock;
  RunCheckpoints checkpoints(folder_, &clock);
  EXPECT_THAT(checkpoints.Save("ckpt_best", {"test", {}}, Failing()), IsOk());
  EXPECT_THAT(checkpoints.Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
  clock.Advance(SaveOutage::kPatience);
  EXPECT_THAT(checkpoints.Retry(), IsOk());
  const auto too_long = StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("checkpoint ckpt_best could not be written for 10m"));
  EXPECT_THAT(checkpoints.Flush(), too_long);
  EXPECT_THAT(checkpoints.Retry(), too_long);
  EXPECT_THAT(checkpoints.Save("iteration_1", {"test", {}}, Number(1)), too_long);
}

TEST_F(RunCheckpointsTest, OfManyThatCannotBeWrittenTheNewestAreKept) {
  std::atomic<bool> full{true};
  RunCheckpoints checkpoints(folder_);
  for (int i = 1; i <= 6; ++i) {
    EXPECT_THAT(
        checkpoints.Save(absl::StrCat("iteration_", i), {"test", {}}, NumberUnlessFull(i, &full)),
        IsOk());
    EXPECT_THAT(checkpoints.Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
  }
  full = false;
  EXPECT_THAT(checkpoints.Flush([] { return false; }), IsOk());
  EXPECT_THAT(Names(), ElementsAre("iteration_3", "iteration_4", "iteration_5", "iteration_6"));
}

TEST_F(RunCheckpointsTest, AResumePointThatFailsTakesNoOlderOneAway) {
  WriteResumePoints({10, 20});
  RunCheckpoints checkpoints(folder_);
  checkpoints.SaveResumePoint(30, {"test", {}}, Failing());
  EXPECT_THAT(checkpoints.Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Names(), ElementsAre("resume_10", "resume_20"));  // No point was removed for it.
  checkpoints.SaveResumePoint(40, {"test", {}}, Number(40));
  EXPECT_THAT(checkpoints.Flush(), IsOk());
  EXPECT_THAT(Names(), ElementsAre("resume_20", "resume_40"));
}

TEST_F(RunCheckpointsTest, CleansUpAfterAKilledProcess) {
  WriteResumePoints({10, 20});
  ASSERT_THAT(CreateDirectories(Path("resume_30.tmp.77.0")), IsOk());
  // This checkpoint was set aside, and its successor is in its place.
  ASSERT_THAT(CreateDirectories(Path("resume_20.old.77")), IsOk());
  // This checkpoint was set aside, and the process was killed before the successor got into its
  // place.
  ASSERT_THAT(RenamePath(Path("resume_10"), Path("ckpt_best.old.77")), IsOk());
  ASSERT_THAT(CleanUpCheckpoints(folder_, 20), IsOk());
  EXPECT_THAT(Names(), ElementsAre("ckpt_best", "resume_20"));
  EXPECT_THAT(CheckpointReader::Open(Path("ckpt_best")), IsOk());
  // Now the resume point is later than the one from which the run continues.
  ASSERT_THAT(CleanUpCheckpoints(folder_, 19), IsOk());
  EXPECT_THAT(Names(), ElementsAre("ckpt_best"));
}

}  // namespace
}  // namespace ding
