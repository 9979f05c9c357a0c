#include "ding_worker/coordinator/state/task_buffer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/state/buffer_chunks.h"
#include "ding_worker/coordinator/state/learning_rounds.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kWorker = 3;

LearnerDemand Demand(uint64_t sequence, int64_t batch_size = 2, int batches = 1,
                     uint64_t read = 0) {
  LearnerDemand demand;
  demand.set_task_id("learner_task_0");
  demand.set_sequence(sequence);
  demand.set_batch_size(batch_size);
  demand.set_batches(batches);
  demand.set_read(read);
  return demand;
}

std::unique_ptr<NaiveReplayBuffer> Rows(int64_t capacity) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = capacity;
  return NaiveReplayBuffer::Create(options).value();
}

BufferStatus StatusOf(const TaskBuffer& buffer) {
  BufferStatus status;
  buffer.FillStatus(&status);
  return status;
}

TEST(TaskBufferTest, DrawFirst_ReturnsAsManyBatchesAsThereAreRowsFor) {
  TaskBuffer buffer("buffer_0");
  buffer.set_rows(Rows(10));
  buffer.AddEnvSteps(30);
  LearnerDemand demand = Demand(4, 3, 2);
  demand.set_train_iter(8);
  ASSERT_THAT(buffer.AddDemand(demand), IsOk());
  EXPECT_THAT(buffer.DrawFirst(), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_THAT(buffer.rows()->Push(TestItemsOfChunk(7, 4, /*collect_iter=*/5), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const LearnerData answer, buffer.DrawFirst());
  EXPECT_EQ(answer.items_size(), 2);
  EXPECT_EQ(answer.task_id(), "learner_task_0");
  EXPECT_EQ(answer.sequence(), 4u);
  EXPECT_EQ(answer.envstep(), 30);
  EXPECT_EQ(StatusOf(buffer).sample_count(), 6);
  EXPECT_EQ(StatusOf(buffer).staleness_iterations(), 3);
  EXPECT_FALSE(buffer.has_demand());
}

std::unique_ptr<AdvancedReplayBuffer> RowsUsedOnce() {
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = 100;
  options.max_use = 1;
  options.selector = std::make_shared<UniformSelector>();
  return AdvancedReplayBuffer::Create(options).value();
}

// A buffer with rounds, which draws each row once.
class DrawFirstTest : public testing::Test {
 protected:
  DrawFirstTest() : buffer_("buffer_0", WithRounds()) { buffer_.set_rows(RowsUsedOnce()); }

  static TaskBuffer::Limits WithRounds() {
    TaskBuffer::Limits limits;
    limits.rounds = LearningRounds{/*rows=*/4, /*hand_over_rows=*/4, /*ahead=*/1};
    return limits;
  }
  void Push(int64_t chunk, int64_t rows, int64_t collect_iter = -1) {
    ASSERT_THAT(buffer_.rows()->Push(TestItemsOfChunk(chunk, rows, collect_iter), 0), IsOk());
  }
  absl::StatusOr<LearnerData> Draw(const LearnerDemand& demand, bool whole = false) {
    buffer_.ForgetLearner();  // with the demand that waits
    EXPECT_THAT(buffer_.AddDemand(demand), IsOk());
    return buffer_.DrawFirst(whole);
  }
  // Returns the chunks of the rows that are drawn, in their order.
  std::vector<int64_t> ChunksDrawn(const LearnerDemand& demand, bool whole = false) {
    const LearnerData answer = Draw(demand, whole).value();
    EXPECT_EQ(answer.sequence(), demand.sequence());
    const Batch items = DecodeBatch(answer.items(0)).value();
    const absl::Span<const int64_t> chunks = items.column<int64_t>(kColumnChunk);
    std::vector<int64_t> sorted(chunks.begin(), chunks.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

  TaskBuffer buffer_;
};

TEST_F(DrawFirstTest, Rounds_TakeTheOldestRowsOnce) {
  Push(1, 3);
  Push(2, 3);
  EXPECT_THAT(ChunksDrawn(Demand(1, 2)), ElementsAre(1, 1));
  EXPECT_EQ(buffer_.rows()->count(), 4);
  EXPECT_THAT(Draw(Demand(2, 5)), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(buffer_.rows()->count(), 4) << "they wait for the rest of the round";
  EXPECT_THAT(ChunksDrawn(Demand(3, 2)), ElementsAre(1, 2));
}

TEST_F(DrawFirstTest, Rounds_TakeWhatIsThereBesideARound) {
  Push(1, 7);
  EXPECT_THAT(ChunksDrawn(Demand(1, 4)), SizeIs(7));
  Push(2, 11);
  EXPECT_THAT(ChunksDrawn(Demand(2, 5)), SizeIs(5)) << "half of two rounds and one row";
  EXPECT_THAT(ChunksDrawn(Demand(3, 5)), SizeIs(6));
  Push(3, 11);
  EXPECT_THAT(ChunksDrawn(Demand(4, 5), /*whole=*/true), SizeIs(11));
}

TEST_F(DrawFirstTest, Rounds_LeaveOutRowsThatAreTooOldAndThoseOfBadChunks) {
  Push(1, 4, /*collect_iter=*/10);
  Push(2, 2, /*collect_iter=*/10);
  Push(3, 1, /*collect_iter=*/20);
  Push(4, 1, /*collect_iter=*/25);
  Push(5, 4, /*collect_iter=*/30);
  LearnerDemand demand = Demand(7, 4);
  demand.set_train_iter(32);
  demand.add_collect_iter(20);
  demand.add_collect_iter(30);
  buffer_.chunks()->Add({3});
  buffer_.chunks()->MarkBad(3);
  // The first four are all too old. Of the next ones, two are too old, and one is of a bad chunk;
  // 25 is no iteration of a version.
  EXPECT_THAT(ChunksDrawn(demand), ElementsAre(5, 5, 5, 5));
  EXPECT_EQ(buffer_.rows_too_old(), 7);
  EXPECT_EQ(StatusOf(buffer_).staleness_iterations(), 2);

  Push(6, 4, /*collect_iter=*/10);
  EXPECT_THAT(Draw(demand), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(buffer_.rows_too_old(), 11) << "counted though nothing is drawn";
}

TEST(TaskBufferTest, DrawFirst_RowsForOneBatchOfTwo_WaitsOnlyIfWhole) {
  for (const bool whole : {false, true}) {
    TaskBuffer buffer("buffer_0");
    buffer.set_rows(RowsUsedOnce());
    ASSERT_THAT(buffer.rows()->Push(TestItemsOfChunk(7, 6), 0), IsOk());
    ASSERT_THAT(buffer.AddDemand(Demand(1, 4, 2)), IsOk());
    const absl::StatusOr<LearnerData> answer = buffer.DrawFirst(whole);
    EXPECT_EQ(buffer.has_demand(), whole);
    if (whole) {
      EXPECT_THAT(answer, StatusIs(absl::StatusCode::kFailedPrecondition));
    } else {
      EXPECT_EQ(answer.value().items_size(), 1);
    }
  }
}

TEST(TaskBufferTest, ACollectorGoesOnWhileTheRoundIsNotFullByWhatIsBeingCollected) {
  TaskBuffer::Limits limits;
  limits.rounds = LearningRounds{/*rows=*/8, /*hand_over_rows=*/4, /*ahead=*/1};
  TaskBuffer buffer("buffer_0", limits);
  EXPECT_TRUE(buffer.has_rounds());
  EXPECT_THAT(buffer.CheckGoOn(/*rows=*/4, /*collecting=*/0), IsOk());
  EXPECT_THAT(buffer.CheckGoOn(3, 1), IsOk());
  EXPECT_THAT(buffer.CheckGoOn(4, 1),
              StatusIs(absl::StatusCode::kUnavailable,
                       "a learner, for a round of 8 rows (4 are there, 4 are being collected)"));
  buffer.set_learner(kWorker);
  EXPECT_THAT(buffer.CheckGoOn(8, 0),
              StatusIs(absl::StatusCode::kUnavailable,
                       "the learner to learn from a round of 8 rows (8 are there, 0 are being "
                       "collected)"));
  ASSERT_THAT(buffer.AddDemand(Demand(1, 8)), IsOk());
  EXPECT_THAT(buffer.CheckGoOn(4, 2), IsOk())
      << "the learner waits for these, and learns from them first";
  EXPECT_THAT(buffer.CheckGoOn(4, 3), StatusIs(absl::StatusCode::kUnavailable));
  limits.rounds->ahead = 2;
  EXPECT_THAT(TaskBuffer("buffer_1", limits).CheckGoOn(8, 1), IsOk());
}

TEST(TaskBufferTest, WithoutRoundsAheadACollectorWaitsForTheNextDemand) {
  TaskBuffer::Limits limits;
  limits.rounds = LearningRounds{/*rows=*/8, /*hand_over_rows=*/4, /*ahead=*/0};
  TaskBuffer buffer("buffer_0", limits);
  EXPECT_THAT(buffer.CheckGoOn(0, 0), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_THAT(buffer.AddDemand(Demand(1, 8)), IsOk());
  EXPECT_THAT(buffer.CheckGoOn(0, 0), IsOk());
  EXPECT_THAT(buffer.CheckGoOn(4, 1), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(ChunksOfTest, ReturnsEachChunkOnceAndRefusesChunksOfOthers) {
  const int64_t first = ChunkNumber(kWorker, 1);
  const SegmentBatch items = TestItems({{first + 1, 0, 1}, {first, 0, 1}, {first + 1, 1, 1}});
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> chunks, ChunksOf(items.rows, kWorker));
  EXPECT_THAT(chunks, ElementsAre(first, first + 1));
  EXPECT_THAT(
      ChunksOf(TestItems({{ChunkNumber(kWorker + 1, 0), 0, 1}}).rows, kWorker),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not belong to worker 3")));
}

TEST(ChunksOfTest, RefusesItemsThatShareMoreRowsThanTheirOverlap) {
  const int64_t chunk = ChunkNumber(kWorker, 1);
  // Two segments: the first one ends with an item that is shorter than the others.
  const SegmentBatch items =
      TestItems({{chunk, 0, 4}, {chunk, 3, 4}, {chunk, 6, 2}, {chunk, 8, 4}, {chunk + 1, 3, 4}});
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> chunks,
                            ChunksOf(items.rows, kWorker, /*overlap=*/1));
  EXPECT_THAT(chunks, ElementsAre(chunk, chunk + 1));
  EXPECT_THAT(ChunksOf(items.rows, kWorker, /*overlap=*/3), IsOk());
  EXPECT_THAT(ChunksOf(items.rows, kWorker), StatusIs(absl::StatusCode::kInvalidArgument,
                                                      HasSubstr("two items have row 3 of chunk")));
  EXPECT_THAT(ChunksOf(TestItems({{chunk, 0, 4}, {chunk, 2, 4}}).rows, kWorker, /*overlap=*/1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1 rows in common")));
  EXPECT_THAT(ChunksOf(TestItems({{chunk, 2, 1}, {chunk, 2, 4}}).rows, kWorker, /*overlap=*/3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two items have row 2")));
}

TEST(TaskBufferTest, OnePushBeyondTheReplayRatioIsAllowedBeforeTheWaitingDemandIsTriedAgain) {
  TaskBuffer::Limits limits;
  limits.replay_ratio = ReplayRatioLimiter::Options{/*min=*/2, /*max=*/2, /*min_size=*/0,
                                                    /*error_buffer=*/4};
  TaskBuffer buffer("buffer_0", limits);
  buffer.set_learner(kWorker);
  buffer.Pushed(7);
  EXPECT_THAT(buffer.CheckPush(7), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_THAT(buffer.AddDemand(Demand(1, 100)), IsOk());
  EXPECT_THAT(buffer.DrawFirst(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(buffer.CheckPush(7), IsOk()) << "the demand would wait for ever";
  buffer.Pushed(7);
  EXPECT_THAT(buffer.CheckPush(7), StatusIs(absl::StatusCode::kUnavailable))
      << "a thread that is about to try the demand again must not let in any number of pushes";
  EXPECT_THAT(buffer.DrawFirst(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(buffer.CheckPush(7), IsOk());
}

TEST(TaskBufferTest, AnswersInOrderAndForgetsWithTheLearner) {
  TaskBuffer buffer("buffer_0");
  buffer.set_rows(NaiveReplayBuffer::Create(NaiveReplayBuffer::Options()).value());
  ASSERT_THAT(buffer.AddDemand(Demand(1)), IsOk());
  ASSERT_THAT(buffer.AddDemand(Demand(2)), IsOk());
  ASSERT_THAT(buffer.rows()->Push(TestItemsOfChunk(7, 4), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const LearnerData answer, buffer.DrawFirst());
  EXPECT_EQ(answer.sequence(), 1u);
  EXPECT_EQ(buffer.first_demand().sequence(), 2u);
  buffer.set_learner(kWorker);
  buffer.ForgetLearner();
  EXPECT_FALSE(buffer.has_demand());
  EXPECT_FALSE(buffer.learner().has_value());
  EXPECT_EQ(StatusOf(buffer).sample_count(), 2);
}

TEST(TaskBufferTest, AChunkWaitsForTheDemandsDrawnBeforeItLeft) {
  TaskBuffer buffer("buffer_0");
  buffer.set_rows(NaiveReplayBuffer::Create(NaiveReplayBuffer::Options()).value());
  buffer.chunks()->Add({7});
  ASSERT_THAT(buffer.rows()->Push(TestItemsOfChunk(7, 1), 0), IsOk());
  ASSERT_THAT(buffer.AddDemand(Demand(1, 1)), IsOk());
  ASSERT_THAT(buffer.DrawFirst(), IsOk());
  buffer.Removed({{{7, 0, 1}}, {7}});
  EXPECT_THAT(buffer.chunks()->TakeDeletable(), IsEmpty());
  ASSERT_THAT(buffer.AddDemand(Demand(2, 2, 1, /*read=*/1)), IsOk());
  EXPECT_THAT(buffer.chunks()->TakeDeletable(), ElementsAre(7));
  EXPECT_EQ(StatusOf(buffer).removed_count(), 1);
  EXPECT_EQ(StatusOf(buffer).chunks(), 0);
}

TEST(TaskBufferTest, BoundsItsDemands) {
  TaskBuffer waiting("buffer_0");
  for (uint64_t i = 1; i <= TaskBuffer::kMaxWaitingDemands; ++i) {
    ASSERT_THAT(waiting.AddDemand(Demand(i)), IsOk());
  }
  EXPECT_THAT(waiting.AddDemand(Demand(99)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("64 demands wait")));
  TaskBuffer unread("buffer_1");
  unread.set_rows(Rows(10));
  ASSERT_THAT(unread.rows()->Push(TestItemsOfChunk(7, 2), 0), IsOk());
  for (uint64_t i = 1; i <= TaskBuffer::kMaxUnreadDemands; ++i) {
    ASSERT_THAT(unread.AddDemand(Demand(i)), IsOk());
    ASSERT_THAT(unread.DrawFirst(), IsOk());
  }
  EXPECT_THAT(unread.AddDemand(Demand(9999)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("not reported read")));
}

}  // namespace
}  // namespace ding
