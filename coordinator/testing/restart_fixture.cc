#include "ding_worker/coordinator/testing/restart_fixture.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "gmock/gmock.h"

namespace ding {

using testing::UnorderedElementsAreArray;

void NewestMessages::Send(uint32_t worker, const CoordinatorMessage& message) {
  if (message.has_operator_reply()) reply = message.operator_reply();
  if (message.has_start_task()) tasks[worker] = message.start_task();
  if (message.has_collector_data_ack()) acks[worker] = message.collector_data_ack().sequence();
  if (message.has_end_run()) ended.insert(worker);
}

std::string JournalMediumName(const testing::TestParamInfo<JournalMedium>& info) {
  return info.param == JournalMedium::kFile ? "InFile" : "InMemory";
}

RestartTest::RestartTest() {
  std::string folder = absl::StrCat(testing::TempDir(), "/restart_XXXXXX");
  folder_ = mkdtemp(folder.data());
  path_ = JoinPath(folder_, "journal");
  options_.run = "run-7";
  options_.collectors = kCollectors;
  commander_.collector_task_space = kCollectors;
  commander_.eval_interval = 1e6;
  commander_.stop_value = 100;
}

RestartTest::~RestartTest() {
  life_.reset();
  RemoveRecursively(folder_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<Journal>> RestartTest::OpenJournal() {
  if (GetParam() == JournalMedium::kMem) return Journal::Open(std::make_unique<MemLog>(&log_));
  LogOptions options;
  options.run = options_.run;
  options.sync = LogSync::kNone;
  DING_ASSIGN_OR_RETURN(std::unique_ptr<SqliteLog> log, SqliteLog::Open(path_, options));
  return Journal::Open(std::move(log));
}

RestartTest::SavedJournal RestartTest::SaveJournal() {
  SavedJournal saved;
  saved.log = log_;
  for (const std::string& path : {path_, absl::StrCat(path_, "-wal")}) {
    if (PathExists(path)) saved.files[path] = ReadFile(path).value();
  }
  return saved;
}

void RestartTest::SetJournal(const SavedJournal& saved) {
  log_ = saved.log;
  EXPECT_THAT(RemoveFile(absl::StrCat(path_, "-wal")), IsOk());
  for (const auto& [path, content] : saved.files) OverwriteFile(path, content);
}

std::unique_ptr<BaseCommander> RestartTest::MakeCommander() {
  return SoloCommander::Create(commander_, nullptr, deps_).value();
}

absl::Status RestartTest::Begin() {
  life_ = std::make_unique<CoordinatorLife>(&store_);
  DING_ASSIGN_OR_RETURN(life_->journal, OpenJournal());
  Coordinator::Parts parts;
  parts.commander = MakeCommander();
  parts.make_buffer = [this](const std::string&, absl::Span<const std::string> /*settings*/,
                             OnRemoved on_removed) {
    NaiveReplayBuffer::Options options;
    options.capacity_rows = kCapacity;
    options.on_removed = std::move(on_removed);
    auto buffer = NaiveReplayBuffer::Create(options);
    life_->buffer = buffer->get();
    return buffer;
  };
  parts.delete_key = [store = &life_->store](const std::string& key) { return store->Delete(key); };
  parts.list_keys = [this](const std::string& prefix) { return store_.List(prefix); };
  parts.sender = &life_->sender;
  parts.journal = life_->journal.get();
  DING_ASSIGN_OR_RETURN(life_->coordinator, Coordinator::Create(options_, std::move(parts), deps_));
  life_->coordinator->Start();
  return absl::OkStatus();
}

void RestartTest::Kill() {
  life_->store.Die();
  const SavedJournal journal = SaveJournal();
  life_.reset();
  SetJournal(journal);
}

void RestartTest::Join(Hello::Role role, const std::string& name, PlayedWorker* worker,
                       int64_t pid) {
  Hello hello;
  hello.set_pid(pid);
  hello.set_role(role);
  hello.set_name(name);
  hello.mutable_resources()->set_cpus(1);
  if (worker->number > 0) {
    hello.set_previous_worker(worker->number);
    hello.set_previous_incarnation(coordinator()->incarnation() - 1);
  }
  DING_ASSERT_OK_AND_ASSIGN(const uint32_t number, AdmitNow(coordinator(), hello));
  EXPECT_TRUE(numbers_.insert(number).second) << number << " was given before";
  *worker = PlayedWorker();
  worker->number = number;
  coordinator()->WorkerJoined(number, hello, "peer");
  Settle(*coordinator());
}

void RestartTest::JoinAll(int64_t pid) {
  Join(Hello::LEARNER, "learner-0", &learner_, pid);
  ASSERT_EQ(life_->sender.tasks.count(learner_.number), 1u);
  WorkerMessage started;
  started.mutable_task_started()->set_task_id(LearnTask().task_id());
  Handle(learner_, started);
  for (int i = 0; i < kCollectors; ++i) {
    Join(Hello::COLLECTOR, absl::StrCat("collector-", i), &collectors_[i], pid);
  }
}

OperatorReply RestartTest::Operate(const OperatorRequest& request) {
  constexpr uint32_t kOperator = 100000;
  WorkerMessage message;
  *message.mutable_operator_request() = request;
  EXPECT_THAT(HandleNow(coordinator(), kOperator, message), IsOk());
  return life_->sender.reply;
}

void RestartTest::Handle(const PlayedWorker& worker, const WorkerMessage& message) {
  EXPECT_THAT(HandleNow(coordinator(), worker.number, message), IsOk());
}

int64_t RestartTest::StoreChunk(PlayedWorker* worker) {
  const int64_t chunk = ChunkNumber(worker->number, worker->chunks++);
  EXPECT_THAT(store_.Put(ChunkKey(chunk), {"rows"}), IsOk());
  return chunk;
}

void RestartTest::Push(PlayedWorker* worker, int chunks, int64_t items) {
  const CollectorTask task = TaskOf(*worker);
  ASSERT_FALSE(task.eval_flag());
  std::vector<Item> all;
  for (int i = 0; i < chunks; ++i) {
    const int64_t chunk = StoreChunk(worker);
    for (int64_t item = 0; item < items; ++item) {
      all.push_back({chunk, item * options_.sequences.period(), options_.sequences.length});
    }
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

void RestartTest::Finish(PlayedWorker* worker, double mean_return) {
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

void RestartTest::FinishEvaluations() {
  for (PlayedWorker& worker : collectors_) {
    if (TaskOf(worker).eval_flag()) Finish(&worker);
  }
}

void RestartTest::Demand() {
  WorkerMessage message;
  message.mutable_learner_demand()->set_task_id(LearnTask().task_id());
  message.mutable_learner_demand()->set_sequence(++learner_.sequence);
  message.mutable_learner_demand()->set_read(learner_.sequence - 1);
  message.mutable_learner_demand()->set_batch_size(1);
  message.mutable_learner_demand()->set_batches(1);
  Handle(learner_, message);
}

void RestartTest::Info(int64_t step) {
  WorkerMessage message;
  message.mutable_learner_info()->set_task_id(LearnTask().task_id());
  message.mutable_learner_info()->set_learner_step(step);
  Handle(learner_, message);
}

void RestartTest::Publish() {
  const std::string key = PolicyKey(LearnTask().policy_id(), ++newest_version_, learner_.number);
  EXPECT_THAT(store_.Put(key, {"parameters"}), IsOk());
  WorkerMessage message;
  message.mutable_policy_version()->set_policy_id(LearnTask().policy_id());
  message.mutable_policy_version()->set_version(newest_version_);
  message.mutable_policy_version()->set_key(key);
  Handle(learner_, message);
}

std::vector<ChunkRow> RestartTest::Rows() {
  std::vector<ChunkRow> rows;
  if (life_->buffer == nullptr || life_->buffer->count() == 0) return rows;
  const Batch batch = life_->buffer->Sample(life_->buffer->count(), 0).value();
  for (int64_t i = 0; i < batch.rows(); ++i) {
    rows.emplace_back(batch.column<int64_t>(kColumnChunk)[static_cast<size_t>(i)],
                      batch.column<int64_t>("row")[static_cast<size_t>(i)]);
  }
  return rows;
}

std::vector<ChunkRow> RestartTest::ExpectedRows() const {
  std::vector<ChunkRow> rows;
  const size_t kept = std::min<size_t>(acknowledged_.size(), kCapacity);
  for (size_t i = acknowledged_.size() - kept; i < acknowledged_.size(); ++i) {
    rows.emplace_back(acknowledged_[i].chunk, acknowledged_[i].row);
  }
  return rows;
}

void RestartTest::ExpectDataOf(const std::vector<ChunkRow>& rows) {
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

void RestartTest::ExpectBooksBalance() {
  const RunStatus status = coordinator()->status();
  ASSERT_EQ(status.buffer_size(), 1);
  const BufferStatus& buffer = status.buffer(0);
  EXPECT_EQ(buffer.push_count(), static_cast<int64_t>(acknowledged_.size()));
  EXPECT_EQ(buffer.count() + buffer.removed_count() + buffer.lost_count(), buffer.push_count());
  EXPECT_EQ(coordinator()->counters().rows_acknowledged, buffer.push_count());
}

}  // namespace ding
