// A test fixture with a coordinator that the test kills at any moment, and starts again from the
// same journal, so that the run goes on. The test plays the workers: it sends their messages, and
// keeps a model of the rows that the coordinator has acknowledged.
//
// Ownership: the fixture owns the coordinator, its journal and its store. The store and the
//            journal's bytes outlive each coordinator.
// Threads:   the fixture belongs to the thread of the test.
#ifndef DING_WORKER_COORDINATOR_TESTING_RESTART_FIXTURE_H_
#define DING_WORKER_COORDINATOR_TESTING_RESTART_FIXTURE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/testing/mem_log.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gtest/gtest.h"

namespace ding {

// Keeps the newest message of each kind to which a worker would react.
class NewestMessages : public CoordinatorSender {
 public:
  void Send(uint32_t worker, const CoordinatorMessage& message) override;

  std::map<uint32_t, StartTask> tasks;
  std::map<uint32_t, uint64_t> acks;
  std::set<uint32_t> ended;  // workers that were told to leave
  OperatorReply reply;
};

// A store as one process sees it. Once that process is dead, it changes nothing in `store` any
// more, which must outlive it.
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
struct CoordinatorLife {
  explicit CoordinatorLife(Store* all) : store(all) {}

  // The coordinator uses these, so they are destroyed after it.
  MortalStore store;
  std::unique_ptr<Journal> journal;
  NewestMessages sender;
  IBuffer* buffer = nullptr;  // null until the learner has a task
  std::unique_ptr<Coordinator> coordinator;
};

// The state of one of the workers that the test plays.
struct PlayedWorker {
  uint32_t number = 0;    // 0: it has not joined yet
  uint64_t sequence = 0;  // of its last data or demand
  uint32_t chunks = 0;    // how many it has stored
  int64_t steps = 0;      // of its task
};

// Where the journal is: in a file, or in a log that may lose records, as Redis does.
enum class JournalMedium { kFile, kMem };
// Returns "InFile" or "InMemory", for the names of tests.
std::string JournalMediumName(const testing::TestParamInfo<JournalMedium>& info);

// A row of the buffer: its chunk, and its number within the chunk.
using ChunkRow = std::pair<int64_t, int64_t>;

// A run with one learner, kCollectors collectors and one buffer of kCapacity rows. A test begins
// with Begin() and JoinAll(), and may then alternate between messages of workers and
// Kill(), Begin(), JoinAll().
class RestartTest : public testing::TestWithParam<JournalMedium> {
 protected:
  static constexpr int64_t kCapacity = 40;
  static constexpr int kCollectors = 2;

  RestartTest();
  ~RestartTest() override;

  // The content of a journal.
  struct SavedJournal {
    std::map<std::string, std::string> files;  // contents by name
    MemLogData log;
  };

  absl::StatusOr<std::unique_ptr<Journal>> OpenJournal();
  SavedJournal SaveJournal();
  void SetJournal(const SavedJournal& saved);

  virtual std::unique_ptr<BaseCommander> MakeCommander();
  // Starts a coordinator, which continues the run of the journal, if there is one.
  absl::Status Begin();
  // Ends the coordinator as SIGKILL does: it does and writes nothing at its end.
  void Kill();
  Coordinator* coordinator() { return life_->coordinator.get(); }

  // Lets `worker` join; if it has a number, as a worker of the coordinator before this one.
  void Join(Hello::Role role, const std::string& name, PlayedWorker* worker, int64_t pid = 77);
  // Lets all workers join, and the learner start its task.
  void JoinAll(int64_t pid = 77);
  const LearnerTask& LearnTask() { return life_->sender.tasks[learner_.number].learner(); }
  const CollectorTask& TaskOf(const PlayedWorker& worker) {
    return life_->sender.tasks[worker.number].collector();
  }
  OperatorReply Operate(const OperatorRequest& request);
  // Sends a message of the worker, which must be valid.
  void Handle(const PlayedWorker& worker, const WorkerMessage& message);

  // Puts the next chunk of the worker into the store, without announcing it. Returns its number.
  int64_t StoreChunk(PlayedWorker* worker);
  // Lets the worker, which has a task that collects, push `chunks` new chunks of `items` items
  // each, which are rows unless options_.sequences says otherwise.
  void Push(PlayedWorker* worker, int chunks, int64_t items);
  // Lets the worker finish its task.
  void Finish(PlayedWorker* worker, double mean_return = 1);
  // Lets the collectors whose task is an evaluation finish it, so that all have tasks that collect.
  void FinishEvaluations();
  // Lets the learner ask for a batch of one row, having read all batches before.
  void Demand();
  // Lets the learner report its iteration.
  void Info(int64_t step);
  // Lets the learner publish the next version of its policy.
  void Publish();

  // Returns the rows in the buffer, oldest chunk first.
  std::vector<ChunkRow> Rows();
  // Returns the rows that the model expects in the buffer: the newest acknowledged rows, up to the
  // buffer's capacity.
  std::vector<ChunkRow> ExpectedRows() const;
  // Expects that the store soon has the data of these rows and no others.
  void ExpectDataOf(const std::vector<ChunkRow>& rows);
  // Expects that each acknowledged row is in the buffer, removed or lost.
  void ExpectBooksBalance();

  std::string folder_;
  std::string path_;  // of the journal
  MemLogData log_;
  Coordinator::Options options_;
  SoloCommander::Options commander_;
  ComponentDeps deps_;
  MemStore store_{"restart_test"};
  std::unique_ptr<CoordinatorLife> life_;
  std::set<uint32_t> numbers_;  // that workers were given
  PlayedWorker learner_;
  PlayedWorker collectors_[kCollectors];
  std::vector<Item> acknowledged_;  // rows, in the order in which they were pushed
  uint64_t newest_version_ = 0;     // of the policy
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TESTING_RESTART_FIXTURE_H_
