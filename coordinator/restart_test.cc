// Cases of a coordinator that is killed, or ends, and of a new one that continues the run of its
// journal.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/learning_rounds.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/restart_fixture.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

INSTANTIATE_TEST_SUITE_P(Journal, RestartTest,
                         testing::Values(JournalMedium::kFile, JournalMedium::kMem),
                         JournalMediumName);

TEST_P(RestartTest, ContinuesWhereItWasKilled) {
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_EQ(coordinator()->incarnation(), 1);
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  Publish();
  Info(70);
  const std::string task_id = LearnTask().task_id();
  StoreChunk(&collectors_[0]);  // dies before it announces this one
  Kill();

  ASSERT_THAT(Begin(), IsOk());
  EXPECT_EQ(coordinator()->incarnation(), 2);
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(ExpectedRows()));
  const RunStatus status = coordinator()->status();
  EXPECT_EQ(status.envstep(), 6);
  EXPECT_EQ(status.train_iter(), 70);
  EXPECT_EQ(status.eval_value(), 1);
  EXPECT_EQ(status.best_eval_value(), 1);
  EXPECT_EQ(status.policy_version(), 1u);
  EXPECT_EQ(status.workers_joined(), 3);
  EXPECT_EQ(status.worker_size(), 0);
  ExpectBooksBalance();
  JoinAll();
  EXPECT_TRUE(LearnTask().resume());
  EXPECT_NE(LearnTask().task_id(), task_id);
  EXPECT_EQ(LearnTask().buffer_id(), "buffer_0");
  EXPECT_EQ(LearnTask().first_version(), 2u);
  EXPECT_FALSE(TaskOf(collectors_[0]).eval_flag()) << "the evaluation is over";
  EXPECT_EQ(TaskOf(collectors_[0]).policy().version(), 1u);
  ExpectDataOf(ExpectedRows());
}

// As a machine leaves it that goes down: what the kernel had not written to the disk yet is lost.
TEST_P(RestartTest, Begin_TheJournalHasOnlyItsFirstRecord_GivesNoNumberAgainAndResumes) {
  ASSERT_THAT(Begin(), IsOk());
  const auto first = SaveJournal();
  JoinAll();
  EXPECT_FALSE(LearnTask().resume());
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  Push(&collectors_[1], 2, 3);
  Publish();
  Kill();
  SetJournal(first);
  acknowledged_.clear();
  options_.saved_policies = {"policy_0"};
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();  // It expects that no number is given twice.
  EXPECT_TRUE(LearnTask().resume()) << "there is a checkpoint";
  ExpectDataOf({});
}

TEST_P(RestartTest, TheNumberOfAWorkerThatHasNotJoinedYetIsNotGivenAgain) {
  Hello hello;
  hello.set_role(Hello::COLLECTOR);
  hello.set_name("slow");
  ASSERT_THAT(Begin(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const uint32_t first, AdmitNow(coordinator(), hello));
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const uint32_t second, AdmitNow(coordinator(), hello));
  EXPECT_NE(first, second);
}

TEST_P(RestartTest, WaitsForALearnerWithEnoughResourcesToComeBack) {
  commander_.learner_resources.set_cpus(4);
  const auto join = [this](const std::string& name, double cpus) {
    Hello hello;
    hello.set_role(Hello::LEARNER);
    hello.set_name(name);
    hello.mutable_resources()->set_cpus(cpus);
    const uint32_t number = AdmitNow(coordinator(), hello).value();
    coordinator()->WorkerJoined(number, hello, "peer");
    Settle(*coordinator());
    return life_->sender.tasks.count(number) > 0;
  };
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_TRUE(join("large", 4));
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_FALSE(join("small", 1));
  EXPECT_TRUE(join("large", 4));
}

// Rows support the env steps of their collector, also those that it reports with them.
TEST_P(RestartTest, APushIsRecordedWithTheEnvStepsThatItsRowsSupport) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  Push(&collectors_[1], 1, 3);
  Kill();
  DING_ASSERT_OK_AND_ASSIGN(const auto journal, OpenJournal());
  ASSERT_THAT(journal->ReadRun(), IsOk());
  std::vector<int64_t> env_steps;
  ASSERT_THAT(journal->ReadPushes([&env_steps](const PushRecord& push) {
    env_steps.push_back(push.envstep());
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(env_steps, ElementsAre(6, 9));
}

TEST_P(RestartTest, AWorkerJoinsAgain_ItsNumberWasForgottenAndGivenAgain_DeletesNothing) {
  ASSERT_THAT(Begin(), IsOk());
  const auto first = SaveJournal();
  JoinAll();
  Hello hello;
  hello.set_role(Hello::COLLECTOR);
  hello.set_name("slow");
  hello.set_previous_worker(collectors_[0].number);
  hello.set_previous_incarnation(1);
  Kill();
  SetJournal(first);
  numbers_.clear();
  for (PlayedWorker* const worker : {&learner_, &collectors_[0], &collectors_[1]}) *worker = {};
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  ASSERT_EQ(collectors_[0].number, hello.previous_worker());
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  DING_ASSERT_OK_AND_ASSIGN(const uint32_t number, AdmitNow(coordinator(), hello));
  coordinator()->WorkerJoined(number, hello, "peer");
  Settle(*coordinator());
  ExpectDataOf(ExpectedRows());
}

TEST_P(RestartTest, DropsRowsWhoseDataAreGone) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 3, 4);
  Publish();
  Kill();
  const int64_t gone = acknowledged_[4].chunk;
  ASSERT_THAT(store_.Delete(ChunkKey(gone)), IsOk());
  ASSERT_THAT(store_.Delete(PolicyKey("policy_0", 1, learner_.number)), IsOk());
  ASSERT_THAT(Begin(), IsOk());
  std::vector<ChunkRow> expected = ExpectedRows();
  expected.erase(std::remove_if(expected.begin(), expected.end(),
                                [gone](const auto& row) { return row.first == gone; }),
                 expected.end());
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(expected));
  EXPECT_EQ(coordinator()->status().buffer(0).lost_count(), 4);
  ExpectBooksBalance();
  JoinAll();
  EXPECT_FALSE(TaskOf(collectors_[0]).has_policy()) << "the policy is gone, too";
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_EQ(coordinator()->status().buffer(0).lost_count(), 4) << "lost rows are counted once";
  ExpectBooksBalance();
}

TEST_P(RestartTest, KeepsSequencesWithRowsInCommon) {
  options_.sequences.length = 4;
  options_.sequences.overlap = 3;
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 5);
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  ASSERT_EQ(ExpectedRows().size(), 10u);
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(ExpectedRows()));
  ExpectBooksBalance();
  ExpectDataOf(ExpectedRows());
}

TEST_P(RestartTest, ARunThatHadConvergedEndsAtOnce) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  Info(5);
  Finish(&collectors_[0], 1000);
  Finish(&collectors_[1]);        // the task that collects
  Finish(&collectors_[1], 1000);  // the evaluation of the witness
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()), IsOk());
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()), IsOk());
  EXPECT_TRUE(coordinator()->status().converged());
}

// An evaluation that waits for its confirmation by another worker is lost with the coordinator. It
// does not keep a collector from collecting.
TEST_P(RestartTest, ADoubtedEvaluationIsLost) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  Info(5);
  Finish(&collectors_[0], 1000);
  Finish(&collectors_[1]);
  EXPECT_TRUE(TaskOf(collectors_[1]).eval_flag()) << "it is to confirm the evaluation";
  EXPECT_FALSE(coordinator()->status().has_eval_value());
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_FALSE(coordinator()->status().has_eval_value());
  JoinAll();
  for (PlayedWorker& collector : collectors_) Push(&collector, 1, 1);
}

// What was drawn counts on, so that neither a kill nor --resume makes the learner or the collectors
// wait anew.
TEST_P(RestartTest, TheReplayRatioGoesOn) {
  options_.replay_ratio = ReplayRatioLimiter::Options{1, 1, 2, 1};
  options_.random_collect_size = 3;
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  EXPECT_TRUE(TaskOf(collectors_[0]).acts_at_random());
  Push(&collectors_[0], 1, 5);
  Demand();
  Demand();
  Push(&collectors_[0], 1, 2);
  EXPECT_EQ(coordinator()->status().buffer(0).replay_ratio(), 0.5);
  for (int deaths = 0; deaths < 2; ++deaths) {
    Kill();
    ASSERT_THAT(Begin(), IsOk());
    const BufferStatus buffer = coordinator()->status().buffer(0);
    EXPECT_EQ(buffer.sample_count(), 2);
    EXPECT_EQ(buffer.push_count(), 7);
    EXPECT_EQ(buffer.replay_ratio(), 0.5);
  }
  JoinAll();
  EXPECT_FALSE(TaskOf(collectors_[0]).acts_at_random());
  Demand();
  Demand();
  EXPECT_EQ(coordinator()->status().buffer(0).replay_ratio(), 1);
  Demand();
  EXPECT_EQ(coordinator()->status().buffer(0).sample_count(), 4) << "this one waits";
  // The state of the run is written, too, without a push behind the draws.
  Info(3);
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_EQ(coordinator()->status().buffer(0).sample_count(), 4);
}

// Which rows the learner has drawn is not in the journal, and it must not learn from them again.
TEST_P(RestartTest, RowsOfRoundsAreDropped) {
  options_.rounds = LearningRounds{/*rows=*/1000, /*hand_over_rows=*/1, /*ahead=*/1};
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(Rows(), IsEmpty());
  EXPECT_EQ(coordinator()->status().envstep(), 6);
  EXPECT_EQ(coordinator()->status().buffer(0).push_count(), 6);
  EXPECT_EQ(coordinator()->status().buffer(0).lost_count(), 0);
  ExpectBooksBalance();
  JoinAll();
  ExpectDataOf({});
}

// Chunks that the learner could not learn from do not come back.
TEST_P(RestartTest, BadChunksStayOut) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  WorkerMessage bad;
  bad.mutable_bad_chunks()->set_task_id(LearnTask().task_id());
  bad.mutable_bad_chunks()->add_chunk()->set_chunk(acknowledged_[0].chunk);
  Handle(learner_, bad);
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  acknowledged_.erase(acknowledged_.begin(), acknowledged_.begin() + 3);
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(ExpectedRows()));
}

TEST_P(RestartTest, DrainingACollectorContinues) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  OperatorRequest request;
  request.set_drain("collector-0");
  ASSERT_EQ(Operate(request).code(), 0);
  EXPECT_EQ(life_->sender.ended.count(collectors_[0].number), 0u) << "it has a task";
  // The second coordinator dies before the collector has come back.
  for (int deaths = 0; deaths < 2; ++deaths) {
    Kill();
    ASSERT_THAT(Begin(), IsOk());
  }
  JoinAll();
  EXPECT_EQ(life_->sender.ended, std::set<uint32_t>{collectors_[0].number});
  EXPECT_EQ(life_->sender.tasks.count(collectors_[0].number), 0u);
  EXPECT_EQ(life_->sender.tasks.count(collectors_[1].number), 1u);
  coordinator()->WorkerLost(collectors_[0].number, absl::AbortedError("leaves"));
  Settle(*coordinator());
  EXPECT_EQ(coordinator()->status().workers_lost(), 0) << "it was told to leave";
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  EXPECT_THAT(life_->sender.ended, IsEmpty()) << "the drained collector has left";
}

TEST_P(RestartTest, ARunThatAnOperatorHasStoppedEnds) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  OperatorRequest request;
  request.set_stop(true);
  ASSERT_EQ(Operate(request).code(), 0);
  for (int deaths = 0; deaths < 2; ++deaths) {
    Kill();
    ASSERT_THAT(Begin(), IsOk());
    EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()), IsOk());
  }
  EXPECT_THAT(Operate(request).message(), HasSubstr("an operator has stopped it"));
  // Once somebody wants the run to continue, later coordinators continue it, too.
  Kill();
  options_.goes_on_after_stop = true;
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  Kill();
  options_.goes_on_after_stop = false;
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_P(RestartTest, RowsOfAnOrderlyEndAreThereIfTheirDataAre) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  const auto rows = ExpectedRows();
  coordinator()->RequestEnd("interrupted");
  ASSERT_THAT(coordinator()->CloseJournal(), IsOk());
  std::map<std::string, std::string> data;
  const std::vector<std::string> keys = store_.List("data/").value();
  for (const std::string& key : keys) {
    ASSERT_THAT(store_.Get(key, &data[key]), IsOk());
  }
  ASSERT_THAT(coordinator()->Close("over"), IsOk());
  ExpectDataOf({});
  life_.reset();
  for (const auto& [key, value] : data)
    ASSERT_THAT(store_.Put(key, {absl::string_view(value)}), IsOk());
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(rows));
  ExpectBooksBalance();
}

TEST_P(RestartTest, AWorkerThatWasReplacedIsNotAdmittedAgain) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  Hello hello;
  hello.set_role(Hello::COLLECTOR);
  hello.set_name("collector-0");
  hello.set_pid(78);
  hello.set_previous_worker(collectors_[0].number);
  hello.set_previous_incarnation(1);
  EXPECT_THAT(AdmitNow(coordinator(), hello),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another process has taken its place")));
  coordinator()->WorkerLost(collectors_[0].number, absl::UnavailableError("the link is cut"));
  Settle(*coordinator());
  EXPECT_TRUE(AdmitNow(coordinator(), hello).ok()) << "its place is free";
}

TEST_P(RestartTest, ADamagedJournalIsRefused) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  Kill();
  ASSERT_THAT(OpenJournal(), IsOk());  // It is in the file itself now.
  SavedJournal journal = SaveJournal();
  if (GetParam() == JournalMedium::kFile) {
    std::string& bytes = journal.files.at(path_);
    bytes[4096] = static_cast<char>(bytes[4096] ^ 1);
  } else {
    journal.log.snapshot.begin()->second = "\xff";
  }
  SetJournal(journal);
  EXPECT_THAT(Begin(), StatusIs(absl::StatusCode::kDataLoss,
                                AnyOf(HasSubstr("is damaged"), HasSubstr("is cut off"))));
}

TEST_P(RestartTest, AStartThatFailsChangesNothing) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  Kill();
  const auto records = [this] {
    const std::unique_ptr<Journal> journal = OpenJournal().value();
    const RecordedRun run = journal->ReadRun().value().value();
    std::vector<std::string> found = {run.state.SerializeAsString(), run.commander};
    EXPECT_THAT(journal->ReadPushes([&found](const PushRecord& push) {
      found.push_back(push.SerializeAsString());
      return absl::OkStatus();
    }),
                IsOk());
    return found;
  };
  JournalRecord damaged;
  damaged.set_commander("not a state");
  ASSERT_THAT(OpenJournal().value()->Append({damaged}), IsOk());
  const std::vector<std::string> before = records();
  const std::vector<std::string> data = store_.List("data/").value();
  ASSERT_FALSE(data.empty());
  EXPECT_THAT(Begin(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("going on with the run")));
  life_.reset();
  EXPECT_EQ(records(), before);
  EXPECT_EQ(store_.List("data/").value(), data);
}

class StoreRestartTest : public RestartTest {};
INSTANTIATE_TEST_SUITE_P(Store, StoreRestartTest, testing::Values(JournalMedium::kMem));

// The coordinator hangs, another one is started, and the first one wakes up.
TEST_P(StoreRestartTest, AReplacedCoordinatorEndsItsRunAndDeletesNothing) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  const std::vector<std::string> data = store_.List("data/").value();
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Journal> next, OpenJournal());
  const int64_t size = next->size_bytes();
  WorkerMessage message;
  message.mutable_collector_data()->set_task_id(TaskOf(collectors_[0]).task_id());
  message.mutable_collector_data()->set_sequence(collectors_[0].sequence + 1);
  std::vector<Item> evicting;
  const int64_t chunk = StoreChunk(&collectors_[0]);
  for (int64_t row = 0; row < kCapacity; ++row) evicting.push_back({chunk, row, 1});
  message.mutable_collector_data()->set_items(EncodedBatch(TestItems(evicting).rows).ToString());
  Handle(collectors_[0], message);
  EXPECT_EQ(life_->sender.acks[collectors_[0].number], collectors_[0].sequence);
  EXPECT_THAT(
      coordinator()->WaitUntilDone(absl::Minutes(1)),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("another coordinator goes on with this run")));
  EXPECT_THAT(coordinator()->CloseJournal(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(coordinator()->Close("over"), IsOk());
  EXPECT_THAT(store_.List("data/").value(), testing::IsSupersetOf(data));
  EXPECT_EQ(next->size_bytes(), size);
  EXPECT_THAT(next->Append({}), IsOk()) << "the journal still belongs to the other coordinator";
}

TEST_P(StoreRestartTest, AReplacedCoordinatorThatHasNothingToWrite_EndsItsRunAllTheSame) {
  SimulatedClock clock;
  deps_.clock = &clock;
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Journal> next, OpenJournal());
  OperatorRequest request;
  request.mutable_inspect();
  EXPECT_EQ(Operate(request).code(), 0);
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  clock.Advance(absl::Seconds(10));
  Operate(request);
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::Minutes(1)), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(coordinator()->Close("over"), IsOk());
  life_.reset();
}

// The commander cannot save its state after it has given its first task.
class FailingCommanderTest : public RestartTest {
 protected:
  std::unique_ptr<BaseCommander> MakeCommander() override {
    class Failing : public SoloCommander {
     public:
      using SoloCommander::SoloCommander;
      Failing(const SoloCommander& solo, const bool* fails) : SoloCommander(solo), fails_(fails) {}
      std::optional<LearnerTask> GetLearnerTask() override {
        given_ = true;
        return SoloCommander::GetLearnerTask();
      }
      absl::Status SaveState(StateWriter* writer) const override {
        if (*fails_ && given_) return absl::DataLossError("no state");
        return SoloCommander::SaveState(writer);
      }

     private:
      const bool* const fails_;
      bool given_ = false;
    };
    const auto solo = SoloCommander::Create(commander_, nullptr, deps_).value();
    return std::make_unique<Failing>(*solo, &fails_);
  }

  bool fails_ = true;
};
INSTANTIATE_TEST_SUITE_P(Journal, FailingCommanderTest,
                         testing::Values(JournalMedium::kFile, JournalMedium::kMem),
                         JournalMediumName);

TEST_P(FailingCommanderTest, EndsTheRun_ItsTaskIsNotInTheJournal) {
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::Minutes(1)),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("the commander cannot save its state: no state")));
  Kill();
  fails_ = false;
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
}

TEST_P(StoreRestartTest, KeepsTheDataOfARunThatIsToContinue) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  Publish();
  const auto rows = ExpectedRows();
  coordinator()->RequestEnd("interrupted");
  ASSERT_THAT(coordinator()->CloseJournal(), IsOk());
  coordinator()->KeepData();
  ASSERT_THAT(coordinator()->Close("over"), IsOk());
  life_.reset();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(rows));
  EXPECT_EQ(coordinator()->status().buffer(0).lost_count(), 0);
  ExpectBooksBalance();
  JoinAll();
  EXPECT_EQ(TaskOf(collectors_[0]).policy().version(), 1u);
}

// This happens to a Redis without a file: the rows of before are lost, and are counted as lost.
TEST_P(StoreRestartTest, ContinuesWithAStoreThatWasEmptied) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  ASSERT_THAT(store_.Clear(), IsOk());
  log_.records.clear();
  log_.lost = true;
  Push(&collectors_[0], 1, 4);
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  const auto rows = ExpectedRows();
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(rows.end() - 4, rows.end()));
  EXPECT_EQ(coordinator()->status().buffer(0).lost_count(), 6);
  ExpectBooksBalance();
}

}  // namespace
}  // namespace ding
