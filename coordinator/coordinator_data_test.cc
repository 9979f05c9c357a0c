// Rows that collectors announce, demands for them, and what is deleted.
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

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

TEST_F(CoordinatorTest, InvalidDataEndsItsWorkerOnly) {
  StartTraining();
  const std::string& id = collector_.task_id();
  const auto refused = [this](const WorkerMessage& message, absl::StatusCode code,
                              const std::string& what) {
    EXPECT_THAT(HandleNow(coordinator_.get(), kCollector, message),
                StatusIs(code, HasSubstr(what)));
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const SegmentBatch items = TestItemsOfChunk(Chunk(kCollector, 3), 3);
  refused(Data(id, 2, items), kInvalid, "data 2, expected data 1");
  refused(Data(id, 0, items), kInvalid, "without a sequence number");
  refused(Data(id, 1, TestItemsOfChunk(Chunk(kOther, 0), 3)), kInvalid,
          "does not belong to worker 2");
  refused(Data(id, 1, TestItemsOfChunk(-1, 3)), kInvalid, "does not belong to worker 2");
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
  refused(Demand(id, 1, 1), kInvalid, "a COLLECTOR sent a message that only a LEARNER sends");
  refused(WorkerMessage(), kInvalid, "which is not allowed");
  message.Clear();
  message.mutable_hello();
  refused(message, kInvalid, "which is not allowed");
  EXPECT_EQ(rows(), 0);
  EXPECT_THAT(TakeAcks(kCollector), IsEmpty());

  Handle(kCollector, Data(id, 1, items));
  refused(Data(id, 2, items), kInvalid, "expected all items of a chunk in one message");
  EXPECT_EQ(rows(), 3);
  EXPECT_THAT(HandleNow(coordinator_.get(), 77, Data(id, 1, items)),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CoordinatorTest, DataOfTasksThatAreOverAreDeleted) {
  StartTraining();
  Handle(kCollector, Data("another_task", 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)));
  EXPECT_THAT(TakeAcks(kCollector), IsEmpty());
  EXPECT_EQ(coordinator_->counters().late_messages, 1);
  EXPECT_THAT(DeletedWhen(1), ElementsAre(ChunkKey(Chunk(kCollector, 0))));
  // The next message does not count as a gap.
  Handle(kCollector, Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 3)));
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(2));
  EXPECT_EQ(rows(), 3);
}

TEST_F(CoordinatorTest, ProgressWithoutRowsCountsSteps) {
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
  // The steps of a task that fails count, too.
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
      HandleNow(coordinator_.get(), kCollector,
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

TEST_F(CoordinatorTest, InvalidDemandsEndTheirWorker) {
  StartTraining();
  const std::string& id = learner_.task_id();
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, Demand(id, 1, 0)), StatusIs(kInvalid));
  EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, Demand(id, 1, int64_t{1} << 50)),
              StatusIs(kInvalid));
  EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, Demand(id, 1, 1, 0, 0)), StatusIs(kInvalid));
  EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, Demand(id, 1, 1 << 20, 0, 5)),
              StatusIs(kInvalid));
  EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, Demand(id, 2, 1)), StatusIs(kInvalid));
}

// A chunk is in use until the learner has read it.
TEST_F(CoordinatorTest, AChunkIsDeletedWhenItsLastReaderIsDone) {
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
  // Demand 3 was answered with chunk 3. When the learner is gone, nobody can read the chunk any
  // more.
  Lose(kLearner);
  EXPECT_THAT(DeletedWhen(3), Contains(ChunkKey(Chunk(kCollector, 3))));
  EXPECT_THAT(DeletedAfterClose(), SizeIs(4));
}

// A buffer that allows two rows pushed per row drawn.
class PushBackTest : public CoordinatorTest {
 protected:
  PushBackTest() {
    make_buffer_ = [this](const std::string&, absl::Span<const std::string> /*settings*/,
                          OnRemoved on_removed) {
      AdvancedReplayBuffer::Options options;
      options.capacity_rows = 100;
      options.thruput.max_push_sample_ratio = 2;
      options.clock = &clock_;
      options.on_removed = std::move(on_removed);
      return AdvancedReplayBuffer::Create(options);
    };
  }
  // Waits until the collector's push is refused.
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
      status_ = HandleNow(coordinator_.get(), kCollector,
                          Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 2)));
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

TEST_F(PushBackTest, APushWaitsUntilTheRateControlHasFaded) {
  FillUp();
  clock_.Advance(absl::Minutes(10));
  pusher_.join();
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(2));
}

TEST_F(PushBackTest, APushOfALostWorkerStopsWaiting) {
  FillUp();
  Lose(kCollector);
  pusher_.join();
  EXPECT_THAT(status_, IsOk());
  EXPECT_EQ(rows(), 4);
  EXPECT_THAT(DeletedWhen(17), Contains(ChunkKey(Chunk(kCollector, 1))).Times(1));
}

TEST_F(PushBackTest, APushStopsWaitingAtTheEndOfTheRun) {
  FillUp();
  EXPECT_THAT(DeletedAfterClose(), Contains(ChunkKey(Chunk(kCollector, 0))));
  pusher_.join();
  EXPECT_THAT(store_.deleted(),
              UnorderedElementsAre(ChunkKey(Chunk(kCollector, 0)), ChunkKey(Chunk(kCollector, 1))));
}

}  // namespace
}  // namespace ding
