#include "ding_worker/adapter/group_demands.h"

#include <limits>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/adapter/testing/rows.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::SizeIs;

LearnerDemand Demand(uint64_t sequence, int64_t rows, uint64_t read = 0) {
  LearnerDemand demand;
  demand.set_task_id("a");
  demand.set_sequence(sequence);
  demand.set_batch_size(rows);
  demand.set_batches(2);
  demand.set_read(read);
  return demand;
}

// An answer without items, as a closed buffer gives it.
LearnerData Answer(uint64_t sequence) {
  LearnerData data;
  data.set_task_id("a");
  data.set_sequence(sequence);
  return data;
}

// Adds demands of learner 1, the only one, from number `sequence` on, until the group may not send
// another one. Returns how many demands of the group were made.
uint64_t DemandUntilFull(GroupDemands* demands, uint64_t sequence) {
  uint64_t made = 0;
  while (true) {
    EXPECT_THAT(demands->Add(1, Demand(sequence++, 3)), IsOk());
    if (!demands->Next().has_value()) return made;
    ++made;
  }
}

TEST(GroupDemandsTest, MergesDemandsAndSplitsTheRowsOfTheAnswer) {
  GroupDemands demands;
  demands.BeginGeneration({7, 3});
  ASSERT_THAT(demands.Add(3, Demand(50, 1)), IsOk());
  EXPECT_FALSE(demands.Next().has_value()) << "learner 7 demands nothing yet";
  ASSERT_THAT(demands.Add(7, Demand(60, 2)), IsOk());
  const std::optional<LearnerDemand> demand = demands.Next();
  ASSERT_TRUE(demand.has_value());
  EXPECT_EQ(demand->sequence(), 1u);
  EXPECT_EQ(demand->read(), 0u);
  EXPECT_EQ(demand->batch_size(), 3);
  EXPECT_FALSE(demands.Next().has_value());

  LearnerData data = Answer(1);
  data.set_envstep(77);
  data.add_items(EncodedRows(0, 3));
  data.add_items(EncodedRows(100, 3));
  DING_ASSERT_OK_AND_ASSIGN(const auto shares, demands.Split(data));
  ASSERT_THAT(shares, SizeIs(2));
  EXPECT_EQ(shares[0].learner, 7u);
  const LearnerData& of_7 = shares[0].message.learner_data();
  EXPECT_EQ(of_7.task_id(), "a");
  EXPECT_EQ(of_7.sequence(), 60u);
  EXPECT_EQ(of_7.envstep(), 77);
  EXPECT_THAT(RowsIn(of_7.items(0)), Optional(ElementsAre(0, 1)));
  EXPECT_THAT(RowsIn(of_7.items(1)), Optional(ElementsAre(100, 101)));
  EXPECT_EQ(shares[1].learner, 3u);
  const LearnerData& of_3 = shares[1].message.learner_data();
  EXPECT_EQ(of_3.sequence(), 50u);
  EXPECT_THAT(RowsIn(of_3.items(0)), Optional(ElementsAre(2)));
  DING_ASSERT_OK_AND_ASSIGN(const auto again, demands.Split(data));
  EXPECT_THAT(again, IsEmpty()) << "an answer counts once";
}

TEST(GroupDemandsTest, ARoundOfAnotherSizeIsSplitEvenly) {
  GroupDemands demands;
  demands.BeginGeneration({7, 3});
  LearnerDemand of_7 = Demand(60, 2);
  of_7.add_collect_iter(12);
  LearnerDemand of_3 = Demand(50, 2);
  of_3.add_collect_iter(8);
  ASSERT_THAT(demands.Add(3, of_3), IsOk());
  ASSERT_THAT(demands.Add(7, of_7), IsOk());
  const std::optional<LearnerDemand> demand = demands.Next();
  ASSERT_TRUE(demand.has_value());
  EXPECT_EQ(demand->batch_size(), 4);
  EXPECT_THAT(demand->collect_iter(), ElementsAre(12)) << "of the one that publishes";
  LearnerData data = Answer(1);
  data.add_items(EncodedRows(0, 9));
  DING_ASSERT_OK_AND_ASSIGN(const auto shares, demands.Split(data));
  ASSERT_THAT(shares, SizeIs(2));
  EXPECT_THAT(RowsIn(shares[0].message.learner_data().items(0)),
              Optional(ElementsAre(0, 1, 2, 3, 4)));
  EXPECT_THAT(RowsIn(shares[1].message.learner_data().items(0)), Optional(ElementsAre(5, 6, 7, 8)));
}

TEST(GroupDemandsTest, ADemandIsReadWhenAllLearnersHaveReadTheirShares) {
  GroupDemands demands;
  demands.BeginGeneration({1, 2});
  const auto next = [&demands](uint64_t sequence, uint64_t read_by_1, uint64_t read_by_2) {
    EXPECT_THAT(demands.Add(1, Demand(sequence, 4, read_by_1)), IsOk());
    EXPECT_THAT(demands.Add(2, Demand(sequence, 4, read_by_2)), IsOk());
    return demands.Next().value().read();
  };
  EXPECT_EQ(next(1, 0, 0), 0u);
  EXPECT_EQ(next(2, 0, 0), 0u);
  EXPECT_THAT(demands.Add(1, Demand(3, 4, /*read=*/1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("read up to demand 1, but demand 1 is not answered")));
  ASSERT_THAT(demands.Split(Answer(1)), IsOk());
  ASSERT_THAT(demands.Split(Answer(2)), IsOk());
  EXPECT_EQ(next(3, 2, 0), 0u) << "learner 2 has read nothing";
  EXPECT_EQ(next(4, 2, 1), 1u);
  EXPECT_EQ(next(5, 2, 2), 2u);
}

TEST(GroupDemandsTest, RefusesDemandsThatTheCoordinatorWouldRefuse) {
  GroupDemands demands;
  demands.BeginGeneration({1, 2});
  EXPECT_THAT(demands.Add(1, Demand(1, std::numeric_limits<int64_t>::max())),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a demand for 2 batches")));
  EXPECT_THAT(
      demands.Add(1, Demand(1, int64_t{1} << 21)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("if all learners of the group")));
  LearnerDemand backward = Demand(1, 4);
  backward.set_train_iter(-1);
  EXPECT_THAT(demands.Add(1, backward),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("train iterations")));
}

TEST(GroupDemandsTest, LimitsHowFarALearnerIsAheadOfTheOthers) {
  GroupDemands demands;
  demands.BeginGeneration({1, 2});
  for (uint64_t sequence = 1; sequence <= 1024; ++sequence) {
    ASSERT_THAT(demands.Add(1, Demand(sequence, 1)), IsOk());
  }
  EXPECT_THAT(demands.Add(1, Demand(1025, 1)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1024 demands wait")));
}

TEST(GroupDemandsTest, LimitsUnansweredAndUnreadDemands) {
  GroupDemands demands;
  demands.BeginGeneration({1});
  EXPECT_EQ(DemandUntilFull(&demands, 1), 32u);
  ASSERT_THAT(demands.Split(Answer(1)), IsOk());
  uint64_t demanded = demands.Next().value().sequence();
  EXPECT_EQ(demanded, 33u) << "an answer makes room for one more demand";
  // All demands are answered, but the learner reads nothing.
  for (uint64_t answered = 2; answered <= demanded; ++answered) {
    ASSERT_THAT(demands.Split(Answer(answered)), IsOk());
    ASSERT_THAT(demands.Add(1, Demand(1000 + answered, 3)), IsOk());
    if (demands.Next().has_value()) ++demanded;
  }
  EXPECT_EQ(demanded, 512u);
}

TEST(GroupDemandsTest, DropsAnswersToAnEarlierGeneration) {
  GroupDemands demands;
  demands.BeginGeneration({1});
  ASSERT_EQ(DemandUntilFull(&demands, 1), 32u);
  demands.EndGeneration();
  demands.BeginGeneration({1, 2});
  ASSERT_THAT(demands.Add(1, Demand(1, 3)), IsOk());
  ASSERT_THAT(demands.Add(2, Demand(1, 3)), IsOk());
  EXPECT_FALSE(demands.Next().has_value()) << "the coordinator still has 32 to answer";
  LearnerData data = Answer(1);
  data.add_items("no rows, but nobody decodes them");
  DING_ASSERT_OK_AND_ASSIGN(const auto shares, demands.Split(data));
  EXPECT_THAT(shares, IsEmpty());
  const LearnerDemand demand = demands.Next().value();
  EXPECT_EQ(demand.sequence(), 33u);
  EXPECT_EQ(demand.read(), 1u) << "nobody will read it";
}

TEST(GroupDemandsTest, TheEndOfTheTaskMarksAllDemandsAsRead) {
  GroupDemands demands;
  demands.BeginGeneration({1});
  ASSERT_EQ(DemandUntilFull(&demands, 1), 32u);
  demands.EndTask();
  DING_ASSERT_OK_AND_ASSIGN(const auto shares, demands.Split(Answer(1)));
  EXPECT_THAT(shares, IsEmpty());
  demands.BeginGeneration({1});
  ASSERT_THAT(demands.Add(1, Demand(1, 3)), IsOk());
  const LearnerDemand demand = demands.Next().value();
  EXPECT_EQ(demand.sequence(), 33u) << "the numbers continue as long as the session lasts";
  EXPECT_EQ(demand.read(), 32u);
}

TEST(GroupDemandsTest, RefusesAnAnswerWithAWrongNumberOfRows) {
  GroupDemands demands;
  demands.BeginGeneration({1});
  ASSERT_THAT(demands.Add(1, Demand(1, 3)), IsOk());
  ASSERT_TRUE(demands.Next().has_value());
  LearnerData data = Answer(1);
  data.add_items(EncodedRows(0, 4));
  EXPECT_THAT(demands.Split(data),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a batch of 4 rows")));
}

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
