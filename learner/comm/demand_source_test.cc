#include "ding_worker/learner/comm/demand_source.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/comm/learner_slave.h"
#include "ding_worker/learner/comm/task_learner.h"
#include "ding_worker/learner/learner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One row, whose reward is the chunk's number.
SegmentBatch OneRow(int64_t chunk) {
  const SpecPtr rows =
      MakeSpec({Box("obs", {}), Discrete("action", 9), Scalar("reward", DType::kFloat32)}).value();
  BatchBuilder builder = BatchBuilder::Create(rows, 1).value();
  builder.column<float>(0)[0] = 0;
  builder.column<int64_t>(1)[0] = 0;
  builder.column<float>(2)[0] = static_cast<float>(chunk);
  BatchBuilder obs = BatchBuilder::Create(MakeSpec({Box("obs", {})}).value(), 1).value();
  obs.column<float>(0)[0] = 1;
  SegmentBatch data;
  data.rows = std::move(builder).Seal(1);
  data.final_obs = std::move(obs).Seal(1);
  data.segments = {{0, 0, 0, 1, SegmentEnd::kTerminated}};
  return data;
}

// A drawn batch of the first row of each chunk.
std::string Items(const std::vector<int64_t>& chunks) {
  const SpecPtr spec =
      MakeSpec({Scalar(kColumnChunk, DType::kInt64), Scalar(kColumnRow, DType::kInt64),
                Scalar(kColumnLength, DType::kInt64), Scalar(kColumnReplayUniqueId, DType::kInt64)})
          .value();
  const auto count = static_cast<int64_t>(chunks.size());
  BatchBuilder builder = BatchBuilder::Create(spec, count).value();
  for (size_t i = 0; i < chunks.size(); ++i) {
    builder.column<int64_t>(0)[i] = chunks[i];
    builder.column<int64_t>(1)[i] = 0;
    builder.column<int64_t>(2)[i] = 1;
    builder.column<int64_t>(3)[i] = static_cast<int64_t>(i);
  }
  return EncodedBatch(std::move(builder).Seal(count)).ToString();
}

class DemandSourceTest : public SlaveTest<LearnerSlave> {
 protected:
  DemandSourceTest() {
    options_.batch_size = 2;
    options_.prefetch_batches = 4;  // two per demand
    loader_ = ItemLoader::Create(&store_, {}).value();
    coordinator_.StartLearner("a");
    WaitForStart("a");
  }

  void Put(int64_t chunk) {
    ASSERT_THAT(store_.Put(ChunkKey(chunk), EncodedSegments(OneRow(chunk)).pieces()), IsOk());
  }
  void Answer(uint64_t sequence, const std::vector<std::string>& batches, int64_t envstep = 0) {
    CoordinatorMessage message;
    message.mutable_learner_data()->set_task_id("a");
    message.mutable_learner_data()->set_sequence(sequence);
    message.mutable_learner_data()->set_envstep(envstep);
    for (const std::string& items : batches) message.mutable_learner_data()->add_items(items);
    coordinator_.Send(message);
  }
  LearnerDemand NextDemand() {
    return coordinator_
        .ReceiveUntil([](const WorkerMessage& message) { return message.has_learner_demand(); })
        .learner_demand();
  }

  CommLearnerOptions options_;
  MemStore store_;
  std::unique_ptr<ItemLoader> loader_;
};

TEST_F(DemandSourceTest, KeepsTwoDemandsUnderWayAndLoadsInOrder) {
  for (int64_t chunk = 1; chunk <= 4; ++chunk) Put(chunk);
  DemandSource source(options_, &slave_, loader_.get());
  source.set_train_iter(17);
  Answer(1, {Items({1, 2}), Items({3})}, /*envstep=*/50);
  const BatchLoader first = *source.Next().value();
  const LearnerDemand demand = NextDemand();
  EXPECT_EQ(demand.batch_size(), 2);
  EXPECT_EQ(demand.batches(), 2);
  EXPECT_EQ(demand.train_iter(), 17);
  EXPECT_EQ(NextDemand().sequence(), 2u);
  EXPECT_EQ(NextDemand().sequence(), 3u) << "for the one that was answered";

  DING_ASSERT_OK_AND_ASSIGN(const TrainData data, first());
  EXPECT_EQ(data.envstep, 50);
  ASSERT_EQ(data.batch.rows(), 2);
  EXPECT_EQ(data.batch.column<float>("reward")[0], 1);
  EXPECT_EQ(data.batch.column<float>("reward")[1], 2);
  const BatchLoader second = *source.Next().value();
  EXPECT_EQ(second().value().batch.column<float>("reward")[0], 3);
  Answer(2, {Items({4})});
  const BatchLoader third = *source.Next().value();
  EXPECT_EQ(third().value().batch.column<float>("reward")[0], 4);
}

TEST_F(DemandSourceTest, ARoundIsDemandedWhenItIsAskedFor) {
  for (int64_t chunk = 1; chunk <= 2; ++chunk) Put(chunk);
  options_.send_policy_freq = 1;
  DemandSource source(options_, &slave_, loader_.get(), nullptr, DemandSource::Kind::kRounds);
  for (int64_t round = 1; round <= 2; ++round) {
    absl::StatusOr<std::optional<BatchLoader>> next;
    std::thread nexts([&] { next = source.Next(); });
    EXPECT_FALSE(coordinator_.HearsMore()) << "nothing is demanded ahead";
    source.set_train_iter(16 * round);
    source.AskForRound({16 * round - 16, 16 * round});
    const LearnerDemand demand = NextDemand();
    EXPECT_EQ(demand.batches(), 1);
    EXPECT_EQ(demand.train_iter(), 16 * round);
    EXPECT_THAT(demand.collect_iter(), ElementsAre(16 * round - 16, 16 * round));
    EXPECT_EQ(demand.read(), static_cast<uint64_t>(round - 1));
    Answer(static_cast<uint64_t>(round), {Items({round})});
    nexts.join();
    EXPECT_EQ((**next)().value().batch.column<float>("reward")[0], static_cast<float>(round));
  }
  std::thread closes([&] { source.Close(); });
  EXPECT_FALSE(source.Next().value().has_value());
  closes.join();
}

// Chunks that are not read may not be deleted: the mark stays before the first unread batch.
TEST_F(DemandSourceTest, AnswersAreMarkedReadInOrderWhenAllTheirBatchesAre) {
  for (int64_t chunk = 1; chunk <= 2; ++chunk) Put(chunk);
  DemandSource source(options_, &slave_, loader_.get());
  Answer(1, {Items({1}), Items({2})});
  Answer(2, {Items({1})});
  std::vector<BatchLoader> loads;
  for (int i = 0; i < 3; ++i) loads.push_back(*source.Next().value());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(NextDemand().read(), 0u);
  const auto read_after = [&](int load, uint64_t answer) {
    EXPECT_THAT(loads[static_cast<size_t>(load)](), IsOk());
    Answer(answer, {Items({1})});
    EXPECT_TRUE(source.Next().value().has_value());
    return NextDemand().read();
  };
  EXPECT_EQ(read_after(2, 3), 0u) << "the second answer is read, the first is not";
  EXPECT_EQ(read_after(0, 4), 0u) << "one of its two batches";
  EXPECT_EQ(read_after(1, 5), 2u) << "the third is not loaded";
}

TEST_F(DemandSourceTest, ChunksThatAreGoneAreLeftOutAndCounted) {
  Put(1);
  Put(3);
  DemandSource source(options_, &slave_, loader_.get());
  Answer(1, {Items({1, 2, 3}), Items({2})});
  const BatchLoader load = *source.Next().value();
  DING_ASSERT_OK_AND_ASSIGN(const TrainData data, load());
  EXPECT_EQ(data.batch.rows(), 2);
  EXPECT_EQ(source.missing_rows(), 1);
  DING_ASSERT_OK_AND_ASSIGN(const Batch items, DecodeBatch(data.items));
  EXPECT_THAT(items.column<int64_t>(kColumnChunk), testing::ElementsAre(1, 3));
  const BatchLoader empty = *source.Next().value();
  EXPECT_EQ(empty().value().batch.rows(), 0);
  EXPECT_EQ(source.missing_rows(), 2);
}

TEST_F(DemandSourceTest, ChunksThatCannotBeLearnedFromAreReportedOnce) {
  Put(1);
  ASSERT_THAT(store_.Put(ChunkKey(2), {"garbage"}), IsOk());
  DemandSource source(options_, &slave_, loader_.get());
  Answer(1, {Items({2, 1, 3}), Items({2, 4})});
  const auto next_report = [this] {
    return coordinator_
        .ReceiveUntil([](const WorkerMessage& message) { return message.has_bad_chunks(); })
        .bad_chunks();
  };
  const BatchLoader first = *source.Next().value();
  EXPECT_EQ(first().value().batch.rows(), 1);
  const BadChunks bad = next_report();
  EXPECT_EQ(bad.task_id(), "a");
  ASSERT_EQ(bad.chunk_size(), 2);
  EXPECT_EQ(bad.chunk(0).chunk(), 2);
  EXPECT_FALSE(bad.chunk(0).gone());
  EXPECT_THAT(bad.chunk(0).reason(), HasSubstr("data/0/2"));
  EXPECT_EQ(bad.chunk(1).chunk(), 3);
  EXPECT_TRUE(bad.chunk(1).gone());
  EXPECT_THAT(source.why_missing().message(), HasSubstr("data/0/2"));
  const BatchLoader second = *source.Next().value();
  EXPECT_EQ(second().value().batch.rows(), 0);
  const BadChunks more = next_report();
  ASSERT_EQ(more.chunk_size(), 1);
  EXPECT_EQ(more.chunk(0).chunk(), 4);
}

TEST_F(DemandSourceTest, NoDataWithinTheTimeoutIsAnError) {
  options_.data_timeout = absl::Milliseconds(100);
  DemandSource source(options_, &slave_, loader_.get());
  EXPECT_THAT(source.Next(),
              IsError(absl::StatusCode::kDeadlineExceeded, "no data to learn from within 100ms",
                      "policy.learn.data_timeout"));
}

TEST_F(DemandSourceTest, AfterASecondItSaysThatItWaits) {
  DemandSource source(options_, &slave_, loader_.get());
  std::thread next([&source] { EXPECT_FALSE(source.Next().value().has_value()); });
  const WorkerMessage info = coordinator_.ReceiveUntil(
      [](const WorkerMessage& message) { return message.has_learner_info(); });
  EXPECT_EQ(info.learner_info().stalled(), "data");
  coordinator_.CloseTask("a");
  next.join();
}

TEST_F(DemandSourceTest, EndsWhenTheTaskIsClosed) {
  DemandSource source(options_, &slave_, loader_.get());
  std::thread closing([this] { coordinator_.CloseTask("a"); });
  DING_ASSERT_OK_AND_ASSIGN(const auto none, source.Next());
  EXPECT_FALSE(none.has_value());
  closing.join();
}

TEST_F(DemandSourceTest, TheEndOfTheSessionIsAnError) {
  DemandSource source(options_, &slave_, loader_.get());
  std::thread closing([this] { coordinator_.session()->Close("enough"); });
  EXPECT_THAT(source.Next(), IsError(absl::StatusCode::kAborted, "enough"));
  closing.join();
}

TEST_F(DemandSourceTest, AnInvalidAnswerIsAnError) {
  DemandSource source(options_, &slave_, loader_.get());
  Answer(1, {"garbage"});
  const BatchLoader load = *source.Next().value();
  EXPECT_FALSE(load().ok());
}

// An answer without batches is skipped, and does not keep those behind it from being read.
TEST_F(DemandSourceTest, AnEmptyAnswerIsSkipped) {
  Put(1);
  DemandSource source(options_, &slave_, loader_.get());
  Answer(1, {});
  Answer(2, {Items({1})});
  const BatchLoader load = *source.Next().value();
  EXPECT_THAT(load(), IsOk());
  for (int i = 0; i < 4; ++i) NextDemand();
  Answer(3, {Items({1})});
  EXPECT_TRUE(source.Next().value().has_value());
  EXPECT_EQ(NextDemand().read(), 2u);
}

constexpr absl::Duration kLong = absl::Minutes(1);

class LearnerSlaveTest : public SlaveTest<LearnerSlave> {
 protected:
  void Start(const std::string& task_id) {
    coordinator_.StartLearner(task_id);
    WaitForStart(task_id);
  }
  void Answer(const std::string& task_id, uint64_t sequence) {
    CoordinatorMessage message;
    message.mutable_learner_data()->set_task_id(task_id);
    message.mutable_learner_data()->set_sequence(sequence);
    coordinator_.Send(message);
  }
};

TEST_F(LearnerSlaveTest, DemandsAreNumberedAndAnswersComeInOrder) {
  Start("a");
  DING_ASSERT_OK_AND_ASSIGN(const uint64_t first, slave_.Demand(32, 4, 10));
  DING_ASSERT_OK_AND_ASSIGN(const uint64_t second, slave_.Demand(32, 4, 11));
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 2u);
  const LearnerDemand heard = coordinator_.Receive().learner_demand();
  EXPECT_EQ(heard.task_id(), "a");
  EXPECT_EQ(heard.sequence(), 1u);
  EXPECT_EQ(heard.batch_size(), 32);
  EXPECT_EQ(heard.batches(), 4);
  EXPECT_EQ(heard.train_iter(), 10);
  EXPECT_EQ(heard.read(), 0u);
  EXPECT_EQ(coordinator_.Receive().learner_demand().sequence(), 2u);
  Answer("a", 1);
  Answer("a", 2);
  EXPECT_EQ(slave_.NextData(kLong).value().sequence(), 1u);
  EXPECT_EQ(slave_.NextData(kLong).value().sequence(), 2u);
  EXPECT_THAT(slave_.NextData(absl::Milliseconds(10)),
              IsError(absl::StatusCode::kDeadlineExceeded, "10ms"));
}

TEST(DemandProtocolTest, CountRead_AllBatchesUpToAnAnswer_IsSaidWithTheNextDemand) {
  DemandProtocol demands;
  for (const uint64_t sequence : {1, 2}) {
    EXPECT_EQ(demands.Demand().sequence(), sequence);
    LearnerData data;
    data.set_sequence(sequence);
    data.add_items("");
    data.add_items("");
    demands.Take(data);
    demands.Take(data);  // It comes twice.
    EXPECT_EQ(demands.NextAnswer().sequence(), sequence);
    EXPECT_FALSE(demands.has_answer());
  }
  const auto said = [&demands] { return demands.Demand().read(); };
  demands.CountRead(2);
  demands.CountRead(1);
  EXPECT_EQ(said(), 0u);
  demands.CountRead(1);
  EXPECT_EQ(said(), 1u);
  demands.CountRead(1);  // more than it has
  EXPECT_EQ(said(), 1u);
  demands.CountRead(2);
  EXPECT_EQ(said(), 2u);
}

// So a caller that counts the read parts of an answer counts each once.
TEST_F(LearnerSlaveTest, AnAnswerThatComesTwiceIsHandedOutOnce) {
  Start("a");
  for (const uint64_t sequence : {1, 2, 2, 1, 3}) Answer("a", sequence);
  for (const uint64_t sequence : {1, 2, 3}) {
    DING_ASSERT_OK_AND_ASSIGN(const LearnerData data, slave_.NextData(kLong));
    EXPECT_EQ(data.sequence(), sequence);
  }
}

TEST_F(LearnerSlaveTest, AnswersOfOtherTasksAreDropped) {
  Start("a");
  Answer("a", 1);
  Start("b");
  Answer("a", 2);
  Answer("b", 3);
  EXPECT_EQ(slave_.NextData(kLong).value().sequence(), 3u);
  DING_ASSERT_OK_AND_ASSIGN(const uint64_t sequence, slave_.Demand(1, 1, 0));
  EXPECT_EQ(sequence, 1u) << "numbers are of the worker";
}

TEST_F(LearnerSlaveTest, ClosingTheTaskEndsTheWaitForData) {
  Start("a");
  std::thread closing([this] { coordinator_.CloseTask("a"); });
  EXPECT_THAT(slave_.NextData(kLong), StatusIs(absl::StatusCode::kCancelled));
  closing.join();
  EXPECT_THAT(slave_.Demand(1, 1, 0), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(LearnerSlaveTest, TheEndOfTheSessionEndsTheWaitForData) {
  Start("a");
  std::thread closing([this] { coordinator_.session()->Close("enough"); });
  EXPECT_THAT(slave_.NextData(kLong), IsError(absl::StatusCode::kAborted, "enough"));
  closing.join();
}

TEST_F(LearnerSlaveTest, TheLastReportEndsTheTask) {
  Start("a");
  LearnerInfo info;
  info.set_learner_step(3);
  EXPECT_THAT(slave_.SendInfo(info), IsOk());
  EXPECT_EQ(coordinator_.Receive().learner_info().task_id(), "a");
  info.set_learner_done(true);
  EXPECT_THAT(slave_.SendInfo(info), IsOk());
  EXPECT_TRUE(coordinator_.Receive().learner_info().learner_done());
  coordinator_.CloseTask("a");  // as a coordinator does; it is over
  Answer("a", 1);
  Start("b");
  EXPECT_THAT(slave_.TaskStatus(), IsOk());
  EXPECT_THAT(slave_.NextData(absl::ZeroDuration()), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(LearnerSlaveTest, PoliciesArePassedOn) {
  Start("a");
  PolicyVersion policy;
  policy.set_policy_id("policy_0");
  policy.set_version(4);
  EXPECT_THAT(slave_.SendPolicy(policy), IsOk());
  EXPECT_EQ(coordinator_.Receive().policy_version().version(), 4u);
}

}  // namespace
}  // namespace ding
