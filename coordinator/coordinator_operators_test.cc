// The requests of operators and the answers that they get.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/coordinator/testing/mem_log.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

TEST_F(CoordinatorTest, AnOperatorGetsTheStatus) {
  StartTraining();
  OperatorRequest request;
  request.set_inspect("");
  const RunStatus all = Operate(request).status();
  EXPECT_EQ(all.run(), "run-7");
  ASSERT_EQ(all.worker_size(), 2);
  EXPECT_EQ(all.worker(0).name(), "LEARNER-x");
  EXPECT_EQ(all.worker(0).peer(), "peer");
  EXPECT_EQ(all.buffer_size(), 1);
  request.set_inspect("COLLECTOR-x");
  const RunStatus one = Operate(request).status();
  ASSERT_EQ(one.worker_size(), 1);
  EXPECT_EQ(one.worker(0).worker(), kCollector);
  EXPECT_EQ(one.buffer_size(), 0);
  request.set_inspect("buffer_0");
  EXPECT_EQ(Operate(request).status().buffer_size(), 1);
  EXPECT_EQ(Operate(request).status().worker_size(), 0);
  request.set_inspect("nobody");
  const OperatorReply unknown = Operate(request);
  EXPECT_EQ(unknown.code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(unknown.message(), HasSubstr("one of: LEARNER-x, COLLECTOR-x, buffer_0"));
}

WorkerMessage GroupOf(const std::vector<std::string>& names) {
  WorkerMessage message;
  for (const std::string& name : names) {
    WorkerStatus* const member = message.mutable_group_status()->add_member();
    member->set_name(name);
    member->set_role(Hello::LEARNER);
    member->set_pid(4711);
    member->set_alive_seconds(5);
  }
  return message;
}

TEST_F(CoordinatorTest, TheLearnersOfAnAggregatorAreInTheStatus) {
  StartTraining();
  EXPECT_EQ(StatusOf(kLearner).member_size(), 0);
  WorkerMessage group = GroupOf({"learner-0", "learner-1"});
  group.mutable_group_status()->mutable_member(1)->set_waits_for("the group");
  Handle(kLearner, group);
  Handle(kLearner, Info(learner_.task_id(), 0));
  clock_.Advance(absl::Seconds(2));
  Handle(kLearner, Info(learner_.task_id(), 20));
  const WorkerStatus aggregator = StatusOf(kLearner);
  ASSERT_EQ(aggregator.member_size(), 2);
  EXPECT_EQ(aggregator.member(0).name(), "learner-0");
  EXPECT_EQ(aggregator.member(0).alive_seconds(), 7);
  EXPECT_EQ(aggregator.member(0).steps_per_second(), aggregator.steps_per_second());
  EXPECT_GT(aggregator.steps_per_second(), 0);
  EXPECT_EQ(aggregator.member(1).steps_per_second(), 0) << "it is in no generation";

  OperatorRequest request;
  request.set_inspect("learner-1");
  const OperatorReply one = Operate(request);
  ASSERT_EQ(one.status().worker_size(), 1) << one.message();
  EXPECT_EQ(one.status().worker(0).waits_for(), "the group");
  request.set_inspect("LEARNER-x");
  EXPECT_EQ(Operate(request).status().worker(0).member_size(), 2);
  request.set_inspect("learner-2");
  EXPECT_THAT(Operate(request).message(), HasSubstr("LEARNER-x, learner-0, learner-1, COLLECTOR"));
  EXPECT_THAT(Drain("learner-0").message(), HasSubstr("is a learner, expected a collector"));

  // The newest report is the one that counts, also an empty one.
  WorkerMessage empty;
  empty.mutable_group_status();
  Handle(kLearner, empty);
  EXPECT_EQ(StatusOf(kLearner).member_size(), 0);
}

TEST_F(CoordinatorTest, AnInvalidGroupStatusIsRefused) {
  StartTraining();
  Handle(kLearner, GroupOf({"learner-0"}));
  WorkerMessage nested = GroupOf({"learner-1"});
  nested.mutable_group_status()->mutable_member(0)->add_member();
  for (const WorkerMessage& message : {GroupOf(std::vector<std::string>(kMaxGroupMembers + 1, "x")),
                                       GroupOf({std::string(kMaxGroupStatusBytes, 'x')}), nested}) {
    EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, message),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected at most 256")));
  }
  EXPECT_THAT(HandleNow(coordinator_.get(), kCollector, GroupOf({"learner-1"})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only a LEARNER sends")));
  ASSERT_EQ(StatusOf(kLearner).member_size(), 1);
  EXPECT_EQ(StatusOf(kLearner).member(0).name(), "learner-0");
  Handle(kLearner, GroupOf(std::vector<std::string>(kMaxGroupMembers, "x")));
  EXPECT_EQ(StatusOf(kLearner).member_size(), kMaxGroupMembers);
}

TEST_F(CoordinatorTest, AnOperatorGrowsAndShrinksWithinTheLimits) {
  options_.wanted_collectors = 2;
  options_.max_collectors = 4;
  commander_options_.collector_task_space = 2;
  StartTraining();
  Join(kOther, Hello::COLLECTOR);
  const CollectorTask other = TakeCollectorTask(kOther);
  EXPECT_EQ(Grow(2).status().wanted_collectors(), 4);
  const int invalid = static_cast<int>(absl::StatusCode::kInvalidArgument);
  for (const OperatorReply& refused : {Grow(1), Grow(0), Grow(-3), Shrink(5), Shrink(0)}) {
    EXPECT_EQ(refused.code(), invalid) << refused.message();
    EXPECT_THAT(refused.message(), HasSubstr("expected "));
    EXPECT_EQ(refused.status().wanted_collectors(), 4);
  }
  // There are as many collectors as are wanted, so none is drained.
  EXPECT_EQ(Shrink(2).status().wanted_collectors(), 2);
  EXPECT_FALSE(IsLetGo(kCollector) || IsLetGo(kOther));
  EXPECT_EQ(Shrink(1).code(), 0);
  EXPECT_TRUE(StatusOf(kOther).draining()) << "it came last";
  EXPECT_FALSE(StatusOf(kCollector).draining());
  EXPECT_FALSE(IsLetGo(kOther)) << "its task runs";
  Handle(kOther, Finished(other.task_id(), 1));
  EXPECT_TRUE(IsLetGo(kOther));
  coordinator_->WorkerLost(kOther, absl::AbortedError("done"));
  Settle(*coordinator_);
  EXPECT_EQ(coordinator_->status().workers_lost(), 0) << "it was sent away";
}

TEST_F(CoordinatorTest, ADrainedCollectorFinishesItsTaskAndGetsNoOther) {
  options_.wanted_collectors = 2;
  StartTraining();
  Join(kOther, Hello::COLLECTOR);
  EXPECT_EQ(Drain("LEARNER-x").code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Drain("buffer_0").code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Drain("nobody").code(), static_cast<int>(absl::StatusCode::kNotFound));
  const OperatorReply drained = Drain("COLLECTOR-x");  // the first one of this name
  EXPECT_EQ(drained.code(), 0) << drained.message();
  EXPECT_EQ(drained.status().wanted_collectors(), 1);
  EXPECT_EQ(Drain("COLLECTOR-x").code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3), 3));
  EXPECT_EQ(rows(), 3) << "what it still collects counts";
  Handle(kCollector, Finished(collector_.task_id(), 1));
  const std::vector<CoordinatorMessage> sent = sender_.Take(kCollector);
  EXPECT_THAT(sent.back().end_run().reason(), HasSubstr("not needed any more"));
}

TEST_F(CoordinatorTest, AnOperatorStopsTheRunOnce) {
  StartTraining();
  OperatorRequest stop;
  stop.set_stop(true);
  EXPECT_EQ(Operate(stop).code(), 0);
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), IsOk());
  EXPECT_TRUE(IsLetGo(kLearner));
  for (const OperatorReply& late : {Operate(stop), Grow(1), Drain("COLLECTOR-x")}) {
    EXPECT_EQ(late.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(late.message(), HasSubstr("the run is over: an operator has stopped it"));
  }
  EXPECT_EQ(coordinator_->status().wanted_collectors(), 0);
}

// A full disk must not keep an operator waiting.
TEST_F(CoordinatorTest, Operate_TheJournalCannotBeWritten_IsRefusedAtOnce) {
  MemLogData data;
  auto made = std::make_unique<MemLog>(&data);
  MemLog* const log = made.get();
  journal_ = Journal::Open(std::move(made)).value();
  StartTraining();
  log->set_status(absl::ResourceExhaustedError("the disk is full"));
  std::thread waits([this] { Handle(kLearner, Info(learner_.task_id(), 1)); });
  const auto pauses = [this] { return coordinator_->status().warning_size() > 0; };
  for (int i = 0; i < 5000 && !pauses(); ++i) absl::SleepFor(absl::Milliseconds(1));
  const OperatorReply refused = Grow(1);
  EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_THAT(refused.message(), HasSubstr("the disk is full"));
  OperatorRequest inspect;
  inspect.set_inspect("");
  EXPECT_EQ(Operate(inspect).code(), 0);
  log->set_status(absl::OkStatus());
  waits.join();
  EXPECT_EQ(Grow(1).code(), 0);
  coordinator_.reset();  // It uses the journal, whose data end here.
  journal_.reset();
}

}  // namespace
}  // namespace ding
