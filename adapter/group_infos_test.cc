#include <string>

#include "absl/status/status.h"
#include "ding_worker/adapter/group_demands.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LearnerInfo Info(int64_t step, float priority, bool done = false) {
  LearnerInfo info;
  info.set_task_id("a");
  info.set_learner_step(step);
  info.set_learner_done(done);
  info.add_priority(priority);
  info.add_replay_unique_id(4);
  info.add_replay_buffer_idx(5);
  return info;
}

LearnerInfo Stalled(const std::string& why) {
  LearnerInfo info = Info(5, 1);
  info.set_stalled(why);
  return info;
}

TEST(GroupInfosTest, MergesTheReportsOfOneStepInRankOrder) {
  GroupInfos infos;
  infos.BeginGeneration({7, 3});
  ASSERT_THAT(infos.Add(3, Info(5, 0.5f)), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto none, infos.Next());
  EXPECT_FALSE(none.has_value()) << "learner 7 has reported nothing";
  ASSERT_THAT(infos.Add(7, Info(5, 0.25f)), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto merged, infos.Next());
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->learner_step(), 5);
  EXPECT_THAT(merged->priority(), ElementsAre(0.25f, 0.5f));
  DING_ASSERT_OK_AND_ASSIGN(const auto no_more, infos.Next());
  EXPECT_FALSE(no_more.has_value());
}

TEST(GroupInfosTest, LearnersAtDifferentStepsAreAnError) {
  GroupInfos infos;
  infos.BeginGeneration({1, 2});
  ASSERT_THAT(infos.Add(1, Info(5, 0)), IsOk());
  ASSERT_THAT(infos.Add(2, Info(6, 0)), IsOk());
  EXPECT_THAT(infos.Next(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("at step 6")));
}

TEST(GroupInfosTest, OnlyTheStalledReportOfRank0IsPassedOn) {
  GroupInfos infos;
  infos.BeginGeneration({7, 3});
  ASSERT_THAT(infos.Add(3, Stalled("no rows")), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto none, infos.Next());
  EXPECT_FALSE(none.has_value());
  ASSERT_THAT(infos.Add(7, Stalled("no data")), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto stalled, infos.Next());
  ASSERT_TRUE(stalled.has_value());
  EXPECT_EQ(stalled->task_id(), "a");
  EXPECT_EQ(stalled->learner_step(), 5);
  EXPECT_EQ(stalled->stalled(), "no data");
  EXPECT_EQ(stalled->priority_size(), 0) << "priorities come with the report of the step";
  DING_ASSERT_OK_AND_ASSIGN(const auto no_more, infos.Next());
  EXPECT_FALSE(no_more.has_value());
}

TEST(GroupInfosTest, RefusesReportsThatTheCoordinatorWouldRefuse) {
  GroupInfos infos;
  infos.BeginGeneration({1, 2});
  EXPECT_THAT(infos.Add(1, Info(-5, 0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-5 steps")));
  EXPECT_THAT(infos.Add(1, Info(5, -1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("priority -1")));
}

TEST(GroupInfosTest, LimitsHowFarALearnerIsAheadOfTheOthers) {
  GroupInfos infos;
  infos.BeginGeneration({1, 2});
  for (int64_t step = 1; step <= 1024; ++step) ASSERT_THAT(infos.Add(1, Info(step, 0)), IsOk());
  EXPECT_THAT(infos.Add(1, Info(1025, 0)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1025 reports of ")));
}

TEST(GroupInfosTest, TheLastReportOfTheRunIsThatOfRank0) {
  GroupInfos infos;
  EXPECT_FALSE(infos.LastOfRun().has_value());
  infos.BeginGeneration({7, 3});
  EXPECT_FALSE(infos.LastOfRun().has_value());
  ASSERT_THAT(infos.Add(3, Info(5, 0, /*done=*/true)), IsOk());
  EXPECT_FALSE(infos.LastOfRun().has_value()) << "it is not that of rank 0";
  infos.BeginGeneration({7, 3});
  ASSERT_THAT(infos.Add(7, Info(5, 0)), IsOk());
  EXPECT_FALSE(infos.LastOfRun().has_value()) << "the run goes on";
  ASSERT_THAT(infos.Add(7, Info(6, 0, /*done=*/true)), IsOk());
  ASSERT_TRUE(infos.LastOfRun().has_value());
  EXPECT_EQ(infos.LastOfRun()->learner_step(), 6);
  infos.EndGeneration();
  EXPECT_FALSE(infos.LastOfRun().has_value());
}

}  // namespace
}  // namespace ding
