#include "ding_worker/coordinator/state/task_buffer.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/test_items.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST(DrawTest, ReturnsAsManyBatchesAsThereAreRowsFor) {
  const auto rows = Rows(10);
  EXPECT_THAT(Draw(rows.get(), Demand(1)), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_THAT(rows->Push(TestItemsOfChunk(7, 4, /*collect_iter=*/5), 0), IsOk());
  LearnerDemand demand = Demand(4, 3, 2);
  demand.set_train_iter(8);
  DING_ASSERT_OK_AND_ASSIGN(const Drawn drawn, Draw(rows.get(), demand));
  EXPECT_EQ(drawn.answer.items_size(), 2);
  EXPECT_EQ(drawn.answer.sequence(), 4u);
  EXPECT_EQ(drawn.rows, 6);
  EXPECT_EQ(drawn.staleness, 3);
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

TEST(TaskBufferTest, OneThreadServesAndRetriesWhenRowsHaveCome) {
  TaskBuffer buffer("buffer_0");
  ASSERT_THAT(buffer.AddDemand(Demand(1)), IsOk());
  ASSERT_TRUE(buffer.BeginServing());
  ASSERT_TRUE(buffer.NextDemand(/*answered=*/true).has_value());
  EXPECT_FALSE(buffer.BeginServing());
  buffer.TooFewRows(Demand(1));
  EXPECT_TRUE(buffer.NextDemand(/*answered=*/false).has_value()) << "rows came meanwhile";
  buffer.TooFewRows(Demand(1));
  EXPECT_FALSE(buffer.NextDemand(/*answered=*/false).has_value());
  EXPECT_TRUE(buffer.BeginServing());
}

TEST(TaskBufferTest, AnswersInOrderAndForgetsWithTheLearner) {
  TaskBuffer buffer("buffer_0");
  ASSERT_THAT(buffer.AddDemand(Demand(1)), IsOk());
  ASSERT_THAT(buffer.AddDemand(Demand(2)), IsOk());
  EXPECT_EQ(buffer.NextDemand(true)->sequence(), 1u);
  Drawn drawn;
  drawn.rows = 2;
  buffer.Answered(drawn);
  EXPECT_EQ(buffer.NextDemand(true)->sequence(), 2u);
  EXPECT_TRUE(buffer.IsAsked(Demand(2)));
  buffer.set_learner(kWorker);
  buffer.ForgetLearner();
  EXPECT_FALSE(buffer.IsAsked(Demand(2)));
  EXPECT_FALSE(buffer.learner().has_value());
  BufferStatus status;
  buffer.FillStatus(&status);
  EXPECT_EQ(status.sample_count(), 2);
}

TEST(TaskBufferTest, AChunkWaitsForTheDemandsDrawnBeforeItLeft) {
  TaskBuffer buffer("buffer_0");
  buffer.AddChunks({7});
  ASSERT_THAT(buffer.AddDemand(Demand(1)), IsOk());
  buffer.NextDemand(true);
  buffer.Answered(Drawn());
  buffer.Removed({{{7, 0, 1}}, {7}});
  EXPECT_THAT(buffer.TakeDeletable(), IsEmpty());
  ASSERT_THAT(buffer.AddDemand(Demand(2, 2, 1, /*read=*/1)), IsOk());
  EXPECT_THAT(buffer.TakeDeletable(), ElementsAre(7));
  BufferStatus status;
  buffer.FillStatus(&status);
  EXPECT_EQ(status.removed_count(), 1);
  EXPECT_EQ(status.chunks(), 0);
}

TEST(TaskBufferTest, BoundsItsDemands) {
  TaskBuffer waiting("buffer_0");
  for (uint64_t i = 1; i <= TaskBuffer::kMaxWaitingDemands; ++i) {
    ASSERT_THAT(waiting.AddDemand(Demand(i)), IsOk());
  }
  EXPECT_THAT(waiting.AddDemand(Demand(99)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("64 demands wait")));
  TaskBuffer unread("buffer_1");
  for (uint64_t i = 1; i <= TaskBuffer::kMaxUnreadDemands; ++i) {
    ASSERT_THAT(unread.AddDemand(Demand(i)), IsOk());
    unread.NextDemand(true);
    unread.Answered(Drawn());
  }
  EXPECT_THAT(unread.AddDemand(Demand(9999)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("not reported read")));
}

}  // namespace
}  // namespace ding
