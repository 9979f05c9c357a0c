// A coordinator that dies at any moment, and one of the same journal that goes on.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/file_journal.h"
#include "ding_worker/coordinator/journal.h"
#include "ding_worker/coordinator/journal.pb.h"
#include "ding_worker/coordinator/solo_commander.h"
#include "ding_worker/coordinator/store_journal.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/removed_items.h"
#include "ding_worker/replay_buffer/testing/test_items.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

constexpr int64_t kCapacity = 40;
constexpr int kCollectors = 2;

// Answers that matter to a worker.
class LastMessages : public CoordinatorSender {
 public:
  void Send(uint32_t worker, const CoordinatorMessage& message) override {
    if (message.has_start_task()) tasks[worker] = message.start_task();
    if (message.has_collector_data_ack()) acks[worker] = message.collector_data_ack().sequence();
    if (message.has_end_run()) ended.insert(worker);
  }
  std::map<uint32_t, StartTask> tasks;
  std::map<uint32_t, uint64_t> acks;
  std::set<uint32_t> ended;  // who was told to leave
};

// A store as a process sees it, which changes nothing in it any more when it is dead.
class MortalStore : public Store {
 public:
  explicit MortalStore(Store* store) : store_(store) {}
  void Die() { dead_ = true; }

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override {
    return dead_ ? Dead() : store_->Put(key, pieces);
  }
  absl::Status Get(absl::string_view key, std::string* value) override {
    return dead_ ? Dead() : store_->Get(key, value);
  }
  absl::Status Delete(absl::string_view key) override {
    return dead_ ? Dead() : store_->Delete(key);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override {
    return store_->List(prefix);
  }
  absl::Status Clear() override { return store_->Clear(); }
  const std::string& url() const override { return store_->url(); }

 private:
  static absl::Status Dead() { return absl::UnavailableError("the process is dead"); }
  Store* const store_;
  std::atomic<bool> dead_{false};
};

// One coordinator process.
struct Life {
  explicit Life(Store* all) : store(all) {}

  // Outlive the coordinator.
  MortalStore store;
  std::unique_ptr<Journal> journal;
  LastMessages sender;
  IBuffer* buffer = nullptr;
  std::unique_ptr<Coordinator> coordinator;
};

struct Worker {
  uint32_t number = 0;
  uint64_t sequence = 0;  // of data, or demands
  uint32_t chunks = 0;
  int64_t steps = 0;  // of the task
};

enum class In { kFile, kStore };

class RestartTest : public testing::TestWithParam<In> {
 protected:
  RestartTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/restart_XXXXXX");
    folder_ = mkdtemp(folder.data());
    file_.path = JoinPath(folder_, "journal");
    options_.run = "run-7";
    options_.collectors = kCollectors;
    commander_.collector_task_space = kCollectors;
    commander_.eval_interval = 1e6;
    commander_.stop_value = 100;
  }
  ~RestartTest() override {
    life_.reset();
    RemoveRecursively(folder_).IgnoreError();
  }

  absl::StatusOr<std::unique_ptr<Journal>> OpenJournal(Store* store) {
    constexpr int64_t kMinBytes = 4096;
    if (GetParam() == In::kFile) return FileJournal::Open({file_.path, kMinBytes});
    // Among the data, as in a run.
    StoreJournal::Options options;
    options.store = store;
    options.min_compaction_bytes = kMinBytes;
    options.entry_bytes = 1000;
    return StoreJournal::Open(options);
  }
  // As it lies there: contents by name.
  std::map<std::string, std::string> SaveJournal() {
    std::map<std::string, std::string> saved;
    if (GetParam() == In::kFile) {
      saved[file_.path] = ReadFile(file_.path).value();
      return saved;
    }
    const std::vector<std::string> keys = store_.List(kJournalPrefix).value();
    for (const std::string& key : keys) EXPECT_THAT(store_.Get(key, &saved[key]), IsOk());
    return saved;
  }
  void SetJournal(const std::map<std::string, std::string>& saved) {
    if (GetParam() == In::kFile) {
      ASSERT_THAT(WriteFileAtomically(file_.path, saved.at(file_.path)), IsOk());
      return;
    }
    const std::vector<std::string> keys = store_.List(kJournalPrefix).value();
    for (const std::string& key : keys) ASSERT_THAT(store_.Delete(key), IsOk());
    for (const auto& [key, value] : saved) {
      ASSERT_THAT(store_.Put(key, {absl::string_view(value)}), IsOk());
    }
  }

  absl::Status Begin() {
    life_ = std::make_unique<Life>(&store_);
    DING_ASSIGN_OR_RETURN(life_->journal, OpenJournal(&life_->store));
    Coordinator::Parts parts;
    parts.commander = SoloCommander::Create(commander_, nullptr, {}).value();
    parts.make_buffer = [this](const std::string&, OnRemoved on_removed) {
      NaiveReplayBuffer::Options options;
      options.capacity_rows = kCapacity;
      options.on_removed = std::move(on_removed);
      auto buffer = NaiveReplayBuffer::Create(options);
      life_->buffer = buffer->get();
      return buffer;
    };
    parts.delete_key = [store = &life_->store](const std::string& key) {
      return store->Delete(key);
    };
    parts.list_keys = [this](const std::string& prefix) { return store_.List(prefix); };
    parts.sender = &life_->sender;
    parts.journal = life_->journal.get();
    DING_ASSIGN_OR_RETURN(life_->coordinator, Coordinator::Create(options_, std::move(parts), {}));
    life_->coordinator->Start();
    return absl::OkStatus();
  }
  // As SIGKILL does: what it would do or write at its end does not happen.
  void Kill() {
    life_->store.Die();
    if (GetParam() == In::kStore) {
      life_.reset();
      return;
    }
    const std::map<std::string, std::string> journal = SaveJournal();
    life_.reset();
    SetJournal(journal);
  }
  Coordinator* coordinator() { return life_->coordinator.get(); }

  void Join(Hello::Role role, const std::string& name, Worker* worker, int64_t pid = 77) {
    Hello hello;
    hello.set_pid(pid);
    hello.set_role(role);
    hello.set_name(name);
    hello.mutable_resources()->set_cpus(1);
    if (worker->number > 0) {
      hello.set_previous_worker(worker->number);
      hello.set_previous_incarnation(coordinator()->incarnation() - 1);
    }
    DING_ASSERT_OK_AND_ASSIGN(const uint32_t number, coordinator()->Admit(hello));
    EXPECT_TRUE(numbers_.insert(number).second) << number << " was given before";
    *worker = Worker();
    worker->number = number;
    coordinator()->WorkerJoined(number, hello, "peer");
  }
  // All of them, and the learner has started.
  void JoinAll(int64_t pid = 77) {
    Join(Hello::LEARNER, "learner-0", &learner_, pid);
    ASSERT_EQ(life_->sender.tasks.count(learner_.number), 1u);
    WorkerMessage started;
    started.mutable_task_started()->set_task_id(LearnTask().task_id());
    Handle(learner_, started);
    for (int i = 0; i < kCollectors; ++i) {
      Join(Hello::COLLECTOR, absl::StrCat("collector-", i), &collectors_[i], pid);
    }
  }
  const LearnerTask& LearnTask() { return life_->sender.tasks[learner_.number].learner(); }
  const CollectorTask& TaskOf(const Worker& worker) {
    return life_->sender.tasks[worker.number].collector();
  }
  void Handle(const Worker& worker, const WorkerMessage& message) {
    EXPECT_THAT(coordinator()->Handle(worker.number, message), IsOk());
  }

  int64_t StoreChunk(Worker* worker) {
    const int64_t chunk = ChunkNumber(worker->number, worker->chunks++);
    EXPECT_THAT(store_.Put(ChunkKey(chunk), {"rows"}), IsOk());
    return chunk;
  }
  void Push(Worker* worker, int chunks, int64_t items) {
    const CollectorTask task = TaskOf(*worker);
    ASSERT_FALSE(task.eval_flag());
    std::vector<Item> all;
    for (int i = 0; i < chunks; ++i) {
      const int64_t chunk = StoreChunk(worker);
      for (int64_t row = 0; row < items; ++row) all.push_back({chunk, row, 1});
    }
    worker->steps += static_cast<int64_t>(all.size());
    WorkerMessage message;
    message.mutable_collector_data()->set_task_id(task.task_id());
    message.mutable_collector_data()->set_sequence(++worker->sequence);
    message.mutable_collector_data()->set_items(EncodedBatch(TestItems(all).rows).ToString());
    message.mutable_collector_data()->mutable_progress()->set_cur_step(worker->steps);
    Handle(*worker, message);
    ASSERT_EQ(life_->sender.acks[worker->number], worker->sequence);
    acknowledged_.insert(acknowledged_.end(), all.begin(), all.end());
  }
  void Finish(Worker* worker, double mean_return = 1) {
    const CollectorTask task = TaskOf(*worker);
    WorkerMessage message;
    CollectorFinished* const info = message.mutable_collector_finished();
    info->set_task_id(task.task_id());
    info->set_eval_flag(task.eval_flag());
    info->set_collector_done(true);
    info->set_train_iter(coordinator()->status().train_iter());
    info->set_step_count(std::max<int64_t>(1, worker->steps));
    info->add_episode_return(mean_return);
    worker->steps = 0;
    Handle(*worker, message);
  }
  // A task that collects.
  void FinishEvaluations() {
    for (Worker& worker : collectors_) {
      if (TaskOf(worker).eval_flag()) Finish(&worker);
    }
  }
  void Demand() {
    WorkerMessage message;
    message.mutable_learner_demand()->set_task_id(LearnTask().task_id());
    message.mutable_learner_demand()->set_sequence(++learner_.sequence);
    message.mutable_learner_demand()->set_read(learner_.sequence - 1);
    message.mutable_learner_demand()->set_batch_size(1);
    message.mutable_learner_demand()->set_batches(1);
    Handle(learner_, message);
  }
  void Info(int64_t step) {
    WorkerMessage message;
    message.mutable_learner_info()->set_task_id(LearnTask().task_id());
    message.mutable_learner_info()->set_learner_step(step);
    Handle(learner_, message);
  }
  void Publish() {
    const std::string key = PolicyKey(LearnTask().policy_id(), ++newest_version_, learner_.number);
    EXPECT_THAT(store_.Put(key, {"parameters"}), IsOk());
    WorkerMessage message;
    message.mutable_policy_version()->set_policy_id(LearnTask().policy_id());
    message.mutable_policy_version()->set_version(newest_version_);
    message.mutable_policy_version()->set_key(key);
    Handle(learner_, message);
  }

  // What is in the buffer, oldest chunk first.
  std::vector<std::pair<int64_t, int64_t>> Rows() {
    std::vector<std::pair<int64_t, int64_t>> rows;
    if (life_->buffer == nullptr || life_->buffer->count() == 0) return rows;
    const Batch batch = life_->buffer->Sample(life_->buffer->count(), 0).value();
    for (int64_t i = 0; i < batch.rows(); ++i) {
      rows.emplace_back(batch.column<int64_t>(kColumnChunk)[static_cast<size_t>(i)],
                        batch.column<int64_t>("row")[static_cast<size_t>(i)]);
    }
    return rows;
  }
  // The newest that were acknowledged, as many as the buffer holds.
  std::vector<std::pair<int64_t, int64_t>> ExpectedRows() const {
    std::vector<std::pair<int64_t, int64_t>> rows;
    const size_t kept = std::min<size_t>(acknowledged_.size(), kCapacity);
    for (size_t i = acknowledged_.size() - kept; i < acknowledged_.size(); ++i) {
      rows.emplace_back(acknowledged_[i].chunk, acknowledged_[i].row);
    }
    return rows;
  }
  // The data of these rows, and nothing else, is in the store, soon.
  void ExpectDataOf(const std::vector<std::pair<int64_t, int64_t>>& rows) {
    std::set<std::string> expected;
    for (const auto& [chunk, row] : rows) expected.insert(ChunkKey(chunk));
    std::vector<std::string> found;
    for (int i = 0; i < 5000; ++i) {
      found = store_.List("data/").value();
      if (found.size() == expected.size()) break;
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_THAT(found, UnorderedElementsAreArray(expected));
  }
  void ExpectBooksBalance() {
    const RunStatus status = coordinator()->status();
    ASSERT_EQ(status.buffer_size(), 1);
    const BufferStatus& buffer = status.buffer(0);
    EXPECT_EQ(buffer.push_count(), static_cast<int64_t>(acknowledged_.size()));
    EXPECT_EQ(buffer.count() + buffer.removed_count() + buffer.lost_count(), buffer.push_count());
    EXPECT_EQ(coordinator()->counters().rows_acknowledged, buffer.push_count());
  }

  std::string folder_;
  FileJournal::Options file_;
  Coordinator::Options options_;
  SoloCommander::Options commander_;
  MemStore store_{"restart_test"};
  std::unique_ptr<Life> life_;
  std::set<uint32_t> numbers_;
  Worker learner_;
  Worker collectors_[kCollectors];
  std::vector<Item> acknowledged_;
  uint64_t newest_version_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Journal, RestartTest, testing::Values(In::kFile, In::kStore),
                         [](const auto& info) {
                           return info.param == In::kFile ? "InFile" : "InStore";
                         });

TEST_P(RestartTest, ContinuesAfterBeingKilled) {
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_EQ(coordinator()->incarnation(), 1);
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  Publish();
  Info(70);
  const std::string task_id = LearnTask().task_id();
  StoreChunk(&collectors_[0]);  // which it could not announce any more
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

TEST_P(RestartTest, ALostEvaluationIsGivenAgain) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  ASSERT_TRUE(TaskOf(collectors_[0]).eval_flag());
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  // It is not due so soon again, but it never blocks: the next one is by the clock.
  Push(TaskOf(collectors_[0]).eval_flag() ? &collectors_[1] : &collectors_[0], 1, 1);
}

TEST_P(RestartTest, DropsRowsWhoseDataAreLost) {
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
  std::vector<std::pair<int64_t, int64_t>> expected = ExpectedRows();
  expected.erase(std::remove_if(expected.begin(), expected.end(),
                                [gone](const auto& row) { return row.first == gone; }),
                 expected.end());
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(expected));
  EXPECT_EQ(coordinator()->status().buffer(0).lost_count(), 4);
  ExpectBooksBalance();
  JoinAll();
  EXPECT_FALSE(TaskOf(collectors_[0]).has_policy()) << "it is gone, too";
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_EQ(coordinator()->status().buffer(0).lost_count(), 4) << "counted once";
  ExpectBooksBalance();
}

TEST_P(RestartTest, ARunThatHadConvergedEndsAtOnce) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  Info(5);
  Finish(&collectors_[0], 1000);
  Finish(&collectors_[1]);        // what it collected, ...
  Finish(&collectors_[1], 1000);  // ... and the same evaluation
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()), IsOk());
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()), IsOk());
  EXPECT_TRUE(coordinator()->status().converged());
}

// The evaluation that waits for a witness is lost with the coordinator, and gives its place back.
TEST_P(RestartTest, ADoubtedEvaluationIsLostInARestart) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  Info(5);
  Finish(&collectors_[0], 1000);
  Finish(&collectors_[1]);
  EXPECT_TRUE(TaskOf(collectors_[1]).eval_flag()) << "it is the witness";
  EXPECT_FALSE(coordinator()->status().has_eval_value());
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  EXPECT_FALSE(coordinator()->status().has_eval_value());
  JoinAll();
  for (Worker& collector : collectors_) Push(&collector, 1, 1);
}

// What the learner could not learn from is not there again.
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

TEST_P(RestartTest, ACollectorIsStillDrainedAfterARestart) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  OperatorRequest request;
  request.set_drain("collector-0");
  ASSERT_EQ(coordinator()->Operate(request).code(), 0);
  EXPECT_EQ(life_->sender.ended.count(collectors_[0].number), 0u) << "it has a task";
  // Also when it has not come back before the next death.
  for (int deaths = 0; deaths < 2; ++deaths) {
    Kill();
    ASSERT_THAT(Begin(), IsOk());
  }
  JoinAll();
  EXPECT_EQ(life_->sender.ended, std::set<uint32_t>{collectors_[0].number});
  EXPECT_EQ(life_->sender.tasks.count(collectors_[0].number), 0u);
  EXPECT_EQ(life_->sender.tasks.count(collectors_[1].number), 1u);
  coordinator()->WorkerLost(collectors_[0].number, absl::AbortedError("leaves"));
  EXPECT_EQ(coordinator()->status().workers_lost(), 0) << "it was sent away";
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  EXPECT_THAT(life_->sender.ended, IsEmpty()) << "that one has left";
}

// The same name, another process: it was started because it is wanted.
TEST_P(RestartTest, ANewProcessWithADrainedNameIsNotDrained) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  OperatorRequest request;
  request.set_drain("collector-0");
  ASSERT_EQ(coordinator()->Operate(request).code(), 0);
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  JoinAll(/*pid=*/78);
  EXPECT_THAT(life_->sender.ended, IsEmpty());
  EXPECT_EQ(life_->sender.tasks.count(collectors_[0].number), 1u);
}

TEST_P(RestartTest, AStoppedRunEndsAfterARestart) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  OperatorRequest request;
  request.set_stop(true);
  ASSERT_EQ(coordinator()->Operate(request).code(), 0);
  for (int deaths = 0; deaths < 2; ++deaths) {
    Kill();
    ASSERT_THAT(Begin(), IsOk());
    EXPECT_THAT(coordinator()->WaitUntilDone(absl::ZeroDuration()), IsOk());
  }
  EXPECT_THAT(coordinator()->Operate(request).message(), HasSubstr("an operator has stopped it"));
  // Until somebody wants it to go on, from which its coordinators know it.
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

TEST_P(RestartTest, AfterAnOrderlyEndRestoredDataAreUsed) {
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
  EXPECT_THAT(coordinator()->Admit(hello),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another process has taken its place")));
  coordinator()->WorkerLost(collectors_[0].number, absl::UnavailableError("the link is cut"));
  EXPECT_TRUE(coordinator()->Admit(hello).ok()) << "nobody has";
}

TEST_P(RestartTest, ADamagedJournalIsRefused) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  Kill();
  std::map<std::string, std::string> journal = SaveJournal();
  if (GetParam() == In::kFile) {
    std::string& bytes = journal.at(file_.path);
    bytes[40] = static_cast<char>(bytes[40] ^ 1);
  } else {
    journal.erase(journal.begin());
  }
  SetJournal(journal);
  EXPECT_THAT(Begin(), StatusIs(absl::StatusCode::kDataLoss,
                                AnyOf(HasSubstr("is damaged"), HasSubstr("the store has lost"))));
}

TEST_P(RestartTest, AStartThatFailsChangesNothing) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  Kill();
  const auto records = [this] {
    std::vector<std::string> found;
    EXPECT_THAT(OpenJournal(&store_).value()->Read([&found](const JournalRecord& record) {
      found.push_back(record.SerializeAsString());
      return absl::OkStatus();
    }),
                IsOk());
    return found;
  };
  JournalRecord damaged;
  damaged.set_commander("not a state");
  ASSERT_THAT(OpenJournal(&store_).value()->Append({damaged}), IsOk());
  const std::vector<std::string> before = records();
  const std::vector<std::string> data = store_.List("data/").value();
  ASSERT_FALSE(data.empty());
  EXPECT_THAT(Begin(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("going on with the run")));
  life_.reset();
  EXPECT_EQ(records(), before);
  EXPECT_EQ(store_.List("data/").value(), data);
}

class StoreRestartTest : public RestartTest {};
INSTANTIATE_TEST_SUITE_P(Store, StoreRestartTest, testing::Values(In::kStore));

// It hung, another one was started, and it wakes.
TEST_P(StoreRestartTest, AReplacedCoordinatorEndsAndDeletesNothing) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  const std::vector<std::string> data = store_.List("data/").value();
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Journal> next, OpenJournal(&store_));
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
  EXPECT_THAT(next->Append({}), IsOk()) << "it is that one's still";
}

TEST_P(StoreRestartTest, KeepsTheDataForAResumedRun) {
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

// As Redis without a file: rows that were acknowledged before are lost, and counted.
TEST_P(StoreRestartTest, ContinuesWithAnEmptiedStore) {
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  FinishEvaluations();
  Push(&collectors_[0], 2, 3);
  ASSERT_THAT(store_.Clear(), IsOk());
  Push(&collectors_[0], 1, 4);
  Kill();
  ASSERT_THAT(Begin(), IsOk());
  const auto rows = ExpectedRows();
  EXPECT_THAT(Rows(), UnorderedElementsAreArray(rows.end() - 4, rows.end()));
  EXPECT_EQ(coordinator()->status().buffer(0).lost_count(), 6);
  ExpectBooksBalance();
}

// Killed at random moments of a random sequence of messages, it holds what the naive model says: the
// newest rows of all that were acknowledged.
TEST_P(RestartTest, EqualsTheModelAfterEveryKill) {
  const uint64_t seed = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Rng rng(seed, "restart");
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  int64_t step = 0;
  for (int i = 0; i < 1500; ++i) {
    FinishEvaluations();
    Worker* const collector = &collectors_[rng.UniformInt(kCollectors)];
    switch (rng.UniformInt(12)) {
      case 0:
        Publish();
        break;
      case 1:
        Info(++step);
        break;
      case 2:
        if (!acknowledged_.empty()) Demand();
        break;
      case 3:
        Finish(collector);
        break;
      case 4:
        coordinator()->WorkerLost(collector->number, absl::UnavailableError("it was killed"));
        collector->number = 0;
        Join(Hello::COLLECTOR, "collector-x", collector);
        break;
      case 5:
        if (rng.UniformInt(4) > 0) break;
        if (rng.UniformInt(2) == 0) StoreChunk(collector);
        Kill();
        ASSERT_THAT(Begin(), IsOk());
        ASSERT_THAT(Rows(), UnorderedElementsAreArray(ExpectedRows())) << "after step " << i;
        EXPECT_EQ(coordinator()->status().train_iter(), step);
        EXPECT_EQ(coordinator()->status().policy_version(), newest_version_);
        if (!acknowledged_.empty()) ExpectBooksBalance();
        JoinAll();
        ExpectDataOf(ExpectedRows());
        break;
      default:
        Push(collector, 1 + static_cast<int>(rng.UniformInt(2)),
             1 + static_cast<int64_t>(rng.UniformInt(6)));
    }
    ASSERT_FALSE(HasFailure()) << "step " << i;
  }
  EXPECT_GT(life_->journal->size_bytes(), 0);
  EXPECT_LT(life_->journal->size_bytes(), 1 << 20) << "it is compacted";
}

}  // namespace
}  // namespace ding
