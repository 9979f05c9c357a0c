// Closes a coordinator and its end of the connections, from several threads, while workers come,
// work and go on many others, and checks what holds afterwards.

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kAddress[] = "run";
// A timeout that only a broken program reaches.
constexpr absl::Duration kLong = absl::Minutes(1);
// Sessions close at the same time, each within two seconds; the rest is for a busy machine.
constexpr absl::Duration kCloseDeadline = absl::Seconds(30);
constexpr int kWorkers = 8;
constexpr int kClosers = 3;
constexpr char kTooLate[] = "sent after Close()";

// The keys of a store, without values.
class KeyStore {
 public:
  void Put(const std::string& key) {
    MutexLock lock(&mutex_);
    keys_.insert(key);
  }
  absl::Status Delete(const std::string& key) {
    MutexLock lock(&mutex_);
    keys_.erase(key);
    return absl::OkStatus();
  }
  bool Has(const std::string& key) const {
    MutexLock lock(&mutex_);
    return keys_.count(key) > 0;
  }

 private:
  mutable Mutex mutex_;
  std::set<std::string> keys_ ABSL_GUARDED_BY(mutex_);
};

// Passes all calls on to a coordinator, and notes them.
class NotingHandler : public WorkerHandler {
 public:
  explicit NotingHandler(Coordinator* coordinator) : coordinator_(coordinator) {}

  void Admit(const Hello& hello, Admitted admitted) override {
    ++calls_;
    coordinator_->Admit(hello, std::move(admitted));
  }
  void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) override {
    ++calls_;
    coordinator_->WorkerJoined(worker, hello, peer);
    MutexLock lock(&mutex_);
    EXPECT_TRUE(here_.insert(worker).second) << worker << " joins twice";
  }
  void WorkerLost(uint32_t worker, const absl::Status& why) override {
    ++calls_;
    coordinator_->WorkerLost(worker, why);
    MutexLock lock(&mutex_);
    EXPECT_EQ(here_.erase(worker), 1u) << worker << " is lost without having joined";
  }
  void Handle(uint32_t worker, WorkerMessage message, Done done) override {
    ++calls_;
    std::string key = message.policy_version().key();
    if (message.has_collector_data()) {
      const auto sequence = static_cast<uint32_t>(message.collector_data().sequence());
      key = ChunkKey(ChunkNumber(worker, sequence));
    }
    coordinator_->Handle(worker, std::move(message),
                         [this, key, done = std::move(done)](const absl::Status& status) {
                           EXPECT_THAT(status, IsOk()) << key;
                           if (!key.empty()) {
                             MutexLock lock(&mutex_);
                             accepted_.push_back(key);
                           }
                           done(status);
                         });
  }

  int64_t calls() const { return calls_.load(); }
  std::set<uint32_t> here() const {
    MutexLock lock(&mutex_);
    return here_;
  }
  // The keys of the data that were announced to the coordinator and that it has not refused.
  std::vector<std::string> accepted() const {
    MutexLock lock(&mutex_);
    return accepted_;
  }

 private:
  Coordinator* const coordinator_;
  std::atomic<int64_t> calls_{0};
  mutable Mutex mutex_;
  std::set<uint32_t> here_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> accepted_ ABSL_GUARDED_BY(mutex_);
};

class CloseTest : public testing::Test {
 protected:
  void Start() {
    CommCoordinator::Options options;
    options.address = kAddress;
    options.welcome.set_lease_seconds(60);
    comm_ = CommCoordinator::Create(options, &transport_).value();
    SoloCommander::Options commander;
    commander.eval_interval = 1000;
    commander.stop_value = 100;
    Coordinator::Parts parts;
    parts.commander = SoloCommander::Create(commander, nullptr, ComponentDeps()).value();
    parts.make_buffer = [](const std::string& /*id*/, absl::Span<const std::string> /*settings*/,
                           OnRemoved on_removed) {
      NaiveReplayBuffer::Options buffer;
      buffer.capacity_rows = 20;
      buffer.on_removed = std::move(on_removed);
      return NaiveReplayBuffer::Create(buffer);
    };
    parts.delete_key = [this](const std::string& key) { return store_.Delete(key); };
    parts.sender = comm_.get();
    coordinator_ = Coordinator::Create({}, std::move(parts), ComponentDeps()).value();
    handler_ = std::make_unique<NotingHandler>(coordinator_.get());
    coordinator_->Start();
    ASSERT_THAT(comm_->Start(handler_.get()), IsOk());
  }

  absl::StatusOr<std::unique_ptr<WorkerSession>> Join(Hello::Role role, const std::string& name) {
    Hello hello = HelloOf(role);
    hello.set_name(name);
    WorkerSession::Options options;
    options.join_timeout = absl::Milliseconds(500);
    return WorkerSession::Join(&transport_, kAddress, hello, options);
  }

  // Joins and works, again and again, until the run is closed.
  void Work(Hello::Role role, int number, uint64_t seed) {
    Rng rng(seed, "close_test/worker", static_cast<uint64_t>(number));
    for (int round = 0; !closed_.load(); ++round) {
      const auto joined = Join(role, absl::StrCat("w", number, "-", round));
      if (joined.ok()) Serve(joined->get(), &rng);
    }
  }
  // Does what it is told until the session ends, or until it leaves by chance.
  void Serve(WorkerSession* session, Rng* rng) {
    const uint32_t worker = session->welcome().worker();
    uint32_t sequence = 0;
    while (true) {
      const absl::StatusOr<CoordinatorMessage> message = session->Receive(kLong);
      EXPECT_FALSE(absl::IsDeadlineExceeded(message.status())) << message.status();
      if (!message.ok() || message->has_end_run()) return;
      if (message->start_task().has_collector()) {
        Collect(message->start_task().collector(), worker, &sequence, session, rng);
      } else if (message->start_task().has_learner()) {
        Learn(message->start_task().learner(), worker, session);
      }
      if (rng->UniformInt(6) != 0) continue;
      // Half of the workers that leave close their session; the others vanish.
      if (rng->UniformInt(2) == 0) session->Close("it leaves");
      return;
    }
  }
  void Collect(const CollectorTask& task, uint32_t worker, uint32_t* sequence,
               WorkerSession* session, Rng* rng) {
    if (!task.eval_flag()) {
      for (uint64_t left = 1 + rng->UniformInt(3); left > 0; --left) {
        const int64_t chunk = ChunkNumber(worker, ++*sequence);
        store_.Put(ChunkKey(chunk));
        session->Send(Data(task.task_id(), *sequence, TestItemsOfChunk(chunk, 2)), kLong)
            .IgnoreError();
      }
    }
    session->Send(Finished(task.task_id(), 1), kLong).IgnoreError();
  }
  void Learn(const LearnerTask& task, uint32_t worker, WorkerSession* session) {
    session->Send(Started(task.task_id()), kLong).IgnoreError();
    for (uint64_t version = task.first_version(); version < task.first_version() + 4; ++version) {
      store_.Put(PolicyKey(task.policy_id(), version, worker));
      session->Send(Version(task.policy_id(), version, worker), kLong).IgnoreError();
    }
    session->Send(Demand(task.task_id(), 1, 4), kLong).IgnoreError();
  }

  // Closes everything in the order of the programs, or the coordinator first.
  void CloseAll(bool in_order) {
    const auto in_time = [](const auto& close) {
      const Timer timer(Clock::Real());
      close();
      EXPECT_LT(timer.Elapsed(), kCloseDeadline);
    };
    if (in_order) {
      coordinator_->RequestEnd("over");
      comm_->WaitForWorkersToLeave(absl::Milliseconds(100));
    } else {
      in_time([this] { EXPECT_THAT(coordinator_->Close("over"), IsOk()); });
    }
    in_time([this] { comm_->Close("over"); });
    in_time([this] { EXPECT_THAT(coordinator_->Close("over"), IsOk()); });
  }

  void RunAndClose(bool in_order, uint64_t seed) {
    SCOPED_TRACE(absl::StrCat("in order: ", in_order, ", seed ", seed));
    Start();
    DING_ASSERT_OK_AND_ASSIGN(const auto witness, Join(Hello::COLLECTOR, "witness"));
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorkers; ++i) {
      const Hello::Role role = i == 0 ? Hello::LEARNER : Hello::COLLECTOR;
      workers.emplace_back([this, role, i, seed] { Work(role, i, seed); });
    }
    const int64_t begin = 100 + static_cast<int64_t>(Rng(seed, "close_test").UniformInt(400));
    const Timer patience(Clock::Real());
    while (handler_->calls() < begin && patience.Elapsed() < kLong) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_GE(handler_->calls(), begin) << "the workers are stuck";
    std::vector<std::thread> closers;
    for (int i = 0; i < kClosers; ++i) {
      closers.emplace_back([this, in_order] { CloseAll(in_order); });
    }
    for (std::thread& closer : closers) closer.join();

    // The coordinator was told that each worker is gone. Nobody else is heard, and nobody is told
    // anything.
    const int64_t calls = handler_->calls();
    EXPECT_THAT(handler_->here(), IsEmpty());
    CoordinatorMessage message;
    message.mutable_end_run()->set_reason(kTooLate);
    comm_->Send(witness->welcome().worker(), message);
    closed_.store(true);
    for (std::thread& worker : workers) worker.join();
    EXPECT_EQ(handler_->calls(), calls);
    absl::Status end;
    while (end.ok()) {
      const absl::StatusOr<CoordinatorMessage> heard = witness->Receive(kLong);
      end = heard.status();
      if (heard.ok()) {
        EXPECT_NE(heard->end_run().reason(), kTooLate);
      }
    }
    EXPECT_THAT(end, StatusIs(absl::StatusCode::kAborted, HasSubstr("over")));
    EXPECT_FALSE(Join(Hello::COLLECTOR, "late").ok());

    // Nothing is left of what they had.
    const RunStatus status = coordinator_->status();
    EXPECT_EQ(status.worker_size(), 0);
    EXPECT_EQ(status.buffer_size(), 0);
    EXPECT_GT(coordinator_->counters().rows_acknowledged, 0);
    for (const std::string& key : handler_->accepted()) EXPECT_FALSE(store_.Has(key)) << key;

    // A second Close() changes nothing.
    CloseAll(in_order);
    EXPECT_EQ(handler_->calls(), calls);
  }

  InProcessTransport transport_;
  KeyStore store_;
  std::unique_ptr<CommCoordinator> comm_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<NotingHandler> handler_;
  std::atomic<bool> closed_{false};
};

TEST_F(CloseTest, TheProgramsOrder) { RunAndClose(/*in_order=*/true, 1); }
TEST_F(CloseTest, TheProgramsOrderAgain) { RunAndClose(/*in_order=*/true, 2); }
TEST_F(CloseTest, TheCoordinatorFirst) { RunAndClose(/*in_order=*/false, 3); }
TEST_F(CloseTest, TheCoordinatorFirstAgain) { RunAndClose(/*in_order=*/false, 4); }

}  // namespace
}  // namespace ding
