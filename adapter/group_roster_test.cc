#include "ding_worker/adapter/group_roster.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/group_task.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using State = GroupRoster::State;

GroupReady Ready(uint32_t generation, int64_t train_iter = 0, const std::string& digest = "d") {
  GroupReady ready;
  ready.set_generation(generation);
  ready.set_train_iter(train_iter);
  ready.set_model_digest(digest);
  return ready;
}

class GroupRosterTest : public testing::Test {
 protected:
  void Add(uint32_t worker) {
    Hello hello;
    hello.set_role(Hello::LEARNER);
    hello.set_name(absl::StrCat("learner-", worker));
    hello.mutable_resources()->set_cpus(2);
    hello.mutable_resources()->set_memory_bytes(kMaxMemoryBytes / 2 + 1);
    hello.mutable_resources()->set_gpus(kMaxGpus / 2 + 1);
    roster_.Add(worker, hello, "peer", /*now_nanos=*/0);
  }

  GroupRoster roster_;
};

TEST_F(GroupRosterTest, ALearnerThatWasReplacedIsNotAdmitted) {
  Add(1);
  Hello hello;
  hello.set_name("learner-1");
  hello.set_pid(4712);
  hello.set_previous_worker(9);
  EXPECT_THAT(roster_.CheckAdmissible(hello), StatusIs(absl::StatusCode::kFailedPrecondition));
  roster_.Remove(1);
  EXPECT_THAT(roster_.CheckAdmissible(hello), IsOk());
}

TEST_F(GroupRosterTest, ResourcesAreAddedUpToTheCoordinatorsLimit) {
  for (uint32_t worker = 1; worker <= 3; ++worker) Add(worker);
  EXPECT_EQ(roster_.size(), 3);
  EXPECT_EQ(roster_.resources().gpus(), kMaxGpus);
  EXPECT_EQ(roster_.resources().cpus(), 6);
  EXPECT_EQ(roster_.resources().memory_bytes(), kMaxMemoryBytes);
}

TEST_F(GroupRosterTest, ReadyLearnersBecomeMembers) {
  for (uint32_t worker = 1; worker <= 3; ++worker) Add(worker);
  EXPECT_THAT(roster_.InState(State::kIdle), ElementsAre(1, 2, 3));
  ASSERT_THAT(roster_.TakeReady(3, Ready(0), 0), IsOk());
  ASSERT_THAT(roster_.TakeReady(1, Ready(0, 8), 0), IsOk());
  EXPECT_THAT(roster_.InState(State::kReady), ElementsAre(1, 3));
  EXPECT_EQ(roster_.Find(1).ready.train_iter(), 8);
  roster_.BeginGeneration({3, 1});
  EXPECT_THAT(roster_.InState(State::kReady), IsEmpty());
  EXPECT_THAT(roster_.InState(State::kMember), ElementsAre(1, 3));
  EXPECT_THAT(roster_.InState(State::kIdle), ElementsAre(2));
}

TEST_F(GroupRosterTest, AMemberCanOnlyLeaveThePresentGeneration) {
  Add(1);
  roster_.BeginGeneration({1});
  EXPECT_THAT(roster_.TakeReady(1, Ready(7), /*generation=*/4),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has left generation 7, expected generation 4")));
  EXPECT_THAT(roster_.InState(State::kMember), ElementsAre(1)) << "an error must change nothing";
  EXPECT_THAT(roster_.TakeReady(1, Ready(4), /*generation=*/4), IsOk());
  EXPECT_THAT(roster_.InState(State::kReady), ElementsAre(1));
}

TEST_F(GroupRosterTest, AllLearnersMustHaveTheSameModel) {
  Add(1);
  Add(2);
  EXPECT_THAT(roster_.TakeReady(1, Ready(0, -9), 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ready at iteration -9")));
  EXPECT_THAT(roster_.TakeReady(1, Ready(0, 0, ""), 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("with digest ''")));
  ASSERT_THAT(roster_.TakeReady(1, Ready(0), 0), IsOk());
  EXPECT_THAT(roster_.TakeReady(2, Ready(0, 0, "another"), 0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("learner-2 has digest another, expected d")));
  roster_.SetState(1, State::kFailed);
  EXPECT_THAT(roster_.TakeReady(2, Ready(0, 0, "another"), 0), IsOk())
      << "no other is in the group";
}

TEST_F(GroupRosterTest, ValuesOfAGenerationAreLimited) {
  Add(1);
  roster_.BeginGeneration({1});
  GroupValue value;
  value.set_generation(3);
  for (int i = 0; i < 15; ++i) ASSERT_THAT(roster_.CountValue(1, value), IsOk());
  GroupValue large = value;
  large.set_value(std::string(600 * 1024, 'x'));
  ASSERT_THAT(roster_.CountValue(1, large), IsOk());
  EXPECT_THAT(roster_.CountValue(1, value),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("17 values of ")));
  roster_.BeginGeneration({1});
  EXPECT_THAT(roster_.CountValue(1, large), IsOk()) << "a new generation begins with no values";
  EXPECT_THAT(roster_.CountValue(1, large),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2 values of 12288")));
}

class GroupStatusTest : public testing::Test {
 protected:
  void Add(uint32_t worker, const std::string& name) {
    Hello hello;
    hello.set_role(Hello::LEARNER);
    hello.set_name(name);
    hello.set_pid(4711);
    roster_.Add(worker, hello, "peer", clock_.MonotonicNanos());
  }
  WorkerStatus StatusOf(uint32_t worker, const GroupTask* task) const {
    WorkerStatus status;
    FillLearnerStatus(worker, roster_.Find(worker), task, &clock_, &status);
    return status;
  }
  GroupTask MakeTask() const {
    LearnerTask task;
    task.set_task_id("a");
    GroupTask::Options options;
    options.clock = &clock_;
    return GroupTask(task, 7, options);
  }

  SimulatedClock clock_;
  GroupRoster roster_;
};

TEST_F(GroupStatusTest, HasTheIdentityOfALearnerAndTheReasonForItsWait) {
  Add(3, "learner-3");
  clock_.Advance(absl::Seconds(9));
  const WorkerStatus idle = StatusOf(3, nullptr);
  EXPECT_EQ(idle.worker(), 3u);
  EXPECT_EQ(idle.name(), "learner-3");
  EXPECT_EQ(idle.role(), Hello::LEARNER);
  EXPECT_EQ(idle.peer(), "peer");
  EXPECT_EQ(idle.pid(), 4711);
  EXPECT_EQ(idle.alive_seconds(), 9);
  EXPECT_FALSE(idle.has_task_id());
  EXPECT_EQ(idle.waits_for(), "a task");

  GroupTask task = MakeTask();
  EXPECT_FALSE(StatusOf(3, &task).has_task_id()) << "it was not given the task";
  roster_.SetState(3, State::kStarting);
  EXPECT_EQ(StatusOf(3, &task).task_id(), "a");
  EXPECT_EQ(StatusOf(3, &task).waits_for(), "its own start");
  roster_.SetState(3, State::kReady);
  EXPECT_EQ(StatusOf(3, &task).waits_for(), "the group");
  task.BeginGeneration(roster_);
  roster_.BeginGeneration(task.members());
  EXPECT_EQ(StatusOf(3, &task).waits_for(), "");
  task.EndGeneration();
  EXPECT_EQ(StatusOf(3, &task).waits_for(), "the end of the last generation");
  roster_.SetState(3, State::kFailed);
  EXPECT_EQ(StatusOf(3, &task).waits_for(), "the next task, because this one failed here");
}

TEST_F(GroupStatusTest, AReportIsDueOncePerPeriodIfTheGroupHasChanged) {
  GroupReporter reporter(absl::Seconds(1), &clock_);
  Add(1, "learner-1");
  EXPECT_FALSE(reporter.Next(roster_, nullptr).has_value()) << "the period is not over";
  clock_.Advance(absl::Seconds(1));
  const std::optional<GroupStatus> first = reporter.Next(roster_, nullptr);
  ASSERT_TRUE(first.has_value());
  ASSERT_EQ(first->member_size(), 1);
  EXPECT_EQ(first->member(0).name(), "learner-1");
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(reporter.Next(roster_, nullptr).has_value()) << "nothing has changed";
  roster_.SetState(1, State::kReady);
  EXPECT_EQ(reporter.Next(roster_, nullptr).value().member(0).waits_for(), "the group");
  roster_.Remove(1);
  EXPECT_FALSE(reporter.Next(roster_, nullptr).has_value()) << "the next period is not over";
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(reporter.Next(roster_, nullptr).value().member_size(), 0);
}

TEST_F(GroupStatusTest, AReportIsNoLongerThanTheCoordinatorAccepts) {
  GroupReporter reporter(absl::ZeroDuration(), &clock_);
  for (int i = 0; i <= kMaxGroupMembers; ++i) {
    Add(static_cast<uint32_t>(i), absl::StrCat("learner-", i));
  }
  EXPECT_EQ(reporter.Next(roster_, nullptr).value().member_size(), kMaxGroupMembers);
  // Names so long that no learner would be admitted with them.
  for (uint32_t worker = 0; worker < 10; ++worker) {
    roster_.Remove(worker);
    Add(worker, std::string(kMaxGroupStatusBytes / 4, 'x'));
  }
  roster_.Remove(100);  // A report needs a change.
  const GroupStatus cut = reporter.Next(roster_, nullptr).value();
  EXPECT_EQ(cut.member_size(), 3);
  EXPECT_LE(cut.ByteSizeLong(), kMaxGroupStatusBytes);
}

}  // namespace
}  // namespace ding
