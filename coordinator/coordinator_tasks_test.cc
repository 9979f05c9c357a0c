// Tasks and policies: who gets which, and what follows when they fail or are over.
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
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

TEST_F(CoordinatorTest, AnotherLearnerContinuesWithTheSameBuffer) {
  StartTraining();
  Handle(kLearner, Version("policy_0", 1));
  Handle(kLearner, Version("policy_0", 2));
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 3)));
  Handle(kLearner, Demand(learner_.task_id(), 1, 30));
  Lose(kLearner);
  // The collector goes on without a learner.
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
  EXPECT_THAT(HandleNow(coordinator_.get(), kCollector, Finished(collector_.task_id(), 1)),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(CoordinatorTest, UnannouncedChunksOfALostCollectorAreDeleted) {
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

TEST_F(CoordinatorTest, AFinishedLearnerTaskClosesItsBuffer) {
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
  // The data that the collector had under way are dropped, and it continues with the next policy.
  Handle(kCollector, Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 1), 3)));
  EXPECT_THAT(DeletedWhen(3), SizeIs(3));
  Handle(kLearner, Started(next.task_id()));
  const CollectorTask task = TakeCollectorTask(kCollector);
  EXPECT_TRUE(task.eval_flag());
  EXPECT_EQ(task.policy_id(), next.policy_id());
  Handle(kCollector, Finished(task.task_id(), 2));
}

TEST_F(CoordinatorTest, AnEvaluationOfAFinishedPolicyContinues) {
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
  EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, Version("policy_0", 5, kOther)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'policy/policy_0/5-3'")));
  Handle(kLearner, Version("policy_of_another", 9));
  EXPECT_EQ(coordinator_->status().policy_version(), 4u);
}

TEST_F(CoordinatorTest, PoliciesThatAreKeptOrPlayedAreNotDeleted) {
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
  // When the learner is done, a version that the commander keeps stays until the end of the run.
  Handle(kLearner, Info(learner_.task_id(), 9, /*done=*/true));
  EXPECT_THAT(DeletedWhen(6), Not(Contains("policy/policy_0/2-1")));
  EXPECT_THAT(DeletedAfterClose(), Contains("policy/policy_0/2-1"));
}

TEST_F(CoordinatorTest, ASilentWorkerGetsTheNewestPolicyWhenItSpeaksAgain) {
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
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Started(TakeLearnerTask(kLearner).task_id()));
  Join(kCollector, Hello::COLLECTOR, /*cpus=*/4);
  EXPECT_EQ(TakeCollectorTask(kCollector).task_id(), "collector_task_0");
  Join(kOther, Hello::COLLECTOR, /*cpus=*/2);  // adds a task, which waits from now on
  EXPECT_THAT(sender_.Take(kOther), IsEmpty()) << "it has too few cpus";
  Advance(absl::Seconds(30));
  Join(kOther + 1, Hello::COLLECTOR, /*cpus=*/4);
  const CollectorTask task = TakeCollectorTask(kOther + 1);
  EXPECT_EQ(task.task_id(), "collector_task_2") << "task 1 was given back";
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

// Gives a learner task, which nobody takes, only when it is asked for the second time.
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
  std::string FinishLearnerTask(const LearnerTask& task) override { return task.buffer_id(); }
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
  std::vector<double> last_eval_returns() const override { return {}; }

 private:
  std::atomic<int>* const failed_;
  bool waited_ = false;
  bool given_ = false;
};

TEST_F(CoordinatorTest, TimeoutsPassWithoutAMessage) {
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

// WaitUntilDone() returns this code while the run goes on.
TEST_F(CoordinatorTest, TasksThatFailWithADeadlineEndTheRunToo) {
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
    // The iteration at which a learner goes on is no progress.
    Handle(kLearner, Info(learner_.task_id(), 90));
    Handle(kLearner, Failed(learner_.task_id(), absl::StatusCode::kDataLoss));
    learner_ = TakeLearnerTask(kLearner);
  }
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDataLoss));
}

// If no checkpoint can be saved (the disk is full, say), each learner begins where the first one
// did.
TEST_F(CoordinatorTest, ALearnerThatKeepsFailingAtOneIterationEndsTheRun) {
  StartTraining();
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(learner_.task_id().empty()) << i;
    for (int iter = 0; iter <= 100; iter += 20) Handle(kLearner, Info(learner_.task_id(), iter));
    Handle(kLearner, Failed(learner_.task_id(), absl::StatusCode::kResourceExhausted));
    learner_ = TakeLearnerTask(kLearner);
  }
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("3 tasks failed in a row")));
}

// The first report of a learner says with which checkpoint it goes on. It is no progress.
TEST_F(CoordinatorTest, LearnersThatFailAfterTheirFirstReportEndTheRun) {
  StartTraining();
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(learner_.task_id().empty()) << i;
    Handle(kLearner, Info(learner_.task_id(), 10 * i));
    Handle(kLearner, Failed(learner_.task_id(), absl::StatusCode::kDataLoss));
    learner_ = TakeLearnerTask(kLearner);
  }
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDataLoss));
}

// Trains one policy again and again.
class OnePolicyCommander : public SoloCommander {
 public:
  explicit OnePolicyCommander(const SoloCommander& solo) : SoloCommander(solo) {}

  std::optional<LearnerTask> GetLearnerTask() override {
    std::optional<LearnerTask> task = SoloCommander::GetLearnerTask();
    if (task.has_value()) task->set_policy_id("policy");
    return task;
  }
  std::string FinishLearnerTask(const LearnerTask& task) override {
    return SoloCommander::FinishLearnerTask(Own(task));
  }
  void NotifyFailLearnerTask(const LearnerTask& task) override {
    SoloCommander::NotifyFailLearnerTask(Own(task));
  }

 private:
  LearnerTask Own(LearnerTask task) const {
    task.set_policy_id(current_policy_id());
    return task;
  }
};

TEST_F(CoordinatorTest, TheNextTaskOfAFinishedPolicyMayBeginAnew) {
  const auto solo = SoloCommander::Create(commander_options_, nullptr, deps_).value();
  Coordinator::Parts parts;
  parts.commander = std::make_unique<OnePolicyCommander>(*solo);
  parts.make_buffer = make_buffer_;
  parts.delete_key = store_.deleter();
  parts.sender = &sender_;
  coordinator_ = Coordinator::Create(options_, std::move(parts), deps_).value();
  coordinator_->Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Info(TakeLearnerTask(kLearner).task_id(), 100, /*done=*/true));
  for (int i = 0; i < 4; ++i) {
    const LearnerTask task = TakeLearnerTask(kLearner);
    ASSERT_EQ(task.policy_id(), "policy") << i;
    Handle(kLearner, Info(task.task_id(), 2 * i));
    Handle(kLearner, Info(task.task_id(), 2 * i + 1));  // further than its other learners
    Handle(kLearner, Failed(task.task_id(), absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

// No later version would have it deleted.
TEST_F(CoordinatorTest, AVersionThatComesAfterTheEndIsDeleted) {
  StartTraining();
  coordinator_->RequestEnd("the test is over");
  ASSERT_THAT(coordinator_->WaitUntilDone(absl::Seconds(5)), IsOk());
  Handle(kLearner, Version(learner_.policy_id(), 1));
  EXPECT_THAT(DeletedWhen(1), ElementsAre(PolicyKey(learner_.policy_id(), 1, kLearner)));
}

// Calls a verb of DI-engine, and waits until it is done.
template <typename Content>
absl::Status Deal(Coordinator* coordinator,
                  void (Coordinator::*verb)(uint32_t, Content, WorkerHandler::Done),
                  uint32_t worker, const Content& content) {
  std::promise<absl::Status> done;
  (coordinator->*verb)(worker, content,
                       [&done](const absl::Status& status) { done.set_value(Unshared(status)); });
  return done.get_future().get();
}

TEST_F(CoordinatorTest, DealWithCollectorSendData_AcknowledgesRows) {
  StartTraining();
  const WorkerMessage rows =
      Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 6));
  EXPECT_THAT(Deal(coordinator_.get(), &Coordinator::DealWithCollectorSendData, kCollector,
                   rows.collector_data()),
              IsOk());
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(1));
  CollectorData ahead = rows.collector_data();
  ahead.set_sequence(7);
  EXPECT_THAT(Deal(coordinator_.get(), &Coordinator::DealWithCollectorSendData, kCollector, ahead),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CoordinatorTest, DealWithCollectorFinishTask_AfterJudge_GivesTheNextTask) {
  StartTraining();
  CollectorFinished info = Finished(collector_.task_id(), 1).collector_finished();
  EXPECT_TRUE(coordinator_->DealWithCollectorJudgeFinish(info));
  info.set_collector_done(false);
  EXPECT_FALSE(coordinator_->DealWithCollectorJudgeFinish(info)) << "it is not done";
  info.set_collector_done(true);
  EXPECT_THAT(Deal(coordinator_.get(), &Coordinator::DealWithCollectorFinishTask, kCollector, info),
              IsOk());
  EXPECT_NE(TakeCollectorTask(kCollector).task_id(), "");
  EXPECT_FALSE(coordinator_->DealWithCollectorJudgeFinish(info)) << "it is over";
}

TEST_F(CoordinatorTest, DealWithLearnerGetData_AnswersTheDemand) {
  StartTraining();
  Handle(kCollector, Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 6)));
  EXPECT_THAT(Deal(coordinator_.get(), &Coordinator::DealWithLearnerGetData, kLearner,
                   Demand(learner_.task_id(), 1, 4).learner_demand()),
              IsOk());
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
}

TEST_F(CoordinatorTest, DealWithLearnerSendInfo_UpdatesTheRun_FinishTaskClosesTheBuffer) {
  StartTraining();
  LearnerInfo info = Info(learner_.task_id(), 3).learner_info();
  EXPECT_FALSE(coordinator_->DealWithLearnerJudgeFinish(info));
  EXPECT_THAT(Deal(coordinator_.get(), &Coordinator::DealWithLearnerSendInfo, kLearner, info),
              IsOk());
  EXPECT_EQ(coordinator_->status().train_iter(), 3);
  EXPECT_EQ(coordinator_->status().buffer(0).buffer_id(), "buffer_0");
  EXPECT_THAT(Deal(coordinator_.get(), &Coordinator::DealWithLearnerFinishTask, kLearner, info),
              IsOk());
  EXPECT_EQ(coordinator_->status().buffer(0).buffer_id(), "buffer_1") << "of the next task";
  info.set_learner_done(true);
  EXPECT_FALSE(coordinator_->DealWithLearnerJudgeFinish(info)) << "its task is over";
}

TEST_F(CoordinatorTest, DealWithIncreaseAndDecreaseCollector_ChangeTheTaskSpace) {
  StartTraining();
  coordinator_->DealWithIncreaseCollector(kOther, HelloOf(Hello::COLLECTOR), "peer");
  Settle(*coordinator_);
  EXPECT_NE(TakeCollectorTask(kOther).task_id(), "") << "a second task fits";
  coordinator_->DealWithDecreaseCollector(kOther, absl::UnavailableError("it has left"));
  Settle(*coordinator_);
  EXPECT_EQ(commander_->collector_space().running(), 1);
}

TEST_F(CoordinatorTest, SystemShutdownFlag_AfterTheEnd_IsTrue) {
  StartTraining();
  EXPECT_FALSE(coordinator_->system_shutdown_flag());
  coordinator_->RequestEnd("the test is over");
  EXPECT_TRUE(coordinator_->system_shutdown_flag());
}

}  // namespace
}  // namespace ding
