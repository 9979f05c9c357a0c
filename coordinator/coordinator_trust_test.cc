// Workers with a valid token that say what cannot be: the run goes on, and keeps nothing of it.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class TrustTest : public CoordinatorTest {
 protected:
  void ExpectRefused(uint32_t worker, const WorkerMessage& message, const std::string& says) {
    EXPECT_THAT(HandleNow(coordinator_.get(), worker, message),
                StatusIs(kInvalid, HasSubstr(says)));
  }
  void Push(uint64_t sequence, int64_t rows, int64_t steps) {
    Handle(kCollector,
           Data(collector_.task_id(), sequence,
                TestItemsOfChunk(Chunk(kCollector, static_cast<uint32_t>(sequence)), rows), steps));
  }
  // The report of the learner that it cannot learn from this chunk.
  WorkerMessage Bad(int64_t chunk, bool gone = false) {
    WorkerMessage message;
    message.mutable_bad_chunks()->set_task_id(learner_.task_id());
    BadChunk* const bad = message.mutable_bad_chunks()->add_chunk();
    bad->set_chunk(chunk);
    bad->set_gone(gone);
    bad->set_reason("column 'obs' holds nan");
    return message;
  }
  std::vector<int64_t> DrawnChunks(uint64_t sequence, int64_t rows) {
    Handle(kLearner, Demand(learner_.task_id(), sequence, rows, sequence - 1));
    std::vector<int64_t> chunks;
    for (const LearnerData& answer : TakeAnswers(kLearner)) {
      const Batch batch = DecodeBatch(answer.items(0)).value();
      EXPECT_EQ(batch.rows(), rows);
      for (const int64_t chunk : batch.column<int64_t>(kColumnChunk)) chunks.push_back(chunk);
    }
    return chunks;
  }
  int64_t envstep() { return coordinator_->status().envstep(); }
};

TEST_F(TrustTest, StepsCountOnlyAsFarAsRowsBackThem) {
  options_.max_env_step = 1000;
  StartTraining();
  WorkerMessage progress;
  progress.mutable_collector_data()->set_task_id(collector_.task_id());
  progress.mutable_collector_data()->mutable_progress()->set_cur_step(1000);
  Handle(kCollector, progress);
  EXPECT_EQ(envstep(), 0) << "no row has come";
  Push(1, 6, 1000);
  EXPECT_EQ(envstep(), 96) << "4 steps for each of the 4 rows of 6 items";
  Push(2, 6, 1000);
  EXPECT_EQ(envstep(), 192);
  Handle(kCollector, Finished(collector_.task_id(), 3, /*steps=*/5000));
  EXPECT_EQ(envstep(), 192);
  EXPECT_EQ(commander_->total_collector_env_step(), 192) << "what epsilon falls with";
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), Not(IsOk()));
}

TEST_F(TrustTest, TooManyStepsPerSecondEndTheirWorkerAndDoNotCount) {
  options_.max_env_step = 1000;
  StartTraining();
  Push(1, 6, 6);
  WorkerMessage progress;
  progress.mutable_collector_data()->set_task_id(collector_.task_id());
  progress.mutable_collector_data()->mutable_progress()->set_cur_step(int64_t{1} << 40);
  ExpectRefused(kCollector, progress, "expected at most 1e+07 per second");
  ExpectRefused(kCollector, Finished(collector_.task_id(), 1, int64_t{1} << 40),
                "expected at most 1e+07 per second");
  Lose(kCollector);
  EXPECT_EQ(envstep(), 6);
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), Not(IsOk()));
  Join(kOther, Hello::COLLECTOR);
  EXPECT_FALSE(TakeCollectorTask(kOther).task_id().empty()) << "its task went back";
}

TEST_F(TrustTest, RefusedRowsBackNoSteps) {
  StartTraining();
  Push(1, 3, 3);
  WorkerMessage other =
      Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 2), 3), 500);
  const Batch rows = DecodeBatch(other.collector_data().items()).value();
  BatchBuilder fewer =
      BatchBuilder::Create(
          MakeSpec({rows.spec().field(0), rows.spec().field(1), rows.spec().field(2)}).value(), 100)
          .value();
  for (size_t i = 0; i < 100; ++i) {
    fewer.column<int64_t>(0)[i] = Chunk(kCollector, 2);
    fewer.column<int64_t>(1)[i] = static_cast<int64_t>(i);
    fewer.column<int64_t>(2)[i] = 1;
  }
  other.mutable_collector_data()->set_items(EncodedBatch(std::move(fewer).Seal(100)).ToString());
  EXPECT_THAT(HandleNow(coordinator_.get(), kCollector, other), StatusIs(kInvalid));
  EXPECT_EQ(envstep(), 48) << "of the three items before";
}

TEST_F(TrustTest, ItemsOfAnotherLayoutAreRefused) {
  items_ = MakeSpec({Scalar(kColumnChunk, DType::kInt64), Scalar(kColumnRow, DType::kInt64),
                     Scalar(kColumnLength, DType::kInt64)})
               .value();
  StartTraining();
  // The layout of items is known, so that even the first push is refused if it has another one.
  ExpectRefused(kCollector,
                Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)), "items");
  const auto make = [this](int64_t length) {
    BatchBuilder builder = BatchBuilder::Create(items_, 1).value();
    builder.column<int64_t>(0)[0] = Chunk(kCollector, 0);
    builder.column<int64_t>(1)[0] = 0;
    builder.column<int64_t>(2)[0] = length;
    SegmentBatch made;
    made.rows = std::move(builder).Seal(1);
    return made;
  };
  ExpectRefused(kCollector, Data(collector_.task_id(), 1, make(2)), "an item of 2 rows");
  Handle(kCollector, Data(collector_.task_id(), 1, make(1)));
}

TEST_F(TrustTest, ImpossibleItemsEndTheirWorker) {
  StartTraining();
  Handle(kLearner, Info(learner_.task_id(), 7));
  const auto refused = [this](const SegmentBatch& items, const std::string& says) {
    ExpectRefused(kCollector, Data(collector_.task_id(), 1, items), says);
  };
  const int64_t chunk = Chunk(kCollector, 0);
  refused(TestItems({{chunk, 0, 1}, {chunk, 0, 1}}), "one for each row");
  refused(TestItems({{chunk, 3, 1}, {chunk, 0, 4}}), "one for each row");
  refused(TestItems({{chunk, int64_t{1} << 62, 1}}), "expected fewer");
  refused(TestItems({{chunk, 0, int64_t{1} << 62}}), "expected fewer");
  refused(TestItemsOfChunk(chunk, 1, /*collect_iter=*/8), "expected -1 to 7");
  refused(TestItemsOfChunk(chunk, 1, /*collect_iter=*/-2), "expected -1 to 7");
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(chunk, 1, 7)));
}

TEST_F(TrustTest, UsedUpChunkNumbersDeleteNoDataOfOthers) {
  StartTraining();
  const int64_t last = Chunk(kCollector, std::numeric_limits<uint32_t>::max());
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(last, 1)));
  Lose(kCollector);
  EXPECT_THAT(store_.deleted(), Not(Contains(ChunkKey(Chunk(kCollector + 1, 0)))));
}

TEST_F(TrustTest, ResultsOfUnpublishedPoliciesAreRefused) {
  StartTraining();
  Handle(kLearner, Version("policy_0", 1));
  WorkerMessage finished = Finished(collector_.task_id(), 1, 10, /*train_iter=*/1);
  ExpectRefused(kCollector, finished, "which were published");
  finished = Finished(collector_.task_id(), 1);
  finished.mutable_collector_finished()->set_policy_version(2);
  ExpectRefused(kCollector, finished, "version 2 of policy_0");
  finished.mutable_collector_finished()->set_policy_version(1);
  Handle(kCollector, finished);
}

TEST_F(TrustTest, VersionsMustFollowEachOtherAndTheirIterationsMustGrow) {
  StartTraining();
  const auto version = [](uint64_t number, int64_t iter) {
    WorkerMessage message = Version("policy_0", number);
    message.mutable_policy_version()->set_train_iter(iter);
    return message;
  };
  ExpectRefused(kLearner, version(std::numeric_limits<uint64_t>::max(), 0), "expected the next");
  ExpectRefused(kLearner, version(1002, 0), "expected the next");
  ExpectRefused(kLearner, version(1, -1), "-1 steps");
  ExpectRefused(kLearner, version(1, int64_t{1} << 50), "train iterations");
  Handle(kLearner, version(1, 10));
  ExpectRefused(kLearner, version(2, 9), "expected none earlier");
  ExpectRefused(kLearner, version(2, int64_t{1} << 39), "per second");
  WorkerMessage other = version(2, 11);
  other.mutable_policy_version()->set_key("policy/../../etc/passwd");
  ExpectRefused(kLearner, other, "expected 'policy/policy_0/2-1'");
  Handle(kLearner, version(2, 11));
  EXPECT_EQ(coordinator_->status().policy_version(), 2u);
  // If a group loses the learner that published last, the others may be one step behind.
  WorkerMessage group;
  group.mutable_group_status()->add_member()->set_name("learner-1");
  Handle(kLearner, group);
  Handle(kLearner, version(3, 10));
  EXPECT_EQ(coordinator_->status().policy_version(), 3u);
}

TEST_F(TrustTest, ImpossibleClaimsOfALearnerAreRefused) {
  StartTraining();
  Handle(kLearner, Info(learner_.task_id(), 5));
  ExpectRefused(kLearner, Info(learner_.task_id(), int64_t{1} << 39), "per second");
  WorkerMessage demand = Demand(learner_.task_id(), 1, 4);
  demand.mutable_learner_demand()->set_train_iter(-1);
  ExpectRefused(kLearner, demand, "-1 steps");
  ExpectRefused(kLearner, Demand(learner_.task_id(), 2, 4, /*read=*/2),
                "is read, expected an earlier");
  WorkerMessage priorities = Info(learner_.task_id(), 6);
  priorities.mutable_learner_info()->add_priority(std::numeric_limits<float>::quiet_NaN());
  priorities.mutable_learner_info()->add_replay_unique_id(0);
  priorities.mutable_learner_info()->add_replay_buffer_idx(0);
  ExpectRefused(kLearner, priorities, "priority nan");
  WorkerMessage resources;
  resources.mutable_resources()->set_cpus(std::numeric_limits<double>::quiet_NaN());
  ExpectRefused(kLearner, resources, "nan cores");
  EXPECT_EQ(coordinator_->status().train_iter(), 5);
}

TEST_F(TrustTest, TextsOfWorkersAreOneShortLine) {
  StartTraining();
  WorkerMessage message;
  message.mutable_collector_data()->set_task_id(collector_.task_id());
  message.mutable_collector_data()->mutable_progress()->set_stalled("a\n" + std::string(9999, 'x'));
  Handle(kCollector, message);
  EXPECT_THAT(StatusOf(kCollector).waits_for(), AllOf(HasSubstr("a x"), Not(HasSubstr("\n"))));
  EXPECT_LT(StatusOf(kCollector).waits_for().size(), 1000u);
  Hello hello = HelloOf(Hello::COLLECTOR);
  hello.set_name("collector-0\nI1122 converged");
  EXPECT_THAT(AdmitNow(coordinator_.get(), hello),
              StatusIs(kInvalid, HasSubstr("control characters")));
}

// Returns.

class WitnessTest : public TrustTest {
 protected:
  WitnessTest() { commander_options_.eval_interval = 0; }

  // Has one of kCollector and kOther evaluate a trained policy, and the other one collect.
  void StartEvaluation() {
    options_.collectors = 2;
    commander_options_.collector_task_space = 2;
    StartTraining();
    Handle(kLearner, Info(learner_.task_id(), 50));
    WorkerMessage version = Version("policy_0", 1);
    version.mutable_policy_version()->set_train_iter(50);
    Handle(kLearner, version);
    Join(kOther, Hello::COLLECTOR);
    other_ = TakeCollectorTask(kOther);
    Advance(absl::Seconds(1));
    Handle(kCollector, Finished(collector_.task_id(), 1));
    CollectorTask task = TakeCollectorTask(kCollector);
    if (!task.eval_flag()) {  // The other worker evaluates.
      std::swap(task, other_);
      evaluator_ = kOther;
      collects_ = kCollector;
    }
    ASSERT_TRUE(task.eval_flag());
    ASSERT_FALSE(other_.eval_flag());
    evaluation_ = task;
  }
  WorkerMessage Result(const std::string& task_id, double mean_return) {
    WorkerMessage message = Finished(task_id, mean_return, /*steps=*/10, /*train_iter=*/50);
    message.mutable_collector_finished()->set_policy_version(1);
    return message;
  }
  // Lets the other collector finish its task. Returns the next one, which is that of the witness.
  CollectorTask TakeWitnessTask() {
    Handle(collects_, Finished(other_.task_id(), 1));
    return TakeCollectorTask(collects_);
  }
  std::vector<std::string> Warnings() {
    const RunStatus status = coordinator_->status();
    return {status.warning().begin(), status.warning().end()};
  }

  uint32_t evaluator_ = kCollector;
  uint32_t collects_ = kOther;
  CollectorTask other_;
  CollectorTask evaluation_;
};

TEST_F(WitnessTest, TheEndIsConfirmedByAnotherWorkerWithTheSamePolicy) {
  StartEvaluation();
  // Newer versions come during the evaluation; the version that it plays by is kept.
  for (uint64_t version = 2; version <= 5; ++version) {
    WorkerMessage newer = Version("policy_0", version);
    newer.mutable_policy_version()->set_train_iter(50);
    Handle(kLearner, newer);
  }
  Handle(evaluator_, Result(evaluation_.task_id(), 150));
  EXPECT_FALSE(coordinator_->status().converged());
  EXPECT_EQ(coordinator_->status().best_eval_value(), 1) << "it does not count yet";
  const CollectorTask own = TakeCollectorTask(evaluator_);
  EXPECT_FALSE(own.eval_flag()) << "nobody is the witness of itself";
  const CollectorTask witness = TakeWitnessTask();
  ASSERT_TRUE(witness.eval_flag());
  EXPECT_NE(witness.task_id(), evaluation_.task_id());
  EXPECT_EQ(witness.number(), evaluation_.number()) << "with the same seeds";
  EXPECT_EQ(witness.policy().version(), 1u);
  EXPECT_THAT(store_.deleted(), Not(Contains("policy/policy_0/1-1")));
  Handle(collects_, Result(witness.task_id(), 150));
  EXPECT_TRUE(coordinator_->status().converged());
  EXPECT_EQ(coordinator_->status().best_eval_value(), 150);
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(WitnessTest, AFalseReturnDoesNotCount) {
  StartEvaluation();
  Handle(evaluator_, Result(evaluation_.task_id(), 1e9));
  const CollectorTask witness = TakeWitnessTask();
  Handle(collects_, Result(witness.task_id(), 20));
  EXPECT_FALSE(coordinator_->status().converged());
  EXPECT_EQ(coordinator_->status().best_eval_value(), 20);
  EXPECT_EQ(coordinator_->status().eval_value(), 20);
  EXPECT_THAT(Warnings(), ElementsAre(AllOf(HasSubstr("1e+09"), HasSubstr("20: the lower one"))));
}

TEST_F(WitnessTest, ReturnsThatTheEnvDoesNotGiveDoNotCountWithoutAWitness) {
  options_.min_return = 0;
  options_.max_return = 90;
  StartTraining();
  Advance(absl::Seconds(1));
  Handle(kCollector, Finished(collector_.task_id(), 1));
  const CollectorTask evaluation = TakeCollectorTask(kCollector);
  ASSERT_TRUE(evaluation.eval_flag());
  Handle(kCollector, Finished(evaluation.task_id(), 1e9));
  EXPECT_EQ(coordinator_->status().best_eval_value(), 1);
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("the env's reward bounds allow 0 to 90")));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), Not(IsOk()));
  EXPECT_TRUE(TakeCollectorTask(kCollector).task_id() != "") << "the run goes on";
}

TEST_F(WitnessTest, ReturnsThatTheEnvDoesNotGiveDoNotCountIfTheWitnessSaysTheSame) {
  options_.max_return = 10;
  StartEvaluation();
  Handle(evaluator_, Result(evaluation_.task_id(), 50));
  const CollectorTask witness = TakeWitnessTask();
  ASSERT_TRUE(witness.eval_flag());
  Handle(collects_, Result(witness.task_id(), 50));
  EXPECT_EQ(coordinator_->status().best_eval_value(), 1) << "both may be the same hand";
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("neither is possible, and neither counts")));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), Not(IsOk()));
}

TEST_F(WitnessTest, WithoutAnotherCollectorTheEndNeedsNoWitness) {
  StartEvaluation();
  Handle(evaluator_, Result(evaluation_.task_id(), 150));
  EXPECT_FALSE(coordinator_->status().converged());
  Lose(collects_);
  EXPECT_TRUE(coordinator_->status().converged());
}

TEST_F(WitnessTest, AWitnessThatIsLostIsReplaced) {
  StartEvaluation();
  Handle(evaluator_, Result(evaluation_.task_id(), 150));
  const CollectorTask first = TakeWitnessTask();
  constexpr uint32_t kThird = 9;
  Join(kThird, Hello::COLLECTOR);
  Lose(collects_);
  CollectorTask second = TakeCollectorTask(kThird);
  if (!second.eval_flag()) {
    Handle(kThird, Finished(second.task_id(), 1));
    second = TakeCollectorTask(kThird);
  }
  ASSERT_TRUE(second.eval_flag());
  EXPECT_NE(second.task_id(), first.task_id());
  Handle(kThird, Result(second.task_id(), 150));
  EXPECT_TRUE(coordinator_->status().converged());
}

TEST_F(WitnessTest, TheRunMayEndBeforeTheWitnessAnswers) {
  StartEvaluation();
  Handle(evaluator_, Result(evaluation_.task_id(), 150));
  coordinator_->RequestEnd("enough");
  EXPECT_FALSE(coordinator_->status().converged());
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), IsOk());
}

// Chunks.

TEST_F(TrustTest, BadChunksAreNotDrawnAgainAndAreDeleted) {
  StartTraining();
  Push(1, 4, 4);
  Push(2, 4, 8);
  const int64_t bad = Chunk(kCollector, 1);
  Handle(kLearner, Bad(bad));
  EXPECT_THAT(DeletedWhen(1), ElementsAre(ChunkKey(bad)));
  for (uint64_t i = 1; i <= 10; ++i) EXPECT_THAT(DrawnChunks(i, 4), Each(Chunk(kCollector, 2)));
  EXPECT_EQ(StatusOf(kCollector).bad_chunks(), 1);
  EXPECT_EQ(coordinator_->status().buffer(0).bad_chunks(), 1);
  EXPECT_EQ(coordinator_->status().buffer(0).chunks(), 1);
  // A chunk that is reported twice, and one that is not in the buffer, do not count.
  Handle(kLearner, Bad(bad));
  Handle(kLearner, Bad(Chunk(kOther, 5)));
  EXPECT_EQ(StatusOf(kCollector).bad_chunks(), 1);
  EXPECT_THAT(HandleNow(coordinator_.get(), kCollector, Bad(bad)), StatusIs(kInvalid));
}

TEST_F(TrustTest, WithoutAGoodRowTheLearnerWaitsAndIsToldWhy) {
  StartTraining();
  Push(1, 4, 4);
  Handle(kLearner, Bad(Chunk(kCollector, 1)));
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty());
  EXPECT_THAT(StatusOf(kLearner).waits_for(), HasSubstr("beside those of 1 bad chunks"));
  Push(2, 4, 8);
  EXPECT_THAT(TakeAnswers(kLearner), testing::SizeIs(1));
}

TEST_F(TrustTest, AfterSeveralBadChunksTheirCollectorIsSentAway) {
  StartTraining();
  for (uint32_t i = 1; i <= 4; ++i) Push(i, 4, 4 * i);
  sender_.Take(kCollector);
  Handle(kLearner, Bad(Chunk(kCollector, 1)));
  Handle(kLearner, Bad(Chunk(kCollector, 2)));
  EXPECT_FALSE(IsLetGo(kCollector));
  Handle(kLearner, Bad(Chunk(kCollector, 3)));
  EXPECT_TRUE(IsLetGo(kCollector));
  EXPECT_THAT(coordinator_->status().warning(0),
              AllOf(HasSubstr("COLLECTOR-x (worker 2"), HasSubstr("is sent away: 3 of its chunks"),
                    HasSubstr("column 'obs' holds nan")));
  const WorkerMessage more =
      Data(collector_.task_id(), 5, TestItemsOfChunk(Chunk(kCollector, 5), 4));
  EXPECT_THAT(HandleNow(coordinator_.get(), kCollector, more),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("sent away")));
  Lose(kCollector);
  Hello again = HelloOf(Hello::COLLECTOR);
  EXPECT_THAT(AdmitNow(coordinator_.get(), again),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was sent away")));
  again.set_pid(77);
  EXPECT_THAT(AdmitNow(coordinator_.get(), again), IsOk()) << "another process in its place";
  again.set_pid(0);
  Advance(absl::Minutes(11));
  EXPECT_THAT(AdmitNow(coordinator_.get(), again), IsOk());
  EXPECT_EQ(rows(), 16) << "its other rows stay";
  EXPECT_THAT(DrawnChunks(1, 4), Each(Chunk(kCollector, 4)));
}

TEST_F(TrustTest, LostChunksAreNotHeldAgainstTheirCollector) {
  StartTraining();
  for (uint32_t i = 1; i <= 4; ++i) Push(i, 4, 4 * i);
  for (uint32_t i = 1; i <= 4; ++i) Handle(kLearner, Bad(Chunk(kCollector, i), /*gone=*/true));
  EXPECT_FALSE(IsLetGo(kCollector));
  EXPECT_EQ(StatusOf(kCollector).bad_chunks(), 0);
  EXPECT_EQ(coordinator_->status().buffer(0).bad_chunks(), 4);
}

TEST_F(TrustTest, ALearnerThatReportsChunksOfAllCollectorsIsDoubted) {
  options_.collectors = 3;
  commander_options_.collector_task_space = 3;
  StartTraining();
  std::vector<CollectorTask> tasks = {collector_};
  const std::vector<uint32_t> workers = {kCollector, kOther, 4};
  for (const uint32_t worker : {workers[1], workers[2]}) {
    Join(worker, Hello::COLLECTOR);
    tasks.push_back(TakeCollectorTask(worker));
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    for (uint32_t n = 1; n <= 3; ++n) {
      Handle(workers[i],
             Data(tasks[i].task_id(), n, TestItemsOfChunk(Chunk(workers[i], n), 4), 4 * n));
    }
  }
  for (const uint32_t worker : workers) {
    sender_.Take(worker);
    for (uint32_t n = 1; n <= 3; ++n) Handle(kLearner, Bad(Chunk(worker, n)));
  }
  EXPECT_TRUE(IsLetGo(kCollector));
  EXPECT_TRUE(IsLetGo(kOther));
  EXPECT_FALSE(IsLetGo(4)) << "the last one that there is";
  EXPECT_THAT(coordinator_->status().warning(2),
              HasSubstr("the learner or the store may be at fault"));
  // The same holds for a collector that joins later.
  Lose(kCollector);
  Join(5, Hello::COLLECTOR);
  const CollectorTask task = TakeCollectorTask(5);
  for (uint32_t n = 1; n <= 3; ++n) {
    Handle(5, Data(task.task_id(), n, TestItemsOfChunk(Chunk(5, n), 4), 4 * n));
    Handle(kLearner, Bad(Chunk(5, n)));
  }
  EXPECT_FALSE(IsLetGo(5));
}

// Tasks.

TEST_F(TrustTest, AWorkerWhoseTasksFailIsSentAwayAndTheRunContinues) {
  options_.collectors = 2;
  commander_options_.collector_task_space = 2;
  StartTraining();
  Join(kOther, Hello::COLLECTOR);
  ASSERT_FALSE(TakeCollectorTask(kOther).task_id().empty());
  for (int i = 0; i < 3; ++i) {
    Handle(kCollector, Failed(collector_.task_id(), absl::StatusCode::kInternal));
    if (i < 2) collector_ = TakeCollectorTask(kCollector);
  }
  EXPECT_TRUE(IsLetGo(kCollector));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), Not(IsOk()));
  EXPECT_THAT(coordinator_->status().warning(0), HasSubstr("3 of its tasks failed in a row"));
}

TEST_F(TrustTest, TasksThatFailForAllWorkersEndTheRun) {
  options_.collectors = 2;
  commander_options_.collector_task_space = 2;
  StartTraining();
  Join(kOther, Hello::COLLECTOR);
  CollectorTask other = TakeCollectorTask(kOther);
  Handle(kCollector, Failed(collector_.task_id(), absl::StatusCode::kInternal));
  collector_ = TakeCollectorTask(kCollector);
  Handle(kOther, Failed(other.task_id(), absl::StatusCode::kInternal));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  Handle(kCollector, Failed(collector_.task_id(), absl::StatusCode::kInternal));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("3 tasks failed in a row")));
}

// Stalls.

TEST_F(TrustTest, ALearnerThatMakesNoProgressStalls) {
  StartTraining();
  Handle(kLearner, Info(learner_.task_id(), 4));
  Handle(kLearner, Info(learner_.task_id(), 5));
  Advance(absl::Seconds(9));
  EXPECT_FALSE(StatusOf(kLearner).has_stalled_seconds());
  WorkerMessage stalled = Info(learner_.task_id(), 5);
  stalled.mutable_learner_info()->set_stalled("the store, which has not given 'data/2/5' for 8s");
  Handle(kLearner, stalled);
  Advance(absl::Seconds(2));
  EXPECT_EQ(StatusOf(kLearner).stalled_seconds(), 11);
  EXPECT_THAT(StatusOf(kLearner).waits_for(), HasSubstr("has not given 'data/2/5'"));
  Handle(kLearner, Info(learner_.task_id(), 6));
  EXPECT_FALSE(StatusOf(kLearner).has_stalled_seconds());
  EXPECT_THAT(StatusOf(kLearner).waits_for(), IsEmpty());
  // This learner says nothing at all.
  Advance(absl::Seconds(10));
  EXPECT_EQ(StatusOf(kLearner).stalled_seconds(), 10);
  EXPECT_EQ(StatusOf(kLearner).waits_for(), "something that it has not reported");
  // A demand of a later iteration is progress.
  WorkerMessage demand = Demand(learner_.task_id(), 1, 4);
  demand.mutable_learner_demand()->set_train_iter(7);
  Handle(kLearner, demand);
  EXPECT_FALSE(StatusOf(kLearner).has_stalled_seconds());
}

TEST_F(TrustTest, ALearnerMayTakeLongerForItsFirstIteration) {
  StartTraining();
  Handle(kLearner, Info(learner_.task_id(), 5));
  Advance(absl::Seconds(59));
  EXPECT_FALSE(StatusOf(kLearner).has_stalled_seconds());
  Advance(absl::Seconds(1));
  EXPECT_EQ(StatusOf(kLearner).stalled_seconds(), 60);
}

TEST_F(TrustTest, ALearnerThatWaitsForRowsDoesNotStallWhileEnvsAreStepped) {
  StartTraining();
  Handle(kLearner, Info(learner_.task_id(), 4));
  Handle(kLearner, Info(learner_.task_id(), 5));
  Handle(kLearner, Demand(learner_.task_id(), 1, 4));
  WorkerMessage progress;
  progress.mutable_collector_data()->set_task_id(collector_.task_id());
  for (int steps = 1; steps <= 5; ++steps) {
    Advance(absl::Seconds(8));
    progress.mutable_collector_data()->mutable_progress()->set_cur_step(steps);
    Handle(kCollector, progress);
    EXPECT_FALSE(StatusOf(kLearner).has_stalled_seconds());
  }
  Advance(absl::Seconds(8));
  Handle(kCollector, progress);
  Advance(absl::Seconds(2));
  EXPECT_EQ(StatusOf(kLearner).stalled_seconds(), 50) << "the steps do not grow any more";
}

}  // namespace
}  // namespace ding
