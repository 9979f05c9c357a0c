// The life of a run: its beginning, its end, random workers, and workers of several threads.
#include "ding_worker/coordinator/coordinator.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator_config.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/coordinator/testing/mem_log.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/stopper.pb.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "google/protobuf/repeated_field.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST_F(CoordinatorTest, RunsFromTheFirstTaskToConvergence) {
  commander_options_.eval_interval = 0;
  Start();
  Join(kCollector, Hello::COLLECTOR);
  EXPECT_THAT(sender_.Take(kCollector), IsEmpty()) << "there is no learner yet";
  Join(kLearner, Hello::LEARNER);
  EXPECT_THAT(buffers_made_, ElementsAre("buffer_0"));
  learner_ = TakeLearnerTask(kLearner);
  EXPECT_EQ(learner_.task_id(), "learner_task_0");
  EXPECT_EQ(learner_.buffer_id(), "buffer_0");
  EXPECT_EQ(learner_.first_version(), 1u);
  EXPECT_FALSE(learner_.resume());
  EXPECT_THAT(sender_.Take(kCollector), IsEmpty()) << "the learner has not started";

  Handle(kLearner, Version("policy_0", 1));
  Handle(kLearner, Started("learner_task_0"));
  const CollectorTask evaluation = TakeCollectorTask(kCollector);
  EXPECT_TRUE(evaluation.eval_flag());
  EXPECT_EQ(evaluation.policy().version(), 1u);
  EXPECT_EQ(evaluation.policy().key(), "policy/policy_0/1-1");
  Handle(kCollector, Started(evaluation.task_id()));
  Handle(kCollector, Finished(evaluation.task_id(), 50));
  collector_ = TakeCollectorTask(kCollector);
  EXPECT_FALSE(collector_.eval_flag());
  EXPECT_EQ(StatusOf(kCollector).task_id(), collector_.task_id());

  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 6), 24));
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(1));
  Handle(kLearner, Demand("learner_task_0", 1, 4, 0, /*batches=*/2));
  const std::vector<LearnerData> answers = TakeAnswers(kLearner);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].task_id(), "learner_task_0");
  EXPECT_EQ(answers[0].sequence(), 1u);
  EXPECT_EQ(answers[0].envstep(), 24);
  ASSERT_EQ(answers[0].items_size(), 2);
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, DecodeBatch(answers[0].items(1)));
  EXPECT_EQ(batch.rows(), 4);
  EXPECT_EQ(batch.column<int64_t>("chunk")[0], Chunk(kCollector, 0));
  EXPECT_TRUE(batch.spec().Find("replay_unique_id").has_value());

  Handle(kLearner, Info("learner_task_0", 3));
  Handle(kLearner, Version("policy_0", 2));
  std::vector<CoordinatorMessage> sent = sender_.Take(kCollector);
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].policy_version().version(), 2u);
  const RunStatus status = coordinator_->status();
  EXPECT_EQ(status.run(), "run-7");
  EXPECT_EQ(status.envstep(), 24);
  EXPECT_EQ(status.train_iter(), 3);
  EXPECT_EQ(status.eval_value(), 50);
  EXPECT_EQ(status.policy_version(), 2u);
  ASSERT_EQ(status.buffer_size(), 1);
  EXPECT_EQ(status.buffer(0).count(), 6);
  EXPECT_EQ(status.buffer(0).sample_count(), 8);
  EXPECT_EQ(status.buffer(0).chunks(), 1);
  EXPECT_FALSE(status.converged());
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));

  Advance(absl::Seconds(1));
  Handle(kCollector, Finished(collector_.task_id(), 3, /*steps=*/120));
  EXPECT_EQ(coordinator_->status().envstep(), 96) << "24 rows back no more";
  const CollectorTask last = TakeCollectorTask(kCollector);
  ASSERT_TRUE(last.eval_flag());
  Handle(kCollector, Finished(last.task_id(), 100, /*steps=*/10, /*train_iter=*/3));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), IsOk());
  EXPECT_TRUE(coordinator_->status().converged());
  for (const uint32_t worker : {kLearner, kCollector}) {
    sent = sender_.Take(worker);
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_TRUE(sent[0].end_run().converged());
    EXPECT_THAT(sent[0].end_run().reason(), HasSubstr("converged: mean return 100"));
  }
  // Convergence is not taken back (D91), and a worker that joins later is told.
  Handle(kCollector, Finished(last.task_id(), 0));
  EXPECT_TRUE(coordinator_->status().converged());
  Join(kOther, Hello::COLLECTOR);
  EXPECT_TRUE(sender_.Take(kOther)[0].end_run().converged());
}

TEST_F(CoordinatorTest, ABufferThatCannotBeMadeEndsTheRun) {
  make_buffer_ = [](const std::string&, absl::Span<const std::string> /*settings*/,
                    const OnRemoved&) {
    return absl::InvalidArgumentError("replay_buffer_size is 0");
  };
  Start();
  Join(kLearner, Hello::LEARNER);
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("making buffer_0: replay_buffer_size is 0")));
}

TEST_F(CoordinatorTest, EndsWhenABudgetIsUsedUp) {
  options_.max_env_step = 20;
  StartTraining();
  Handle(kCollector,
         Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 5), /*cur_step=*/20));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), IsOk());
  EXPECT_FALSE(coordinator_->status().converged());
  const std::vector<CoordinatorMessage> sent = sender_.Take(kCollector);
  ASSERT_THAT(sent, SizeIs(2)) << "the last data were taken";
  EXPECT_EQ(sent[0].collector_data_ack().sequence(), 1u);
  EXPECT_EQ(sent[1].end_run().reason(), "20 env steps of 20");

  options_ = {};
  options_.max_train_iter = 5;
  StartTraining();
  Handle(kLearner, Info(learner_.task_id(), 4));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), Not(IsOk()));
  Handle(kLearner, Info(learner_.task_id(), 5, /*done=*/true));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), IsOk());
  EXPECT_THAT(TakeLearnerTask(kLearner).task_id(), IsEmpty());

  options_ = {};
  options_.max_time = absl::Seconds(9);
  StartTraining();
  Advance(absl::Seconds(8));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), Not(IsOk()));
  Advance(absl::Seconds(1));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), IsOk());
}

TEST_F(CoordinatorTest, WrongOptionsAreReportedTogether) {
  options_.collector_task_timeout = absl::ZeroDuration();
  options_.max_task_failures = 0;
  EXPECT_THAT(Coordinator::Create(options_, Coordinator::Parts(), deps_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("collector_task_timeout is 0"),
                             HasSubstr("max_task_failures is 0"), HasSubstr("no commander"))));
}

TEST_F(CoordinatorTest, DefaultsAreThoseOfTheConfig) {
  Coordinator::Options options;
  options.collectors = 9;
  options.max_task_failures = 9;
  options.collector_task_timeout = options.learner_task_timeout = absl::Seconds(9);
  ReadCoordinatorOptions(CoordinatorConfig(), &options);
  EXPECT_EQ(options.collectors, options_.collectors);
  EXPECT_EQ(options.max_task_failures, options_.max_task_failures);
  EXPECT_EQ(options.collector_task_timeout, options_.collector_task_timeout);
  EXPECT_EQ(options.learner_task_timeout, options_.learner_task_timeout);
}

// Messages must not keep the coordinator from its timer.
TEST_F(CoordinatorTest, StopperThatWatchesTheClock_MessagesWithoutPause_EndsTheRun) {
  google::protobuf::RepeatedPtrField<StopperConfig> configs;
  WallClockParams params;
  params.set_seconds(5);
  configs.Add()->set_type("wall_clock");
  configs.begin()->mutable_params()->PackFrom(params);
  stoppers_ = StopperList::Create(configs, {}).value();
  StartTraining();
  std::atomic<bool> over{false};
  // Each message that is done is followed by another one, so that the queue is never empty.
  const std::function<void(const absl::Status&)> next = [&](const absl::Status& status) {
    if (!over) coordinator_->Handle(kLearner, Info(learner_.task_id(), 1), next);
    EXPECT_THAT(status, IsOk());
  };
  for (int i = 0; i < 4; ++i) next(absl::OkStatus());
  absl::Status end = absl::DeadlineExceededError("");
  for (int i = 0; i < 5000 && absl::IsDeadlineExceeded(end); ++i) {
    clock_.Advance(absl::Milliseconds(10));
    end = coordinator_->WaitUntilDone(absl::Milliseconds(1));
  }
  EXPECT_THAT(end, IsOk());
  EXPECT_EQ(coordinator_->status().end_reason(), "stopper 'wall_clock': it has taken 5s");
  over = true;
  Settle(*coordinator_);
}

// The same calls from a thread per worker, for ThreadSanitizer.
TEST_F(CoordinatorTest, HandlesWorkersOfSeveralThreads) {
  capacity_ = 50;
  commander_options_.collector_task_space = 3;
  Start();
  Join(kLearner, Hello::LEARNER);
  learner_ = TakeLearnerTask(kLearner);
  Handle(kLearner, Started(learner_.task_id()));
  constexpr uint64_t kMessages = 200;
  std::vector<std::thread> threads;
  for (uint32_t worker = 2; worker < 5; ++worker) {
    Join(worker, Hello::COLLECTOR);
    const CollectorTask task = TakeCollectorTask(worker);
    threads.emplace_back([this, worker, task] {
      if (task.eval_flag()) {
        Handle(worker, Finished(task.task_id(), 1));
        return;
      }
      for (uint64_t i = 1; i <= kMessages; ++i) {
        Handle(worker,
               Data(task.task_id(), i, TestItemsOfChunk(Chunk(worker, static_cast<uint32_t>(i)), 3),
                    static_cast<int64_t>(i)));
      }
      if (worker == 4) Lose(worker);
    });
  }
  threads.emplace_back([this] {
    for (uint64_t i = 1; i <= kMessages; ++i) {
      Handle(kLearner, Demand(learner_.task_id(), i, 4, i > 8 ? i - 8 : 0));
      Handle(kLearner, Info(learner_.task_id(), static_cast<int64_t>(i)));
      // Demands wait in turn until the collectors' data are there.
      while (coordinator_->counters().demands_answered + 8 < static_cast<int64_t>(i)) {
        std::this_thread::yield();
      }
    }
  });
  threads.emplace_back([this] {
    for (int i = 0; i < 50; ++i) (void)coordinator_->status();
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(coordinator_->counters().rows_acknowledged, 2 * 3 * static_cast<int64_t>(kMessages));
  EXPECT_EQ(coordinator_->counters().demands_answered, static_cast<int64_t>(kMessages));
  EXPECT_EQ(coordinator_->status().envstep(), 2 * static_cast<int64_t>(kMessages));
  const std::vector<std::string> deleted = DeletedAfterClose();
  // The 16 others are chunks that the lost collector might have stored and not announced.
  EXPECT_THAT(deleted, SizeIs(2 * kMessages + 16));
  EXPECT_EQ(std::set<std::string>(deleted.begin(), deleted.end()).size(), deleted.size());
}

// The requests of operators and the answers that they get.

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

// What becomes of tasks that need more than a worker has.

class CoordinatorResourcesTest : public CoordinatorTest {
 protected:
  void JoinWith(uint32_t worker, Hello::Role role, double cpus, int64_t memory_bytes, int gpus) {
    Hello hello = HelloOf(role, cpus);
    hello.mutable_resources()->set_memory_bytes(memory_bytes);
    hello.mutable_resources()->set_gpus(gpus);
    coordinator_->WorkerJoined(worker, hello, "peer");
    Settle(*coordinator_);
  }
  absl::Status EndOfRun() { return coordinator_->WaitUntilDone(absl::ZeroDuration()); }
  bool GoesOn() { return absl::IsDeadlineExceeded(EndOfRun()); }
  std::vector<std::string> Warnings() {
    const RunStatus status = coordinator_->status();
    return {status.warning().begin(), status.warning().end()};
  }
};

TEST_F(CoordinatorResourcesTest, ALearnerWithEnoughGetsTheTask) {
  commander_options_.learner_resources.set_cpus(2);
  commander_options_.learner_resources.set_memory_bytes(1000);
  commander_options_.learner_resources.set_gpus(1);
  Start();
  JoinWith(kLearner, Hello::LEARNER, 2, 1000, 1);
  EXPECT_EQ(TakeLearnerTask(kLearner).resources().gpus(), 1);
  EXPECT_THAT(Warnings(), IsEmpty());
  EXPECT_TRUE(GoesOn());
}

TEST_F(CoordinatorResourcesTest, WhenTheOnlyLearnerHasTooLittleTheRunEndsAtOnce) {
  commander_options_.learner_resources.set_cpus(1);
  commander_options_.learner_resources.set_memory_bytes(1000);
  commander_options_.learner_resources.set_gpus(2);
  Start();
  EXPECT_THAT(Warnings(), IsEmpty()) << "nobody has joined";
  JoinWith(kLearner, Hello::LEARNER, 8, 999, 1);
  const auto why = AllOf(
      HasSubstr("no learner that has joined has what learner_task_0 needs"),
      HasSubstr("the largest one is LEARNER-x: "
                "policy.other.commander.learner_resources.memory_bytes is 1000, and it has 999; "
                "policy.other.commander.learner_resources.gpus is 2, and it has 1."));
  EXPECT_THAT(EndOfRun(), StatusIs(absl::StatusCode::kFailedPrecondition, why));
  EXPECT_THAT(Warnings(), ElementsAre(why));
  EXPECT_TRUE(IsLetGo(kLearner));
}

TEST_F(CoordinatorResourcesTest, SaysAtOnceWhatLacksAndWaitsForExpectedCollectors) {
  options_.collectors = 3;
  commander_options_.collector_resources.set_cpus(4);
  Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  JoinWith(kCollector, Hello::COLLECTOR, 1, 0, 0);
  JoinWith(kOther, Hello::COLLECTOR, 2, 0, 0);
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("collector_resources.cpus is 4, and it has 2")));
  EXPECT_TRUE(GoesOn());
  EXPECT_THAT(TakeCollectorTask(kCollector).task_id(), IsEmpty());
  JoinWith(kOther + 1, Hello::COLLECTOR, 4, 0, 0);
  EXPECT_EQ(TakeCollectorTask(kOther + 1).task_id(), "collector_task_0");
  EXPECT_THAT(Warnings(), IsEmpty());
  EXPECT_TRUE(GoesOn());
}

TEST_F(CoordinatorResourcesTest, EndsWhenAllExpectedCollectorsHaveTooLittle) {
  options_.collectors = 2;
  commander_options_.collector_resources.set_gpus(1);
  Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  Join(kCollector, Hello::COLLECTOR);
  EXPECT_TRUE(GoesOn());
  Join(kOther, Hello::COLLECTOR);
  EXPECT_THAT(EndOfRun(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("collector_resources.gpus is 1, and it has 0")));
}

TEST_F(CoordinatorResourcesTest, EndsWhenTheTaskHasWaitedForTooLong) {
  options_.collectors = 2;
  commander_options_.collector_resources.set_gpus(1);
  Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  Join(kCollector, Hello::COLLECTOR);
  Advance(options_.collector_task_timeout - absl::Seconds(1));
  EXPECT_TRUE(GoesOn());
  Advance(absl::Seconds(1));
  EXPECT_THAT(EndOfRun(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("collector_resources.gpus is 1, and it has 0")));
}

TEST_F(CoordinatorResourcesTest, ARunThatHadAWorkerWithEnoughWaitsForOneToComeBack) {
  commander_options_.learner_resources.set_gpus(1);
  Start();
  JoinWith(kLearner, Hello::LEARNER, 1, 0, 1);
  EXPECT_EQ(TakeLearnerTask(kLearner).task_id(), "learner_task_0");
  JoinWith(kOther, Hello::LEARNER, 1, 0, 0);
  Lose(kLearner);
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("learner_resources.gpus is 1, and it has 0")));
  Advance(options_.learner_task_timeout);
  EXPECT_TRUE(GoesOn());
  JoinWith(kOther + 1, Hello::LEARNER, 1, 0, 1);
  EXPECT_THAT(TakeLearnerTask(kOther + 1).task_id(), HasSubstr("learner_task_"));
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(CoordinatorResourcesTest, AnAggregatorGetsTheTaskWhenItsLearnersHaveEnough) {
  commander_options_.learner_resources.set_cpus(4);
  Start();
  Hello hello = HelloOf(Hello::LEARNER);
  hello.clear_resources();
  coordinator_->WorkerJoined(kLearner, hello, "peer");
  Settle(*coordinator_);
  EXPECT_TRUE(GoesOn()) << "its learners are yet to come";
  WorkerMessage message;
  message.mutable_resources()->set_cpus(2);
  Handle(kLearner, message);
  EXPECT_TRUE(GoesOn());
  EXPECT_THAT(TakeLearnerTask(kLearner).task_id(), IsEmpty());
  message.mutable_resources()->set_cpus(4);
  Handle(kLearner, message);
  EXPECT_EQ(TakeLearnerTask(kLearner).task_id(), "learner_task_0");
}

TEST_F(CoordinatorResourcesTest, StatusShowsTheResourcesOfAWorker) {
  Start();
  JoinWith(kLearner, Hello::LEARNER, 2.5, 1000, 3);
  const Resources shown = StatusOf(kLearner).resources();
  EXPECT_EQ(shown.cpus(), 2.5);
  EXPECT_EQ(shown.memory_bytes(), 1000);
  EXPECT_EQ(shown.gpus(), 3);
}

TEST_F(CoordinatorResourcesTest, NegativeNeedsAreRefused) {
  commander_options_.collector_resources.set_cpus(-1);
  commander_options_.collector_resources.set_memory_bytes(-2);
  commander_options_.learner_resources.set_gpus(-3);
  EXPECT_THAT(SoloCommander::Problems(commander_options_),
              ElementsAre("collector_resources.cpus is -1, expected at least 0 cores",
                          "collector_resources.memory_bytes is -2, expected at least 0 bytes",
                          "learner_resources.gpus is -3, expected at least 0"));
}

}  // namespace
}  // namespace ding
