#include "ding_worker/adapter/group_task.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/group_roster.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using State = GroupRoster::State;
using Kind = GroupTask::Step::Kind;

constexpr uint32_t kGroup = 7;

class GroupTaskTest : public testing::Test {
 protected:
  static LearnerTask Task(bool resume = false, uint64_t first_version = 1) {
    LearnerTask task;
    task.set_task_id("a");
    task.set_policy_id("policy_0");
    task.set_resume(resume);
    task.set_first_version(first_version);
    return task;
  }
  GroupTask Make(const LearnerTask& task = Task()) {
    return GroupTask(task, kGroup,
                     {/*learner_num=*/2, absl::Seconds(60), absl::Seconds(45), absl::Seconds(10),
                      "host:1", &clock_});
  }
  void AddReady(uint32_t worker, uint32_t generation = 0, int64_t train_iter = 0) {
    if (!roster_.Has(worker)) roster_.Add(worker, Hello(), "peer", 0);
    GroupReady ready;
    ready.set_generation(generation);
    ready.set_train_iter(train_iter);
    ready.set_model_digest("d");
    EXPECT_THAT(roster_.TakeReady(worker, ready, generation), IsOk());
  }
  void Begin(GroupTask* task) {
    task->BeginGeneration(roster_);
    roster_.BeginGeneration(task->members());
  }
  Kind NextKind(const GroupTask& task) const { return task.NextStep(roster_).kind; }

  SimulatedClock clock_;
  GroupRoster roster_;
};

PolicyVersion Policy(uint64_t version) {
  PolicyVersion policy;
  policy.set_policy_id("policy_0");
  policy.set_version(version);
  policy.set_key(PolicyKey("policy_0", version, kGroup));
  return policy;
}

TEST_F(GroupTaskTest, GathersUntilAllLearnersAreReady) {
  const GroupTask task = Make();
  EXPECT_FALSE(task.running());
  AddReady(1);
  EXPECT_EQ(NextKind(task), Kind::kWait);
  AddReady(2);
  EXPECT_EQ(NextKind(task), Kind::kForm);
}

TEST_F(GroupTaskTest, BeginsWithFewerLearnersAfterTheTimeoutAndFailsWithoutAny) {
  const GroupTask task = Make();
  clock_.Advance(absl::Seconds(59));
  EXPECT_EQ(NextKind(task), Kind::kWait);
  clock_.Advance(absl::Seconds(1));
  const GroupTask::Step step = task.NextStep(roster_);
  EXPECT_EQ(step.kind, Kind::kFail);
  EXPECT_THAT(step.failure, StatusIs(absl::StatusCode::kUnavailable,
                                     HasSubstr("within 1m, expected 2 to join the aggregator at "
                                               "host:1")));
  AddReady(1);
  EXPECT_EQ(NextKind(task), Kind::kForm);
}

TEST_F(GroupTaskTest, OneLearnerLoadsTheCheckpointAndTheGroupWaitsForIt) {
  GroupTask task = Make(Task(/*resume=*/true));
  EXPECT_TRUE(task.StartOn(5).resume());
  EXPECT_FALSE(task.StartOn(1).resume());
  EXPECT_FALSE(task.StartOn(5).resume())
      << "when it gets the task anew, it copies the state of the others";
  EXPECT_EQ(task.StartOn(2).group_worker(), kGroup);
  EXPECT_TRUE(task.NeedsForCheckpoint(5));
  EXPECT_FALSE(task.NeedsForCheckpoint(1));
  AddReady(1);
  AddReady(2);
  EXPECT_EQ(NextKind(task), Kind::kWait);
  clock_.Advance(absl::Seconds(60));
  EXPECT_THAT(task.NextStep(roster_).failure,
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("loads the checkpoint")));
  AddReady(5);
  EXPECT_EQ(NextKind(task), Kind::kForm);
  Begin(&task);
  EXPECT_THAT(task.members(), ElementsAre(5, 1, 2));
  EXPECT_FALSE(task.NeedsForCheckpoint(5));
}

TEST_F(GroupTaskTest, Rank0IsTheFarthestLearnerAndTheOthersFollowInJoinOrder) {
  GroupTask task = Make(Task(/*resume=*/false, /*first_version=*/5));
  AddReady(1);
  AddReady(2);
  Begin(&task);
  EXPECT_TRUE(task.running());
  EXPECT_EQ(task.generation(), 1u);
  EXPECT_THAT(task.members(), ElementsAre(1, 2));
  const FormGroup form = task.FormOf(1);
  EXPECT_EQ(form.task_id(), "a");
  EXPECT_EQ(form.generation(), 1u);
  EXPECT_EQ(form.rank(), 1);
  EXPECT_EQ(form.world_size(), 2);
  EXPECT_EQ(form.first_version(), 5u);
  EXPECT_EQ(NextKind(task), Kind::kWait);

  ASSERT_THAT(task.TakePolicy(Policy(6)), IsOk());
  task.EndGeneration();
  EXPECT_FALSE(task.running());
  AddReady(2, 1, /*train_iter=*/9);
  EXPECT_EQ(NextKind(task), Kind::kWait) << "learner 1 has not left";
  AddReady(1, 1, /*train_iter=*/8);
  AddReady(3, 0, /*train_iter=*/1000);  // This learner was in no generation.
  EXPECT_EQ(NextKind(task), Kind::kForm);
  Begin(&task);
  EXPECT_THAT(task.members(), ElementsAre(2, 1, 3));
  EXPECT_EQ(task.generation(), 2u);
  EXPECT_EQ(task.FormOf(0).first_version(), 8u) << "rank 0 may still write version 7";
}

TEST_F(GroupTaskTest, AMemberThatDoesNotLeaveTheLastGenerationIsLate) {
  GroupTask task = Make();
  AddReady(1);
  AddReady(2);
  Begin(&task);
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(task.Late(roster_), IsEmpty()) << "nobody has to leave";
  task.EndGeneration();
  AddReady(1, 1);
  EXPECT_THAT(task.Late(roster_), IsEmpty());
  clock_.Advance(absl::Seconds(45));
  EXPECT_THAT(task.Late(roster_), ElementsAre(2));
  EXPECT_EQ(NextKind(task), Kind::kWait);
  roster_.SetState(2, State::kStarting);
  EXPECT_EQ(NextKind(task), Kind::kForm);
}

TEST_F(GroupTaskTest, ANewLearnerIsAdmittedAfterTheAdmitPeriod) {
  GroupTask task = Make();
  AddReady(1);
  AddReady(2);
  Begin(&task);
  AddReady(3);
  EXPECT_EQ(NextKind(task), Kind::kWait);
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(NextKind(task), Kind::kBreak);
}

TEST_F(GroupTaskTest, FailsIfNoLearnerIsLeftThatHasTrained) {
  GroupTask task = Make();
  AddReady(1);
  AddReady(2);
  Begin(&task);
  task.EndGeneration();
  roster_.Remove(1);
  roster_.Remove(2);
  AddReady(3);  // This learner has not trained yet.
  EXPECT_THAT(task.NextStep(roster_).failure,
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("all learners of the group")));
  task.TakeFailure(absl::InternalError("the first"));
  task.TakeFailure(absl::AbortedError("the second, because of the first"));
  EXPECT_THAT(task.NextStep(roster_).failure,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("the first")));
}

TEST_F(GroupTaskTest, FailsIfItHasFailedOnAllMembers) {
  GroupTask task = Make();
  AddReady(1);
  AddReady(2);
  Begin(&task);
  task.TakeFailure(absl::AbortedError("could not take this step"));
  roster_.SetState(1, State::kFailed);
  EXPECT_EQ(NextKind(task), Kind::kWait) << "the other one may report the cause";
  roster_.SetState(2, State::kFailed);
  EXPECT_THAT(task.NextStep(roster_).failure, StatusIs(absl::StatusCode::kAborted));
}

TEST_F(GroupTaskTest, AcceptsOnlyTheNextVersionsOfItsPolicy) {
  GroupTask task = Make(Task(/*resume=*/false, /*first_version=*/5));
  const auto refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(task.TakePolicy(Policy(4)), refused("expected version 5 or one of the next 1000"));
  EXPECT_THAT(task.TakePolicy(Policy(1006)), refused("version 1006 of policy 'policy_0'"));
  EXPECT_THAT(task.TakePolicy(Policy(1005)), IsOk());
  EXPECT_THAT(task.TakePolicy(Policy(1005)),
              refused("expected version 1006 or one of the next 1000"));
  PolicyVersion other = Policy(1006);
  other.set_policy_id("policy_1");
  EXPECT_THAT(task.TakePolicy(other), refused("of policy 'policy_1'"));
  other = Policy(1006);
  other.set_key(PolicyKey("policy_0", 1006, kGroup + 1));
  EXPECT_THAT(task.TakePolicy(other), refused("with key 'policy/policy_0/1006-8'"));
  other = Policy(1006);
  other.set_train_iter(-1);
  EXPECT_THAT(task.TakePolicy(other), refused("train iterations"));
}

}  // namespace
}  // namespace ding
