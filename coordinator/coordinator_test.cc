// The life of a run: its beginning, its end, random workers, and workers of several threads.
#include "ding_worker/coordinator/coordinator.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/coordinator_config.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/wire.h"
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
using testing::Contains;
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

}  // namespace
}  // namespace ding
