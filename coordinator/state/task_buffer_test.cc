#include "ding_worker/coordinator/state/task_buffer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/state/buffer_chunks.h"
#include "ding_worker/coordinator/state/learning_rounds.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/selection/selectors.h"
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

// Returns a buffer like that of rounds, which draws each row once.
std::unique_ptr<AdvancedReplayBuffer> RowsUsedOnce() {
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = 100;
  options.max_use = 1;
  options.selector = std::make_shared<UniformSelector>();
  return AdvancedReplayBuffer::Create(options).value();
}

// The chunks of the rows that were drawn, in their order.
std::vector<int64_t> ChunksDrawn(const DrawnRound& round) {
  const Batch items = DecodeBatch(round.drawn.answer.items(0)).value();
  const absl::Span<const int64_t> chunks = items.column<int64_t>(kColumnChunk);
  std::vector<int64_t> sorted(chunks.begin(), chunks.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

TEST(DrawRoundTest, TakesTheOldestRowsOnce) {
  const auto rows = RowsUsedOnce();
  ASSERT_THAT(rows->Push(TestItemsOfChunk(1, 3), 0), IsOk());
  ASSERT_THAT(rows->Push(TestItemsOfChunk(2, 3), 0), IsOk());
  EXPECT_THAT(ChunksDrawn(DrawRound(rows.get(), Demand(1, 2))), ElementsAre(1, 1));
  EXPECT_EQ(rows->count(), 4);
  const DrawnRound round = DrawRound(rows.get(), Demand(2, 5));
  EXPECT_THAT(round.status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(rows->count(), 4) << "they wait for the rest of the round";
  EXPECT_THAT(ChunksDrawn(DrawRound(rows.get(), Demand(3, 2))), ElementsAre(1, 2));
}

TEST(DrawRoundTest, TakesWhatIsThereBesideARound) {
  const auto rows = RowsUsedOnce();
  ASSERT_THAT(rows->Push(TestItemsOfChunk(1, 7), 0), IsOk());
  EXPECT_EQ(DrawRound(rows.get(), Demand(1, 4)).drawn.rows, 7);
  ASSERT_THAT(rows->Push(TestItemsOfChunk(2, 11), 0), IsOk());
  EXPECT_EQ(DrawRound(rows.get(), Demand(2, 5)).drawn.rows, 5) << "half of two rounds and one row";
  EXPECT_EQ(DrawRound(rows.get(), Demand(3, 5)).drawn.rows, 6);
}

TEST(DrawRoundTest, LeavesOutRowsThatAreTooOldAndThoseOfBadChunks) {
  const auto rows = RowsUsedOnce();
  ASSERT_THAT(rows->Push(TestItemsOfChunk(1, 4, /*collect_iter=*/10), 0), IsOk());
  ASSERT_THAT(rows->Push(TestItemsOfChunk(2, 2, /*collect_iter=*/10), 0), IsOk());
  ASSERT_THAT(rows->Push(TestItemsOfChunk(3, 1, /*collect_iter=*/20), 0), IsOk());
  ASSERT_THAT(rows->Push(TestItemsOfChunk(4, 1, /*collect_iter=*/25), 0), IsOk());
  ASSERT_THAT(rows->Push(TestItemsOfChunk(5, 4, /*collect_iter=*/30), 0), IsOk());
  LearnerDemand demand = Demand(7, 4);
  demand.set_train_iter(32);
  demand.add_collect_iter(20);
  demand.add_collect_iter(30);
  const ChunkSet bad = {3};
  // The first four are all too old. Of the next ones, two are too old, and one is of a bad chunk; 25 is no
  // iteration of a version.
  DrawnRound round = DrawRound(rows.get(), demand, &bad);
  ASSERT_THAT(round.status, IsOk());
  EXPECT_EQ(round.drawn.too_old, 7);
  EXPECT_THAT(ChunksDrawn(round), ElementsAre(5, 5, 5, 5));
  EXPECT_EQ(round.drawn.rows, 4);
  EXPECT_EQ(round.drawn.staleness, 2);
  EXPECT_EQ(round.drawn.answer.sequence(), 7u);

  ASSERT_THAT(rows->Push(TestItemsOfChunk(6, 4, /*collect_iter=*/10), 0), IsOk());
  round = DrawRound(rows.get(), demand);
  EXPECT_THAT(round.status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(round.drawn.too_old, 4) << "counted though nothing is drawn";
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
  buffer.TooFewRows(Demand(1, 100));
  EXPECT_THAT(buffer.CheckPush(7), IsOk()) << "the demand would wait for ever";
  buffer.Pushed(7);
  EXPECT_THAT(buffer.CheckPush(7), StatusIs(absl::StatusCode::kUnavailable))
      << "a thread that is about to try the demand again must not let in any number of pushes";
  buffer.TooFewRows(Demand(1, 100));
  EXPECT_THAT(buffer.CheckPush(7), IsOk());
}

TEST(TaskBufferTest, AnswersInOrderAndForgetsWithTheLearner) {
  TaskBuffer buffer("buffer_0");
  buffer.set_rows(NaiveReplayBuffer::Create(NaiveReplayBuffer::Options()).value());
  ASSERT_THAT(buffer.AddDemand(Demand(1)), IsOk());
  ASSERT_THAT(buffer.AddDemand(Demand(2)), IsOk());
  EXPECT_EQ(buffer.BeginDraw().sequence(), 1u);
  Drawn drawn;
  drawn.rows = 2;
  buffer.Answered(drawn);
  EXPECT_EQ(buffer.BeginDraw().sequence(), 2u);
  EXPECT_TRUE(buffer.has_demand());
  buffer.set_learner(kWorker);
  buffer.ForgetLearner();
  EXPECT_FALSE(buffer.has_demand());
  EXPECT_FALSE(buffer.learner().has_value());
  BufferStatus status;
  buffer.FillStatus(&status);
  EXPECT_EQ(status.sample_count(), 2);
}

TEST(TaskBufferTest, AChunkWaitsForTheDemandsDrawnBeforeItLeft) {
  TaskBuffer buffer("buffer_0");
  buffer.set_rows(NaiveReplayBuffer::Create(NaiveReplayBuffer::Options()).value());
  buffer.chunks()->Add({7});
  ASSERT_THAT(buffer.AddDemand(Demand(1)), IsOk());
  buffer.BeginDraw();
  buffer.Answered(Drawn());
  buffer.Removed({{{7, 0, 1}}, {7}});
  EXPECT_THAT(buffer.chunks()->TakeDeletable(), IsEmpty());
  ASSERT_THAT(buffer.AddDemand(Demand(2, 2, 1, /*read=*/1)), IsOk());
  EXPECT_THAT(buffer.chunks()->TakeDeletable(), ElementsAre(7));
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
    unread.BeginDraw();
    unread.Answered(Drawn());
  }
  EXPECT_THAT(unread.AddDemand(Demand(9999)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("not reported read")));
}

}  // namespace
}  // namespace ding
