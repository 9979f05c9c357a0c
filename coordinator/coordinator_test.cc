#include "ding_worker/coordinator/coordinator.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/base_commander.h"
#include "ding_worker/coordinator/coordinator_config.h"
#include "ding_worker/coordinator/solo_commander.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/protocol.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/removed_items.h"
#include "ding_worker/replay_buffer/testing/test_items.h"
#include "ding_worker/replay_buffer/used_data_remover.h"
#include "gmock/gmock.h"
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
using testing::UnorderedElementsAre;

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
  Handle(kCollector, Finished(collector_.task_id(), 3, /*steps=*/30));
  EXPECT_EQ(coordinator_->status().envstep(), 24) << "6 rows back no more";
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
  // Convergence is not taken back (D91), and who comes late is told.
  Handle(kCollector, Finished(last.task_id(), 0));
  EXPECT_TRUE(coordinator_->status().converged());
  Join(kOther, Hello::COLLECTOR);
  EXPECT_TRUE(sender_.Take(kOther)[0].end_run().converged());
}

TEST_F(CoordinatorTest, RepeatedDataHaveNoEffectAndAreAcknowledgedAgain) {
  StartTraining();
  const WorkerMessage first =
      Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3));
  Handle(kCollector, first);
  Handle(kCollector, Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 3)));
  Handle(kCollector, first);
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(1, 2, 2));
  EXPECT_EQ(rows(), 6);
  EXPECT_EQ(coordinator_->counters().rows_acknowledged, 6);
}

TEST_F(CoordinatorTest, DataThatCannotBeEndTheirWorkerAndChangeNothing) {
  StartTraining();
  const std::string& id = collector_.task_id();
  const auto refused = [this](const WorkerMessage& message, absl::StatusCode code,
                              const std::string& what) {
    EXPECT_THAT(coordinator_->Handle(kCollector, message), StatusIs(code, HasSubstr(what)));
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const SegmentBatch items = TestItemsOfChunk(Chunk(kCollector, 3), 3);
  refused(Data(id, 2, items), kInvalid, "data 2, expected data 1");
  refused(Data(id, 0, items), kInvalid, "without a sequence number");
  refused(Data(id, 1, TestItemsOfChunk(Chunk(kOther, 0), 3)), kInvalid, "none of worker 2");
  refused(Data(id, 1, TestItemsOfChunk(-1, 3)), kInvalid, "none of worker 2");
  WorkerMessage message = Data(id, 1, items);
  std::string* const bytes = message.mutable_collector_data()->mutable_items();
  (*bytes)[bytes->size() / 2] ^= 1;
  refused(message, absl::StatusCode::kDataLoss, "");
  bytes->resize(9);
  refused(message, absl::StatusCode::kDataLoss, "");
  message = Data(id, 1, items);
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr no_items, MakeSpec({Scalar("x", DType::kInt64)}));
  DING_ASSERT_OK_AND_ASSIGN(BatchBuilder builder, BatchBuilder::Create(no_items, 1));
  builder.column<int64_t>(0)[0] = 0;
  message.mutable_collector_data()->set_items(EncodedBatch(std::move(builder).Seal(1)).ToString());
  refused(message, kInvalid, "chunk");
  refused(Data(id, 1, items, /*cur_step=*/-1), kInvalid, "-1 steps");
  refused(Demand(id, 1, 1), kInvalid, "a COLLECTOR sent what only a LEARNER sends");
  refused(WorkerMessage(), kInvalid, "which nobody sends");
  message.Clear();
  message.mutable_hello();
  refused(message, kInvalid, "which nobody sends");
  EXPECT_EQ(rows(), 0);
  EXPECT_THAT(TakeAcks(kCollector), IsEmpty());

  Handle(kCollector, Data(id, 1, items));
  refused(Data(id, 2, items), kInvalid, "expected all of a chunk in one message");
  EXPECT_EQ(rows(), 3);
  EXPECT_THAT(coordinator_->Handle(77, Data(id, 1, items)), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CoordinatorTest, DataOfTasksThatAreOverAreDeleted) {
  StartTraining();
  Handle(kCollector, Data("another_task", 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)));
  EXPECT_THAT(TakeAcks(kCollector), IsEmpty());
  EXPECT_EQ(coordinator_->counters().late_messages, 1);
  EXPECT_THAT(DeletedWhen(1), ElementsAre(ChunkKey(Chunk(kCollector, 0))));
  // What comes after them is not taken for a gap.
  Handle(kCollector, Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 3)));
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(2));
  EXPECT_EQ(rows(), 3);
}

TEST_F(CoordinatorTest, ProgressAloneCountsSteps) {
  StartTraining();
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 5), 5));
  sender_.Take(kCollector);
  WorkerMessage message;
  message.mutable_collector_data()->set_task_id(collector_.task_id());
  message.mutable_collector_data()->mutable_progress()->set_cur_step(17);
  message.mutable_collector_data()->mutable_progress()->set_stalled("the store is full");
  Advance(absl::Seconds(2));
  Handle(kCollector, message);
  EXPECT_THAT(sender_.Take(kCollector), IsEmpty());
  EXPECT_EQ(coordinator_->status().envstep(), 17);
  EXPECT_EQ(StatusOf(kCollector).waits_for(), "the store is full");
  EXPECT_EQ(StatusOf(kCollector).steps_per_second(), 8.5);
  // Steps of a task that fails were made all the same.
  Lose(kCollector);
  EXPECT_EQ(coordinator_->status().envstep(), 17);
}

TEST_F(CoordinatorTest, AnEvaluationSendsNoData) {
  Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  Join(kCollector, Hello::COLLECTOR);
  const CollectorTask task = TakeCollectorTask(kCollector);
  ASSERT_TRUE(task.eval_flag());
  EXPECT_THAT(
      coordinator_->Handle(kCollector,
                           Data(task.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3))),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("an evaluation, which sends none")));
}

TEST_F(CoordinatorTest, ADemandWaitsForData) {
  StartTraining();
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  Handle(kLearner, Demand(learner_.task_id(), 2, 2, 0, /*batches=*/3));
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty());
  EXPECT_THAT(StatusOf(kLearner).waits_for(), Not(IsEmpty()));
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)));
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty()) << "in their order";
  Handle(kCollector, Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 3)));
  const std::vector<LearnerData> answers = TakeAnswers(kLearner);
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[0].sequence(), 1u);
  EXPECT_EQ(answers[0].items_size(), 1);
  EXPECT_EQ(answers[1].sequence(), 2u);
  EXPECT_EQ(answers[1].items_size(), 3);
  EXPECT_THAT(StatusOf(kLearner).waits_for(), IsEmpty());
  EXPECT_EQ(coordinator_->counters().demands_waited, 1);
  EXPECT_EQ(coordinator_->counters().demands_answered, 2);
}

TEST_F(CoordinatorTest, DemandsThatCannotBeEndTheirWorker) {
  StartTraining();
  const std::string& id = learner_.task_id();
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(coordinator_->Handle(kLearner, Demand(id, 1, 0)), StatusIs(kInvalid));
  EXPECT_THAT(coordinator_->Handle(kLearner, Demand(id, 1, int64_t{1} << 50)), StatusIs(kInvalid));
  EXPECT_THAT(coordinator_->Handle(kLearner, Demand(id, 1, 1, 0, 0)), StatusIs(kInvalid));
  EXPECT_THAT(coordinator_->Handle(kLearner, Demand(id, 1, 1 << 20, 0, 5)), StatusIs(kInvalid));
  EXPECT_THAT(coordinator_->Handle(kLearner, Demand(id, 2, 1)), StatusIs(kInvalid));
  absl::Status status;
  uint64_t sequence = 0;
  while (status.ok() && sequence < 1000) {
    status = coordinator_->Handle(kLearner, Demand(id, ++sequence, 1));
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("64 demands wait for data")));
}

TEST_F(CoordinatorTest, AnswersThatAreNeverReadEndTheirWorker) {
  StartTraining();
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)));
  absl::Status status;
  uint64_t sequence = 0;
  while (status.ok() && sequence < 5000) {
    status = coordinator_->Handle(kLearner, Demand(learner_.task_id(), ++sequence, 1));
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("answers are not reported read")));
}

// Its data are in the hands of a learner until that has read them.
TEST_F(CoordinatorTest, AChunkIsDeletedWhenNobodyReadsItAnyMore) {
  capacity_ = 4;
  StartTraining();
  const auto push = [this](uint64_t sequence) {
    Handle(kCollector,
           Data(collector_.task_id(), sequence,
                TestItemsOfChunk(Chunk(kCollector, static_cast<uint32_t>(sequence)), 4)));
  };
  push(1);
  push(2);
  EXPECT_THAT(DeletedWhen(1), ElementsAre(ChunkKey(Chunk(kCollector, 1))));
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  Handle(kLearner, Demand(learner_.task_id(), 2, 4));
  push(3);
  EXPECT_EQ(coordinator_->status().buffer(0).chunks(), 2);
  Handle(kLearner, Demand(learner_.task_id(), 3, 4, /*read=*/1));
  push(4);
  EXPECT_EQ(coordinator_->status().buffer(0).chunks(), 3);
  EXPECT_THAT(store_.deleted(), SizeIs(1));
  Handle(kLearner, Demand(learner_.task_id(), 4, 4, /*read=*/2));
  EXPECT_THAT(DeletedWhen(2), Contains(ChunkKey(Chunk(kCollector, 2))));
  EXPECT_EQ(coordinator_->status().buffer(0).chunks(), 2);
  // Demand 3 has read chunk 3; with the learner goes who could read it.
  Lose(kLearner);
  EXPECT_THAT(DeletedWhen(3), Contains(ChunkKey(Chunk(kCollector, 3))));
  EXPECT_THAT(DeletedAfterClose(), SizeIs(4));
}

TEST_F(CoordinatorTest, AnotherLearnerGoesOnWithTheSameBuffer) {
  StartTraining();
  Handle(kLearner, Version("policy_0", 1));
  Handle(kLearner, Version("policy_0", 2));
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)));
  Handle(kLearner, Demand(learner_.task_id(), 1, 30));
  Lose(kLearner);
  // The collector goes on meanwhile.
  Handle(kCollector, Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 3)));
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(1, 2));
  Join(kOther, Hello::LEARNER);
  const LearnerTask task = TakeLearnerTask(kOther);
  EXPECT_NE(task.task_id(), learner_.task_id());
  EXPECT_EQ(task.policy_id(), learner_.policy_id());
  EXPECT_EQ(task.buffer_id(), learner_.buffer_id());
  EXPECT_TRUE(task.resume());
  EXPECT_EQ(task.first_version(), 3u);
  EXPECT_THAT(buffers_made_, SizeIs(1));
  Handle(kOther, Demand(task.task_id(), 1, 6));
  EXPECT_THAT(TakeAnswers(kOther), SizeIs(1)) << "the old learner's demand is forgotten";
  EXPECT_EQ(coordinator_->status().workers_lost(), 1);
  Handle(kOther, Version("policy_0", 3, kOther));
  EXPECT_EQ(coordinator_->status().policy_version(), 3u);
}

TEST_F(CoordinatorTest, ATaskWhoseWorkerIsLostGoesToAnother) {
  StartTraining();
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)));
  Lose(kCollector);
  Lose(kCollector);
  EXPECT_EQ(rows(), 3) << "what it announced stays";
  EXPECT_EQ(commander_->collector_space().running(), 1) << "given again, and waits";
  Join(kOther, Hello::COLLECTOR);
  const CollectorTask task = TakeCollectorTask(kOther);
  EXPECT_FALSE(task.task_id().empty());
  EXPECT_NE(task.task_id(), collector_.task_id());
  EXPECT_THAT(coordinator_->Handle(kCollector, Finished(collector_.task_id(), 1)),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(CoordinatorTest, WhatALostCollectorStoredAndDidNotAnnounceIsDeleted) {
  StartTraining();
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 4), 6), 24));
  Lose(kCollector);
  const std::vector<std::string> deleted = DeletedWhen(16);
  EXPECT_THAT(deleted, Contains(ChunkKey(Chunk(kCollector, 5))));
  EXPECT_THAT(deleted, Contains(ChunkKey(Chunk(kCollector, 13))));
  EXPECT_THAT(deleted, Not(Contains(ChunkKey(Chunk(kCollector, 4))))) << "it is in the buffer";
}

TEST_F(CoordinatorTest, ALearnerThatIsLostBeforeItStartedIsReplaced) {
  Start();
  Join(kCollector, Hello::COLLECTOR);
  Join(kLearner, Hello::LEARNER);
  const LearnerTask first = TakeLearnerTask(kLearner);
  Lose(kLearner);
  Join(kOther, Hello::LEARNER);
  const LearnerTask second = TakeLearnerTask(kOther);
  EXPECT_EQ(second.buffer_id(), first.buffer_id());
  EXPECT_THAT(sender_.Take(kCollector), IsEmpty());
  Handle(kOther, Started(second.task_id()));
  EXPECT_EQ(TakeCollectorTask(kCollector).buffer_id(), first.buffer_id());
}

TEST_F(CoordinatorTest, AFinishedLearnerTaskTakesItsBufferAlong) {
  StartTraining();
  Handle(kLearner, Version("policy_0", 1));
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)));
  Handle(kLearner, Demand(learner_.task_id(), 1, 2));
  sender_.Take(kLearner);
  sender_.Take(kCollector);
  Handle(kLearner, Info(learner_.task_id(), 7, /*done=*/true));
  std::vector<CoordinatorMessage> sent = sender_.Take(kLearner);
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].close_task().task_id(), learner_.task_id());
  const LearnerTask next = sent[1].start_task().learner();
  EXPECT_NE(next.policy_id(), learner_.policy_id());
  EXPECT_NE(next.buffer_id(), learner_.buffer_id());
  sent = sender_.Take(kCollector);
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].close_task().task_id(), collector_.task_id());
  EXPECT_THAT(DeletedWhen(2), UnorderedElementsAre(ChunkKey(Chunk(kCollector, 0)),
                                                   PolicyKey(learner_.policy_id(), 1, kLearner)));
  EXPECT_EQ(coordinator_->status().buffer_size(), 1);
  EXPECT_EQ(coordinator_->status().buffer(0).buffer_id(), next.buffer_id());
  // What the collector had under way is dropped, and it goes on with the next policy.
  Handle(kCollector, Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 3)));
  EXPECT_THAT(DeletedWhen(3), SizeIs(3));
  Handle(kLearner, Started(next.task_id()));
  const CollectorTask task = TakeCollectorTask(kCollector);
  EXPECT_TRUE(task.eval_flag());
  EXPECT_EQ(task.policy_id(), next.policy_id());
  Handle(kCollector, Finished(task.task_id(), 2));
}

TEST_F(CoordinatorTest, AnEvaluationOfAFinishedPolicyGoesOn) {
  Start();
  Join(kLearner, Hello::LEARNER);
  learner_ = TakeLearnerTask(kLearner);
  Handle(kLearner, Started(learner_.task_id()));
  Handle(kLearner, Version(learner_.policy_id(), 1));
  Join(kCollector, Hello::COLLECTOR);
  const CollectorTask evaluation = TakeCollectorTask(kCollector);
  ASSERT_TRUE(evaluation.eval_flag());
  Handle(kLearner, Info(learner_.task_id(), 7, /*done=*/true));
  EXPECT_THAT(sender_.Take(kCollector), IsEmpty());
  EXPECT_THAT(store_.deleted(), IsEmpty()) << "it may not have read its policy yet";
  Handle(kCollector, Finished(evaluation.task_id(), 2));
  EXPECT_EQ(coordinator_->status().eval_value(), 2);
  EXPECT_THAT(DeletedWhen(1), ElementsAre(PolicyKey(learner_.policy_id(), 1, kLearner)));
}

TEST_F(CoordinatorTest, KeepsTheTwoNewestVersionsOfAPolicy) {
  StartTraining();
  sender_.Take(kCollector);
  for (uint64_t version = 1; version <= 4; ++version) {
    Handle(kLearner, Version("policy_0", version));
  }
  EXPECT_THAT(sender_.Take(kCollector), SizeIs(4));
  EXPECT_THAT(DeletedWhen(2), ElementsAre("policy/policy_0/1-1", "policy/policy_0/2-1"));
  EXPECT_THAT(coordinator_->Handle(kLearner, Version("policy_0", 4)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected the next one")));
  WorkerMessage message = Version("policy_0", 5);
  message.mutable_policy_version()->set_key("data/1/0");
  EXPECT_THAT(
      coordinator_->Handle(kLearner, message),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 'policy/policy_0/5-1'")));
  EXPECT_THAT(coordinator_->Handle(kLearner, Version("policy_0", 5, kOther)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'policy/policy_0/5-3'")));
  Handle(kLearner, Version("policy_of_another", 9));
  EXPECT_EQ(coordinator_->status().policy_version(), 4u);
}

TEST_F(CoordinatorTest, WhatIsKeptOrPlayedByIsNotDeleted) {
  keeps_policies_ = true;
  Start();
  Join(kLearner, Hello::LEARNER);
  learner_ = TakeLearnerTask(kLearner);
  for (uint64_t version = 1; version <= 3; ++version) {
    Handle(kLearner, Version("policy_0", version));
    if (version == 1) {
      Handle(kLearner, Started(learner_.task_id()));
      Join(kCollector, Hello::COLLECTOR);
      Handle(kCollector, Finished(TakeCollectorTask(kCollector).task_id(), 1));
      collector_ = TakeCollectorTask(kCollector);
    }
  }
  ASSERT_EQ(collector_.player_size(), 2);
  EXPECT_EQ(collector_.player(0).policy().version(), 1u) << "the newest then, for who learns";
  EXPECT_EQ(collector_.player(1).policy().key(), "policy/policy_0/1-1");
  for (uint64_t version = 4; version <= 6; ++version) {
    Handle(kLearner, Version("policy_0", version));
  }
  EXPECT_THAT(DeletedWhen(2), ElementsAre("policy/policy_0/3-1", "policy/policy_0/4-1"));
  Handle(kCollector, Finished(collector_.task_id(), 1));
  EXPECT_EQ(TakeCollectorTask(kCollector).player(0).policy().version(), 6u);
  Handle(kLearner, Version("policy_0", 7));
  EXPECT_THAT(DeletedWhen(4), UnorderedElementsAre("policy/policy_0/3-1", "policy/policy_0/4-1",
                                                   "policy/policy_0/1-1", "policy/policy_0/5-1"));
  // The learner is done: what is kept stays to the end of the run.
  Handle(kLearner, Info(learner_.task_id(), 9, /*done=*/true));
  EXPECT_THAT(DeletedWhen(6), Not(Contains("policy/policy_0/2-1")));
  EXPECT_THAT(DeletedAfterClose(), Contains("policy/policy_0/2-1"));
}

TEST_F(CoordinatorTest, WhoIsSilentGetsTheNewestPolicyWhenItSpeaksAgain) {
  StartTraining();
  sender_.Take(kCollector);
  for (uint64_t version = 1; version <= 200; ++version) {
    Handle(kLearner, Version("policy_0", version));
  }
  EXPECT_THAT(sender_.Take(kCollector), SizeIs(64)) << "its messages must not pile up";
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 6), 24));
  std::vector<uint64_t> versions;
  for (const CoordinatorMessage& message : sender_.Take(kCollector)) {
    if (message.has_policy_version()) versions.push_back(message.policy_version().version());
  }
  EXPECT_THAT(versions, ElementsAre(200u));
  Handle(kLearner, Version("policy_0", 201));
  EXPECT_THAT(sender_.Take(kCollector), SizeIs(1));
}

TEST_F(CoordinatorTest, ATaskThatNobodyTakesIsGivenBack) {
  commander_options_.collector_resources.set_cpus(4);
  Start();
  Join(kCollector, Hello::COLLECTOR, /*cpus=*/2);
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  EXPECT_THAT(sender_.Take(kCollector), IsEmpty()) << "it has too few cpus";
  Advance(absl::Seconds(29));
  Join(kOther, Hello::COLLECTOR, /*cpus=*/2);  // adds a task, which waits from now on
  Advance(absl::Seconds(1));
  Join(kOther + 1, Hello::COLLECTOR, /*cpus=*/4);
  const CollectorTask task = TakeCollectorTask(kOther + 1);
  EXPECT_EQ(task.task_id(), "collector_task_1") << "task 0 was given back";
}

TEST_F(CoordinatorTest, ALearnerTaskThatNobodyTakesIsGivenBack) {
  Start();
  Advance(absl::Seconds(599));
  Join(kCollector, Hello::COLLECTOR);
  EXPECT_EQ(commander_->learner_space().running(), 1);
  Advance(absl::Seconds(1));
  Join(kLearner, Hello::LEARNER);
  const LearnerTask task = TakeLearnerTask(kLearner);
  EXPECT_EQ(task.task_id(), "learner_task_1");
  EXPECT_EQ(task.buffer_id(), "buffer_0") << "collectors were told of it (D93)";
}

// Has a learner task when it is asked again, which nobody takes.
class PatientCommander : public BaseCommander {
 public:
  explicit PatientCommander(std::atomic<int>* failed) : failed_(failed) {}

  std::optional<CollectorTask> GetCollectorTask() override { return std::nullopt; }
  std::optional<LearnerTask> GetLearnerTask() override {
    if (!waited_) {
      waited_ = true;
      return std::nullopt;
    }
    if (given_) return std::nullopt;
    given_ = true;
    return LearnerTask();
  }
  absl::Duration AskAgainAfter() const override {
    return given_ ? absl::InfiniteDuration() : absl::Milliseconds(1);
  }
  bool FinishCollectorTask(const CollectorTask&, const CollectorFinished&) override {
    return false;
  }
  void FinishLearnerTask(const LearnerTask&) override {}
  void NotifyFailCollectorTask(const CollectorTask&) override {}
  void NotifyFailLearnerTask(const LearnerTask&) override {
    given_ = false;
    ++*failed_;
  }
  void UpdateLearnerInfo(const LearnerTask&, const LearnerInfo&) override {}
  void IncreaseCollectorTaskSpace() override {}
  void DecreaseCollectorTaskSpace() override {}
  int64_t total_collector_env_step() const override { return 0; }
  std::optional<double> last_eval_value() const override { return std::nullopt; }
  const std::vector<double>& last_eval_returns() const override { return no_returns_; }

 private:
  std::atomic<int>* const failed_;
  bool waited_ = false;
  bool given_ = false;
  const std::vector<double> no_returns_;
};

TEST_F(CoordinatorTest, WhatIsDueWithTimeHappensWithoutAMessage) {
  std::atomic<int> failed{0};
  options_.learner_task_timeout = absl::Milliseconds(1);
  Coordinator::Parts parts;
  parts.commander = std::make_unique<PatientCommander>(&failed);
  parts.make_buffer = make_buffer_;
  parts.delete_key = store_.deleter();
  parts.sender = &sender_;
  DING_ASSERT_OK_AND_ASSIGN(coordinator_,
                            Coordinator::Create(options_, std::move(parts), ComponentDeps()));
  coordinator_->Start();
  for (int i = 0; i < 5000 && failed < 3; ++i) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_GE(failed, 3);

  options_.max_time = absl::Milliseconds(1);
  deps_.clock = Clock::Real();
  Start();
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::Seconds(10)), IsOk());
}

TEST_F(CoordinatorTest, CollectorsBeyondTheFirstOnesAddTasks) {
  StartTraining();
  Join(kOther, Hello::COLLECTOR);
  EXPECT_EQ(commander_->collector_space().max(), 2);
  EXPECT_FALSE(TakeCollectorTask(kOther).task_id().empty());
  Lose(kCollector);
  EXPECT_EQ(commander_->collector_space().max(), 1);
  Lose(kOther);
  EXPECT_EQ(commander_->collector_space().max(), 1);
  Join(kOther + 1, Hello::COLLECTOR);
  EXPECT_EQ(commander_->collector_space().max(), 1);
}

TEST_F(CoordinatorTest, TasksThatKeepFailingEndTheRunWithTheirError) {
  StartTraining();
  for (int i = 0; i < 2; ++i) {
    Handle(kCollector, Failed(collector_.task_id(), absl::StatusCode::kInternal));
    collector_ = TakeCollectorTask(kCollector);
  }
  Handle(kCollector, Finished(collector_.task_id(), 1));  // one that does not
  collector_ = TakeCollectorTask(kCollector);
  for (int i = 0; i < 5; ++i) {
    Handle(kCollector, Failed(collector_.task_id(), absl::StatusCode::kCancelled));
    collector_ = TakeCollectorTask(kCollector);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    ASSERT_FALSE(collector_.task_id().empty());
    Handle(kCollector, Failed(collector_.task_id(), absl::StatusCode::kInternal));
    collector_ = TakeCollectorTask(kCollector);
  }
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("3 tasks failed in a row"), HasSubstr("env 3 died"))));
}

// That is what WaitUntilDone() says of a run that goes on.
TEST_F(CoordinatorTest, TasksThatFailForADeadlineEndTheRunToo) {
  StartTraining();
  for (int i = 0; i < 3; ++i) {
    Handle(kCollector, Failed(collector_.task_id(), absl::StatusCode::kDeadlineExceeded));
    collector_ = TakeCollectorTask(kCollector);
  }
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("3 tasks failed in a row"), HasSubstr("env 3 died"))));
}

TEST_F(CoordinatorTest, ALearnerThatTrainsBetweenFailuresIsTriedAgain) {
  StartTraining();
  for (int i = 0; i < 10; ++i) {
    Handle(kLearner, Info(learner_.task_id(), 10 * i));
    Handle(kLearner, Info(learner_.task_id(), 10 * i + 1));
    Handle(kLearner, Failed(learner_.task_id(), absl::StatusCode::kDataLoss));
    learner_ = TakeLearnerTask(kLearner);
    ASSERT_FALSE(learner_.task_id().empty()) << i;
  }
  for (int i = 0; i < 2; ++i) {
    // Where it goes on from is no progress.
    Handle(kLearner, Info(learner_.task_id(), 90));
    Handle(kLearner, Failed(learner_.task_id(), absl::StatusCode::kDataLoss));
    learner_ = TakeLearnerTask(kLearner);
  }
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(CoordinatorTest, ABufferThatCannotBeMadeEndsTheRun) {
  make_buffer_ = [](const std::string&, const OnRemoved&) {
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

TEST_F(CoordinatorTest, AnOperatorIsToldTheState) {
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

TEST_F(CoordinatorTest, AStatusOfAGroupThatCannotBeIsRefused) {
  StartTraining();
  Handle(kLearner, GroupOf({"learner-0"}));
  WorkerMessage nested = GroupOf({"learner-1"});
  nested.mutable_group_status()->mutable_member(0)->add_member();
  for (const WorkerMessage& message : {GroupOf(std::vector<std::string>(kMaxGroupMembers + 1, "x")),
                                       GroupOf({std::string(kMaxGroupStatusBytes, 'x')}), nested}) {
    EXPECT_THAT(coordinator_->Handle(kLearner, message),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected at most 256")));
  }
  EXPECT_THAT(coordinator_->Handle(kCollector, GroupOf({"learner-1"})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("what only a LEARNER")));
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
  // Nobody is too many yet.
  EXPECT_EQ(Shrink(2).status().wanted_collectors(), 2);
  EXPECT_FALSE(IsLetGo(kCollector) || IsLetGo(kOther));
  EXPECT_EQ(Shrink(1).code(), 0);
  EXPECT_TRUE(StatusOf(kOther).draining()) << "it came last";
  EXPECT_FALSE(StatusOf(kCollector).draining());
  EXPECT_FALSE(IsLetGo(kOther)) << "its task runs";
  Handle(kOther, Finished(other.task_id(), 1));
  EXPECT_TRUE(IsLetGo(kOther));
  coordinator_->WorkerLost(kOther, absl::AbortedError("done"));
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

// A buffer that allows two rows pushed per row drawn.
class PushBackTest : public CoordinatorTest {
 protected:
  PushBackTest() {
    make_buffer_ = [this](const std::string&, OnRemoved on_removed) {
      AdvancedReplayBuffer::Options options;
      options.capacity_rows = 100;
      options.thruput.max_push_sample_ratio = 2;
      options.clock = &clock_;
      options.on_removed = std::move(on_removed);
      return AdvancedReplayBuffer::Create(options);
    };
  }
  // Until the collector's push is refused.
  void WaitForPushBack() {
    for (int i = 0; i < 5000 && StatusOf(kCollector).waits_for().empty(); ++i) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    ASSERT_THAT(StatusOf(kCollector).waits_for(), Not(IsEmpty()));
  }
  // 4 rows are there and 2 were drawn: the next push is one too many.
  void FillUp() {
    StartTraining();
    Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 4)));
    Handle(kLearner, Demand(learner_.task_id(), 1, 2));
    sender_.Take(kCollector);
    pusher_ = std::thread([this] {
      status_ = coordinator_->Handle(
          kCollector, Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 2)));
    });
    WaitForPushBack();
  }

  std::thread pusher_;
  absl::Status status_;
};

TEST_F(PushBackTest, APushWaitsUntilTheLearnerDraws) {
  FillUp();
  EXPECT_THAT(TakeAcks(kCollector), IsEmpty());
  EXPECT_EQ(rows(), 4);
  Handle(kLearner, Demand(learner_.task_id(), 2, 2));
  pusher_.join();
  EXPECT_THAT(status_, IsOk());
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(2));
  EXPECT_EQ(rows(), 6);
  EXPECT_THAT(StatusOf(kCollector).waits_for(), IsEmpty());
  EXPECT_EQ(coordinator_->counters().pushes_waited, 1);
}

TEST_F(PushBackTest, APushWaitsUntilTheControlHasFaded) {
  FillUp();
  clock_.Advance(absl::Minutes(10));
  pusher_.join();
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(2));
}

TEST_F(PushBackTest, AWorkerThatIsLostWaitsNoLonger) {
  FillUp();
  Lose(kCollector);
  pusher_.join();
  EXPECT_THAT(status_, IsOk());
  EXPECT_EQ(rows(), 4);
  EXPECT_THAT(DeletedWhen(17), Contains(ChunkKey(Chunk(kCollector, 1))).Times(1));
}

TEST_F(PushBackTest, TheEndOfTheRunIsNotWaitedFor) {
  FillUp();
  EXPECT_THAT(DeletedAfterClose(), Contains(ChunkKey(Chunk(kCollector, 0))));
  pusher_.join();
  EXPECT_THAT(store_.deleted(),
              UnorderedElementsAre(ChunkKey(Chunk(kCollector, 0)), ChunkKey(Chunk(kCollector, 1))));
}

// A buffer that lets something happen just before it pushes, or after it has drawn, once each.
class HookedBuffer : public IBuffer {
 public:
  struct Hooks {
    std::function<void()> before_push;
    std::function<void()> after_sample;
  };
  HookedBuffer(std::unique_ptr<IBuffer> buffer, Hooks* hooks)
      : buffer_(std::move(buffer)), hooks_(hooks) {}

  absl::Status Push(const SegmentBatch& data, int64_t envstep) override {
    if (const auto hook = std::exchange(hooks_->before_push, nullptr)) hook();
    return buffer_->Push(data, envstep);
  }
  absl::StatusOr<Batch> Sample(int64_t size, int64_t iter, const SampleOptions& options) override {
    absl::StatusOr<Batch> batch = buffer_->Sample(size, iter, options);
    if (const auto hook = std::exchange(hooks_->after_sample, nullptr)) hook();
    return batch;
  }
  absl::Status Update(const PriorityInfo& info) override { return buffer_->Update(info); }
  void Clear() override { buffer_->Clear(); }
  int64_t count() const override { return buffer_->count(); }
  int64_t push_count() const override { return buffer_->push_count(); }
  StateSnapshot Snapshot() const override { return buffer_->Snapshot(); }
  absl::Status LoadState(StateReader* reader) override { return buffer_->LoadState(reader); }

 private:
  const std::unique_ptr<IBuffer> buffer_;
  Hooks* const hooks_;
};

// What happens while another call is at the buffer.
class InTheMiddleTest : public CoordinatorTest {
 protected:
  InTheMiddleTest() {
    make_buffer_ = [this](const std::string&,
                          OnRemoved on_removed) -> absl::StatusOr<std::unique_ptr<IBuffer>> {
      NaiveReplayBuffer::Options options;
      options.capacity_rows = 4;
      options.on_removed = std::move(on_removed);
      return std::make_unique<HookedBuffer>(NaiveReplayBuffer::Create(options).value(), &hooks_);
    };
  }
  void Push(uint64_t sequence) {
    Handle(kCollector,
           Data(collector_.task_id(), sequence,
                TestItemsOfChunk(Chunk(kCollector, static_cast<uint32_t>(sequence)), 4)));
  }

  HookedBuffer::Hooks hooks_;
};

TEST_F(InTheMiddleTest, RowsThatComeDuringADrawInVainAreDrawn) {
  StartTraining();
  hooks_.after_sample = [this] { Push(1); };
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
}

TEST_F(InTheMiddleTest, AChunkThatLeavesDuringADrawMayHaveBeenDrawn) {
  StartTraining();
  Push(1);
  hooks_.after_sample = [this] { Push(2); };
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  ASSERT_THAT(TakeAnswers(kLearner), SizeIs(1));
  EXPECT_EQ(coordinator_->status().buffer(0).chunks(), 2);
  Handle(kLearner, Demand(learner_.task_id(), 2, 4, /*read=*/1));
  EXPECT_THAT(DeletedWhen(1), ElementsAre(ChunkKey(Chunk(kCollector, 1))));
}

TEST_F(InTheMiddleTest, ALearnerThatIsReplacedDuringADrawGetsNoAnswer) {
  StartTraining();
  Push(1);
  hooks_.after_sample = [this] {
    Lose(kLearner);
    Join(kOther, Hello::LEARNER);
    learner_ = TakeLearnerTask(kOther);
    Handle(kOther, Demand(learner_.task_id(), 1, 2));
  };
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty());
  const std::vector<LearnerData> answers = TakeAnswers(kOther);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].task_id(), learner_.task_id());
  EXPECT_EQ(DecodeBatch(answers[0].items(0)).value().rows(), 2);
}

TEST_F(InTheMiddleTest, RowsThatArePushedIntoABufferThatIsClosedAreForgotten) {
  StartTraining();
  hooks_.before_push = [this] { Handle(kLearner, Info(learner_.task_id(), 7, /*done=*/true)); };
  Push(1);
  EXPECT_THAT(TakeAcks(kCollector), IsEmpty());
  EXPECT_THAT(DeletedWhen(1), ElementsAre(ChunkKey(Chunk(kCollector, 1))));
}

// Random workers that join, send, repeat and die. Each row is in its own chunk, so that what the
// store deleted and what the buffers hold must make up what was acknowledged.
class RandomRun : public CoordinatorTest, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomRun, testing::Range(0, 20));

TEST_P(RandomRun, LosesNoAcknowledgedRowAndDeletesNoneThatIsRead) {
  struct Fake {
    Hello::Role role;
    std::string task;
    uint64_t sequence = 0;
    uint32_t chunks = 0;
    uint64_t read = 0;
    std::map<uint64_t, std::set<int64_t>> unread;  // chunks, by demand
  };
  SCOPED_TRACE(absl::StrCat("seed ", GetParam()));
  Rng rng(static_cast<uint64_t>(GetParam()), "test/random_run");
  capacity_ = 12;
  options_.max_task_failures = 1000000;
  commander_options_.eval_interval = 5;
  commander_options_.stop_value = 1e9;
  Start();
  std::map<uint32_t, Fake> workers;
  std::map<int64_t, int64_t> rows_of;             // of acknowledged chunks
  std::set<int64_t> announced;                    // all chunks
  std::vector<std::pair<int64_t, int64_t>> sent;  // chunk, rows, in the order of pushes
  uint32_t next_worker = 1;
  const auto read_all = [&] {
    for (auto& [id, fake] : workers) {
      for (const CoordinatorMessage& message : sender_.Take(id)) {
        if (message.has_start_task()) {
          fake.task = fake.role == Hello::LEARNER ? message.start_task().learner().task_id()
                                                  : message.start_task().collector().task_id();
          if (message.start_task().collector().eval_flag()) fake.task = "eval " + fake.task;
          if (fake.role == Hello::LEARNER) {
            fake.unread.clear();
            fake.read = fake.sequence;
            Handle(id, Started(fake.task));
          }
        }
        if (message.has_close_task()) fake.task.clear();
        if (message.has_collector_data_ack() && !sent.empty()) {
          rows_of[sent.back().first] = sent.back().second;
        }
        if (message.has_learner_data()) {
          std::set<int64_t>& chunks = fake.unread[message.learner_data().sequence()];
          for (const std::string& items : message.learner_data().items()) {
            const Batch batch = DecodeBatch(items).value();
            for (const int64_t chunk : batch.column<int64_t>("chunk")) chunks.insert(chunk);
          }
        }
      }
    }
  };
  for (int step = 0; step < 400; ++step) {
    const int choice = static_cast<int>(rng.UniformInt(20));
    auto it = workers.begin();
    if (!workers.empty()) std::advance(it, rng.UniformInt(workers.size()));
    if (workers.size() < 2 || (choice == 0 && workers.size() < 6)) {
      const Hello::Role role = rng.UniformInt(2) == 0 ? Hello::LEARNER : Hello::COLLECTOR;
      workers[next_worker].role = role;
      Join(next_worker++, role);
    } else if (choice == 1) {
      Lose(it->first);
      workers.erase(it);
    } else if (choice == 2) {
      Advance(absl::Seconds(static_cast<int64_t>(rng.UniformInt(20))));
    } else if (it->second.task.empty()) {
      continue;
    } else if (it->second.role == Hello::LEARNER) {
      Fake& learner = it->second;
      if (choice == 3) {
        Handle(it->first, Failed(learner.task, absl::StatusCode::kInternal));
        learner.task.clear();
        learner.unread.clear();
      } else if (choice == 4 && step > 100) {
        Handle(it->first, Info(learner.task, step, /*done=*/true));
        learner.unread.clear();
      } else {
        if (!learner.unread.empty() && rng.UniformInt(2) == 0) {
          learner.read = learner.unread.begin()->first;
          learner.unread.erase(learner.unread.begin());
        }
        if (learner.sequence < learner.read + 20) {
          Handle(it->first, Demand(learner.task, ++learner.sequence,
                                   1 + static_cast<int64_t>(rng.UniformInt(4)), learner.read));
        }
      }
    } else {
      Fake& collector = it->second;
      const bool evaluates = collector.task.rfind("eval ", 0) == 0;
      const std::string task = evaluates ? collector.task.substr(5) : collector.task;
      if (choice == 3) {
        Handle(it->first, Failed(task, absl::StatusCode::kInternal));
        collector.task.clear();
      } else if (choice == 4 || evaluates) {
        Handle(it->first, Finished(task, 1));
        collector.task.clear();
      } else {
        const int64_t chunk = Chunk(it->first, collector.chunks++);
        const int64_t rows = 1 + static_cast<int64_t>(rng.UniformInt(5));
        announced.insert(chunk);
        sent.emplace_back(chunk, rows);
        const WorkerMessage data =
            Data(task, ++collector.sequence, TestItemsOfChunk(chunk, rows), step);
        const int64_t before = coordinator_->counters().rows_acknowledged;
        Handle(it->first, data);
        EXPECT_EQ(coordinator_->counters().rows_acknowledged, before + rows);
        if (rng.UniformInt(3) == 0) Handle(it->first, data);
      }
    }
    read_all();
    const std::vector<std::string> deleted = store_.deleted();
    for (const auto& [id, fake] : workers) {
      for (const auto& [sequence, chunks] : fake.unread) {
        for (const int64_t chunk : chunks) {
          ASSERT_THAT(deleted, Not(Contains(ChunkKey(chunk)))) << "step " << step;
        }
      }
    }
  }
  const Coordinator::Counters counters = coordinator_->counters();
  EXPECT_EQ(counters.rows_acknowledged, counters.rows_pushed);
  int64_t acknowledged = 0;
  for (const auto& [chunk, rows] : rows_of) acknowledged += rows;
  EXPECT_EQ(acknowledged, counters.rows_acknowledged);
  // The newest rows are still there, until the end of the run forgets them.
  if (coordinator_->status().buffer_size() == 1) {
    EXPECT_EQ(rows(), std::min(capacity_, coordinator_->status().buffer(0).push_count()));
  }
  std::vector<std::string> keys;
  for (const int64_t chunk : announced) keys.push_back(ChunkKey(chunk));
  std::sort(keys.begin(), keys.end());
  std::vector<std::string> deleted;
  for (const std::string& key : DeletedAfterClose()) {
    // Beside them go chunks that lost collectors might have stored.
    if (std::binary_search(keys.begin(), keys.end(), key)) deleted.push_back(key);
  }
  std::sort(deleted.begin(), deleted.end());
  EXPECT_EQ(deleted, keys) << "each chunk once";
}

// The same calls from a thread per worker, for ThreadSanitizer.
TEST_F(CoordinatorTest, WorkersOfSeveralThreads) {
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
  // And what the lost collector might have stored beside.
  EXPECT_THAT(deleted, SizeIs(2 * kMessages + 16));
  EXPECT_EQ(std::set<std::string>(deleted.begin(), deleted.end()).size(), deleted.size());
}

}  // namespace
}  // namespace ding
