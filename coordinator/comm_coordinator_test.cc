#include "ding_worker/coordinator/comm_coordinator.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/faulty_transport.h"
#include "ding_worker/interaction/testing/message_mutator.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Not;
using testing::SizeIs;

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr char kAddress[] = "run";

WorkerMessage Started(const std::string& task_id) {
  WorkerMessage message;
  message.mutable_task_started()->set_task_id(task_id);
  return message;
}

WorkerMessage HelloMessage(const std::string& name) {
  WorkerMessage message;
  message.mutable_hello()->set_name(name);
  *message.mutable_hello()->mutable_version() = CurrentProtocol();
  return message;
}

// Gives no tasks, and notes who came and what was said. It is thread-safe.
class NotingCoordinator : public Coordinator {
 public:
  void Start() override {}
  void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& /*peer*/) override {
    MutexLock lock(&mutex_);
    names_[worker] = hello.name();
    changed_.SignalAll();
  }
  void WorkerLost(uint32_t worker, const absl::Status& why) override {
    MutexLock lock(&mutex_);
    lost_[names_[worker]] = why;
    names_.erase(worker);
    changed_.SignalAll();
  }
  void Handle(uint32_t worker, WorkerMessage message, Done done) override {
    CoordinatorMessage answer;
    if (message.has_status_request()) {
      *answer.mutable_run_status() = status();
    } else if (message.has_operator_request()) {
      answer.mutable_operator_reply()->set_message(
          absl::StrCat("grown by ", message.operator_request().grow()));
    } else if (on_handle != nullptr) {
      return done(on_handle(worker, message));
    } else {
      MutexLock lock(&mutex_);
      heard_.push_back(absl::StrCat(names_[worker], ": ", message.task_started().task_id()));
      if (holds) held_.push_back(std::exchange(done, nullptr));
      changed_.SignalAll();
    }
    if (answer.message_case() != CoordinatorMessage::MESSAGE_NOT_SET) sender->Send(worker, answer);
    if (done != nullptr) done(absl::OkStatus());
  }
  void Admit(const Hello& /*hello*/, Admitted admitted) override {
    if (decides_nothing) return;
    uint32_t worker = 0;
    {
      MutexLock lock(&mutex_);
      worker = ++last_worker_;
    }
    admitted(worker);
  }
  bool DealWithCollectorJudgeFinish(const CollectorFinished& /*info*/) const override {
    return false;
  }
  bool DealWithLearnerJudgeFinish(const LearnerInfo& /*info*/) const override { return false; }
  absl::Status CloseJournal() override { return absl::OkStatus(); }
  void KeepData() override {}
  int32_t incarnation() const override { return 1; }
  absl::Status WaitUntilDone(absl::Duration /*timeout*/) override { return absl::OkStatus(); }
  void RequestEnd(const std::string& /*reason*/) override {}
  absl::Status Close(const std::string& /*reason*/) override { return absl::OkStatus(); }
  RunStatus status() const override {
    RunStatus status;
    status.set_run("run-7");
    return status;
  }
  Counters counters() const override { return {}; }

  // Waits until this worker is lost, and returns why it was.
  absl::Status WhyLost(const std::string& name) {
    MutexLock lock(&mutex_);
    while (lost_.count(name) == 0) {
      if (!changed_.WaitFor(&mutex_, absl::Minutes(1))) return absl::UnknownError("it is not lost");
    }
    return lost_[name];
  }
  uint32_t NumberOf(const std::string& name) {
    MutexLock lock(&mutex_);
    while (true) {
      for (const auto& [worker, other] : names_) {
        if (other == name) return worker;
      }
      if (!changed_.WaitFor(&mutex_, absl::Minutes(1))) return 0;
    }
  }
  // Waits until WorkerJoined() has told of this worker, which has its Welcome a moment earlier.
  bool WaitForWorker(uint32_t worker) {
    MutexLock lock(&mutex_);
    while (names_.count(worker) == 0) {
      if (!changed_.WaitFor(&mutex_, absl::Minutes(1))) return false;
    }
    return true;
  }
  std::vector<std::string> heard(size_t at_least) {
    MutexLock lock(&mutex_);
    while (heard_.size() < at_least && changed_.WaitFor(&mutex_, absl::Minutes(1))) {
    }
    return heard_;
  }
  size_t present() const {
    MutexLock lock(&mutex_);
    return names_.size();
  }
  size_t joined() const {
    MutexLock lock(&mutex_);
    return names_.size() + lost_.size();
  }

  // Says that the messages which it holds are done.
  void ReleaseHeld() {
    std::vector<Done> held;
    {
      MutexLock lock(&mutex_);
      held.swap(held_);
    }
    for (const Done& done : held) done(absl::OkStatus());
  }

  // Set these before use.
  WorkerSender* sender = nullptr;
  std::function<absl::Status(uint32_t, const WorkerMessage&)> on_handle;
  std::atomic<bool> decides_nothing{false};  // whether Admit() never answers
  std::atomic<bool> holds{false};            // whether messages are not done until ReleaseHeld()

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  uint32_t last_worker_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status> lost_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> heard_ ABSL_GUARDED_BY(mutex_);
  std::vector<Done> held_ ABSL_GUARDED_BY(mutex_);
};

class CommCoordinatorTest : public testing::Test {
 protected:
  CommCoordinatorTest() {
    options_.address = kAddress;
    options_.config_digest = "digest-a";
    options_.welcome.set_run("run-7");
    options_.welcome.set_lease_seconds(300);
    options_.session.lease = absl::Minutes(5);
  }
  void TearDown() override {
    if (comm_ != nullptr) comm_->Close("the test is over");
  }

  void Start() {
    comm_ = CommCoordinator::Create(options_, &transport_).value();
    coordinator_.sender = comm_.get();
    ASSERT_THAT(comm_->Start(&coordinator_), IsOk());
  }
  absl::StatusOr<std::unique_ptr<WorkerSession>> TryJoin(const Hello& hello) {
    return WorkerSession::Join(&transport_, kAddress, hello, {});
  }
  std::unique_ptr<WorkerSession> Join(const std::string& name,
                                      Hello::Role role = Hello::COLLECTOR) {
    Hello hello;
    hello.set_name(name);
    hello.set_role(role);
    std::unique_ptr<WorkerSession> session = TryJoin(hello).value();
    // What is sent to a worker before the server knows it is dropped.
    EXPECT_TRUE(role == Hello::OPERATOR || coordinator_.WaitForWorker(session->welcome().worker()));
    return session;
  }
  // The session of a peer that may send anything.
  std::unique_ptr<Session> RawSession() {
    SessionOptions options;
    options.lease = absl::Minutes(5);
    return Session::Start(transport_.Connect(kAddress, kLong).value(), options).value();
  }
  // Expects that `worker` is still served, whatever another peer has done.
  void ExpectServed(WorkerSession* worker, const std::string& name) {
    const size_t before = coordinator_.heard(0).size();
    EXPECT_THAT(worker->Send(Started("still here"), kLong), IsOk());
    EXPECT_EQ(coordinator_.heard(before + 1).back(), absl::StrCat(name, ": still here"));
  }

  InProcessTransport transport_;
  NotingCoordinator coordinator_;
  CommCoordinator::Options options_;
  std::unique_ptr<CommCoordinator> comm_;
};

TEST_F(CommCoordinatorTest, AdmitsWorkersAndPassesOnTheirMessages) {
  Start();
  const auto a = Join("a");
  const auto b = Join("b", Hello::LEARNER);
  EXPECT_NE(a->welcome().worker(), b->welcome().worker());
  EXPECT_EQ(a->welcome().run(), "run-7");
  EXPECT_EQ(a->welcome().lease_seconds(), 300);
  EXPECT_EQ(coordinator_.NumberOf("a"), a->welcome().worker());
  EXPECT_THAT(a->Send(Started("1"), kLong), IsOk());
  EXPECT_THAT(a->Send(Started("2"), kLong), IsOk());
  EXPECT_THAT(coordinator_.heard(2), ElementsAre("a: 1", "a: 2"));

  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id("x");
  comm_->Send(b->welcome().worker(), message);
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorMessage received, b->Receive(kLong));
  EXPECT_EQ(received.close_task().task_id(), "x");
  comm_->Send(999, message);  // No worker has this number: not an error.
}

// Messages for one incarnation of a worker do not reach another, and the coordinator tells apart
// the messages of both.
TEST_F(CommCoordinatorTest, AWorkerThatJoinsAgainGetsANewNumber) {
  std::vector<uint32_t> senders;
  coordinator_.on_handle = [&senders](uint32_t worker, const WorkerMessage&) {
    senders.push_back(worker);
    return absl::FailedPreconditionError("go");
  };
  Start();
  const auto first = Join("a");
  const auto second = Join("a");
  const uint32_t numbers[] = {first->welcome().worker(), second->welcome().worker()};
  EXPECT_NE(numbers[0], numbers[1]);
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id("of the first");
  comm_->Send(numbers[0], message);
  message.mutable_close_task()->set_task_id("of the second");
  comm_->Send(numbers[1], message);
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorMessage received, second->Receive(kLong));
  EXPECT_EQ(received.close_task().task_id(), "of the second");
  for (WorkerSession* const session : {second.get(), first.get()}) {
    EXPECT_THAT(session->Send(Started("x"), kLong), IsOk());
    while (session->Receive(kLong).ok()) {
    }
  }
  EXPECT_THAT(senders, ElementsAre(numbers[1], numbers[0]));
  comm_->Send(numbers[0], message);  // This number is never used again: not an error.
  const auto third = Join("a");
  EXPECT_GT(third->welcome().worker(), numbers[1]);
}

TEST_F(CommCoordinatorTest, Join_Place_IsTheLowestFreeOneOfTheRole) {
  Start();
  auto first = Join("a"), second = Join("b");
  EXPECT_EQ(first->welcome().place(), 0u);
  EXPECT_EQ(second->welcome().place(), 1u);
  EXPECT_EQ(Join("l", Hello::LEARNER)->welcome().place(), 0u);
  Hello again;
  again.set_previous_place(5);
  DING_ASSERT_OK_AND_ASSIGN(const auto third, TryJoin(again));
  EXPECT_EQ(third->welcome().place(), 5u) << "what it had before";
  second.reset();
  for (int i = 0; i < 1000 && (second == nullptr || second->welcome().place() != 1); ++i) {
    second = TryJoin(again).value();
  }
  EXPECT_EQ(second->welcome().place(), 1u);
}

TEST_F(CommCoordinatorTest, OneCoordinatorPerAddress) {
  Start();
  EXPECT_THAT(CommCoordinator::Create(options_, &transport_),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(CommCoordinatorTest, AnotherConfigIsRefused) {
  Start();
  Hello hello;
  hello.set_name("stranger");
  hello.set_config_digest("digest-b");
  EXPECT_THAT(TryJoin(hello), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       AllOf(HasSubstr("collector 'stranger'"),
                                             HasSubstr("digest-a"), HasSubstr("digest-b"))));
  hello.set_config_digest("digest-a");
  EXPECT_THAT(TryJoin(hello), IsOk());
}

TEST_F(CommCoordinatorTest, AnotherMajorProtocolVersionIsRefused) {
  Start();
  const std::unique_ptr<Session> raw = RawSession();
  WorkerMessage hello = HelloMessage("old");
  hello.mutable_hello()->mutable_version()->set_major(kProtocolMajor + 1);
  EXPECT_THAT(raw->Send(hello.SerializeAsString(), kLong), IsOk());
  EXPECT_THAT(raw->Receive(kLong), StatusIs(absl::StatusCode::kAborted,
                                            HasSubstr("protocol version is 3.1, expected 2.x")));
  EXPECT_EQ(coordinator_.joined(), 0u);
}

// A peer that does not begin with a Hello gets the reason for its refusal.
TEST_F(CommCoordinatorTest, APeerWithoutAHelloIsTurnedAway) {
  options_.hello_timeout = absl::Milliseconds(100);
  Start();
  const auto good = Join("good");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xff\xff\xff", "cannot parse 3 bytes as a message"},
      {std::string(), "an empty message"},
      {Started("x").SerializeAsString(), "the first message is not Hello"},
      {std::string(60000, 'x'), "empty message from a worker"}};
  for (const auto& [bytes, reason] : cases) {
    const std::unique_ptr<Session> raw = RawSession();
    EXPECT_THAT(raw->Send(bytes, kLong), IsOk());
    EXPECT_THAT(raw->Receive(kLong), StatusIs(absl::StatusCode::kAborted, HasSubstr(reason)));
  }
  const std::unique_ptr<Session> silent = RawSession();
  EXPECT_THAT(silent->Receive(kLong),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("no Hello within 100ms")));
  // One that does not even speak of sessions.
  const std::unique_ptr<Connection> foreign = transport_.Connect(kAddress, kLong).value();
  EXPECT_THAT(foreign->Send("GET / HTTP/1.1\r\n\r\n", kLong), IsOk());
  absl::Status end;
  while (end.ok()) end = foreign->Receive(kLong).status();
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(coordinator_.joined(), 1u);
  ExpectServed(good.get(), "good");
}

TEST_F(CommCoordinatorTest, TextsOfAStrangerFitIntoOneLogLine) {
  std::string line;
  options_.report = [&line](const std::string& what) { line = what; };
  Start();
  Hello hello;
  hello.set_name(absl::StrCat("two\nlines, and much more", std::string(20000, 'x')));
  hello.set_config_digest("digest-b");
  EXPECT_THAT(TryJoin(hello), StatusIs(absl::StatusCode::kFailedPrecondition));
  comm_->Close("over");
  EXPECT_THAT(line, AllOf(HasSubstr("two?lines, and much more"), SizeIs(Le(1000))));
}

// Returns the number of threads of this process.
int64_t Threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST_F(CommCoordinatorTest, PeersAndWorkersHaveNoThreads) {
  const int64_t before = Threads();
  Start();
  const auto good = Join("good");
  ExpectServed(good.get(), "good");
  EXPECT_EQ(Threads(), before + 3) << "two of the sessions, and one of the server";
  std::vector<std::unique_ptr<Connection>> silent;
  std::vector<std::unique_ptr<Session>> talking;
  std::vector<std::unique_ptr<WorkerSession>> workers;
  for (int i = 0; i < 64; ++i) {
    silent.push_back(transport_.Connect(kAddress, kLong).value());
    talking.push_back(RawSession());
    workers.push_back(Join(absl::StrCat("w", i)));
    ExpectServed(workers.back().get(), absl::StrCat("w", i));
  }
  EXPECT_EQ(Threads(), before + 3);
}

TEST_F(CommCoordinatorTest, HandlerThatIsNotDone_ItsWorkerWaitsAndTheOthersGoOn) {
  coordinator_.holds = true;
  Start();
  const auto waits = Join("waits");
  for (int i = 0; i < 3; ++i) ASSERT_THAT(waits->Send(Started(absl::StrCat(i)), kLong), IsOk());
  EXPECT_THAT(coordinator_.heard(1), ElementsAre("waits: 0"));
  coordinator_.holds = false;
  const auto good = Join("good");
  ExpectServed(good.get(), "good");
  // The window of the worker is used up. What it has sent stays in its session.
  absl::Status sent;
  int messages = 3;
  for (; sent.ok() && messages < 1000; ++messages) {
    sent = waits->Send(Started(absl::StrCat(messages)), absl::Milliseconds(200));
  }
  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(coordinator_.heard(2), SizeIs(2));
  coordinator_.ReleaseHeld();
  const std::vector<std::string> heard = coordinator_.heard(static_cast<size_t>(messages));
  ASSERT_THAT(heard, SizeIs(messages));
  EXPECT_EQ(heard[2], "waits: 1");
  EXPECT_EQ(heard.back(), absl::StrCat("waits: ", messages - 2));
}

TEST_F(CommCoordinatorTest, HandlerThatIsNotDone_ItsWorkerIsLostAtOnceAndNotHeardAgain) {
  coordinator_.holds = true;
  Start();
  auto gone = Join("gone");
  ASSERT_THAT(gone->Send(Started("x"), kLong), IsOk());
  EXPECT_THAT(coordinator_.heard(1), SizeIs(1));
  gone.reset();
  EXPECT_THAT(coordinator_.WhyLost("gone"), StatusIs(absl::StatusCode::kAborted));
  coordinator_.ReleaseHeld();
  // Also if the server is closed meanwhile.
  const auto there = Join("there");
  ASSERT_THAT(there->Send(Started("x"), kLong), IsOk());
  EXPECT_THAT(coordinator_.heard(2), SizeIs(2));
  comm_->Close("over");
  EXPECT_THAT(coordinator_.WhyLost("there"), StatusIs(absl::StatusCode::kCancelled));
  coordinator_.ReleaseHeld();
  EXPECT_THAT(coordinator_.heard(0), SizeIs(2));
}

TEST_F(CommCoordinatorTest, LimitsTheLogLinesAboutStrangers) {
  Mutex mutex;
  std::vector<std::string> lines;
  options_.report = [&](const std::string& line) {
    MutexLock lock(&mutex);
    lines.push_back(line);
  };
  Start();
  const Timer timer(Clock::Real());
  for (int i = 0; i < 200; ++i) {
    const std::unique_ptr<Session> raw = RawSession();
    EXPECT_THAT(raw->Send("\xff\xff\xff", kLong), IsOk());
    EXPECT_THAT(raw->Receive(kLong), StatusIs(absl::StatusCode::kAborted));
  }
  const auto seconds = static_cast<size_t>(timer.Seconds()) + 1;
  MutexLock lock(&mutex);
  EXPECT_THAT(lines, SizeIs(Le(seconds * CommCoordinator::kReportsPerSecond)));
  EXPECT_THAT(lines[0], HasSubstr("cannot parse 3 bytes as a message"));
}

TEST_F(CommCoordinatorTest, APeerThatLeavesWithoutAWordIsNotReported) {
  Mutex mutex;
  std::vector<std::string> lines;
  options_.report = [&](const std::string& line) {
    MutexLock lock(&mutex);
    lines.push_back(line);
  };
  Start();
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<Connection> silent = transport_.Connect(kAddress, kLong).value();
  }
  // The server looks at the peers in the order in which they have come.
  const std::unique_ptr<Session> raw = RawSession();
  EXPECT_THAT(raw->Send("\xff\xff\xff", kLong), IsOk());
  EXPECT_THAT(raw->Receive(kLong), StatusIs(absl::StatusCode::kAborted));
  comm_->Close("over");
  MutexLock lock(&mutex);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("cannot parse 3 bytes as a message")));
}

TEST_F(CommCoordinatorTest, AnInvalidMessageDisconnectsTheWorkerWithTheReason) {
  std::vector<std::string> told;
  options_.on_worker_lost = [&told](const Hello& hello, const absl::Status& why) {
    told.push_back(absl::StrCat(hello.name(), ": ", why.message()));
  };
  Start();
  const auto good = Join("good");
  const std::unique_ptr<Session> raw = RawSession();
  EXPECT_THAT(raw->Send(HelloMessage("bad").SerializeAsString(), kLong), IsOk());
  EXPECT_THAT(raw->Receive(kLong), IsOk());  // Welcome
  EXPECT_THAT(raw->Send("\xff\xff\xff", kLong), IsOk());
  EXPECT_THAT(raw->Receive(kLong),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("cannot parse 3 bytes")));
  EXPECT_THAT(coordinator_.WhyLost("bad"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot parse 3 bytes")));
  ExpectServed(good.get(), "good");
  comm_->Close("over");
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told[0], AllOf(HasSubstr("bad"), HasSubstr("cannot parse 3 bytes")));
}

TEST_F(CommCoordinatorTest, ARefusedMessageEndsTheSession) {
  coordinator_.on_handle = [](uint32_t, const WorkerMessage&) {
    return absl::InvalidArgumentError("data 9, expected data 1");
  };
  Start();
  const auto worker = Join("a");
  EXPECT_THAT(worker->Send(Started("x"), kLong), IsOk());
  EXPECT_THAT(worker->Receive(kLong),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("data 9, expected data 1")));
  EXPECT_THAT(coordinator_.WhyLost("a"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CommCoordinatorTest, ATooLargeMessageIsAnErrorOfTheSenderOnly) {
  Start();
  const auto worker = Join("a");
  WorkerMessage large;
  large.mutable_task_failed()->set_message(std::string(kMaxSessionMessageBytes, 'x'));
  EXPECT_THAT(worker->Send(large, kLong), StatusIs(absl::StatusCode::kInvalidArgument));
  ExpectServed(worker.get(), "a");
}

TEST_F(CommCoordinatorTest, AWorkerThatLeavesIsLost) {
  Start();
  const auto a = Join("a");
  const auto b = Join("b");
  EXPECT_FALSE(comm_->WaitForWorkersToLeave(absl::ZeroDuration()));
  a->Close("done");
  EXPECT_THAT(coordinator_.WhyLost("a"), StatusIs(absl::StatusCode::kAborted, HasSubstr("done")));
  ExpectServed(b.get(), "b");
  b->Close("done");
  EXPECT_TRUE(comm_->WaitForWorkersToLeave(kLong));
}

TEST_F(CommCoordinatorTest, AWorkerThatFallsSilentIsLost) {
  options_.session.lease = absl::Milliseconds(200);
  options_.welcome.set_lease_seconds(0.2);
  Start();
  FaultyTransport faulty(&transport_, {});
  Hello hello;
  hello.set_name("silent");
  DING_ASSERT_OK_AND_ASSIGN(const auto worker, WorkerSession::Join(&faulty, kAddress, hello, {}));
  faulty.set_black_hole(true);
  EXPECT_THAT(coordinator_.WhyLost("silent"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nothing was heard of")));
  EXPECT_THAT(worker->Receive(kLong), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(CommCoordinatorTest, MoreWorkersThanAllowedAreTurnedAwayUntilOneLeaves) {
  options_.max_workers = 2;
  Start();
  const auto a = Join("a");
  const auto b = Join("b");
  Hello third;
  third.set_name("third");
  EXPECT_THAT(TryJoin(third), StatusIs(absl::StatusCode::kUnavailable));
  ExpectServed(a.get(), "a");
  b->Close("done");
  EXPECT_THAT(coordinator_.WhyLost("b"), StatusIs(absl::StatusCode::kAborted));
  // The place of a worker is free again when its thread is joined: when the next peer connects, or
  // a second later.
  absl::StatusOr<std::unique_ptr<WorkerSession>> joined = TryJoin(third);
  const absl::Time deadline = absl::Now() + kLong;
  while (!joined.ok() && absl::Now() < deadline) joined = TryJoin(third);
  EXPECT_THAT(joined, IsOk());
}

TEST_F(CommCoordinatorTest, HandlerDecidesNothing_PeerThatHasGoneMakesRoom) {
  options_.max_workers = 1;
  options_.hello_timeout = absl::Milliseconds(200);
  Start();
  coordinator_.decides_nothing = true;  // as while the run pauses
  Hello hello;
  hello.set_name("first");
  WorkerSession::Options impatient;
  impatient.join_timeout = absl::Milliseconds(300);
  EXPECT_THAT(WorkerSession::Join(&transport_, kAddress, hello, impatient).status(), Not(IsOk()));
  coordinator_.decides_nothing = false;
  hello.set_name("second");
  absl::StatusOr<std::unique_ptr<WorkerSession>> joined = TryJoin(hello);
  const absl::Time deadline = absl::Now() + kLong;
  while (!joined.ok() && absl::Now() < deadline) joined = TryJoin(hello);
  EXPECT_THAT(joined, IsOk());
}

TEST_F(CommCoordinatorTest, AWorkerThatTakesNoMessagesIsDisconnected) {
  Start();
  const auto stuck = Join("stuck");
  const auto good = Join("good");
  const uint32_t number = stuck->welcome().worker();
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id("x");
  // More messages than a window holds. Send() does not wait; it drops those that do not fit.
  for (int i = 0; i < 2 * options_.session.window; ++i) comm_->Send(number, message);
  // The worker reads again before it is disconnected. There is room now, but messages were dropped:
  // what is sent next must not follow that gap.
  for (int i = 0; i < options_.session.window / 2; ++i) {
    ASSERT_THAT(stuck->Receive(kLong), IsOk());
  }
  message.mutable_close_task()->set_task_id("behind the gap");
  for (int i = 0; i < 100; ++i) {
    comm_->Send(number, message);
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT(coordinator_.WhyLost("stuck"), StatusIs(absl::StatusCode::kResourceExhausted,
                                                      HasSubstr("does not take its messages")));
  absl::StatusOr<CoordinatorMessage> received = stuck->Receive(kLong);
  for (; received.ok(); received = stuck->Receive(kLong)) {
    ASSERT_EQ(received->close_task().task_id(), "x");
  }
  EXPECT_THAT(received, StatusIs(absl::StatusCode::kAborted, HasSubstr("does not take")));
  ExpectServed(good.get(), "good");
}

TEST_F(CommCoordinatorTest, AMessageThatIsTooLargeToBeSentEndsTheSession) {
  Start();
  const auto worker = Join("a");
  CoordinatorMessage message;
  message.mutable_learner_data()->add_items(std::string(kMaxSessionMessageBytes, 'x'));
  comm_->Send(worker->welcome().worker(), message);
  EXPECT_THAT(coordinator_.WhyLost("a"), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(CommCoordinatorTest, CloseTellsAllWorkersTheReason) {
  Start();
  const auto a = Join("a");
  const auto b = Join("b", Hello::LEARNER);
  const auto c = Join("c", Hello::OPERATOR);
  const std::unique_ptr<Session> unknown = RawSession();
  comm_->Close("the run is over");
  for (WorkerSession* const worker : {a.get(), b.get(), c.get()}) {
    EXPECT_THAT(worker->Receive(kLong),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("the run is over")));
  }
  EXPECT_FALSE(unknown->Receive(kLong).ok());
  EXPECT_THAT(coordinator_.WhyLost("a"), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(coordinator_.WhyLost("b"), StatusIs(absl::StatusCode::kCancelled));
  comm_->Close("again");
}

TEST_F(CommCoordinatorTest, OperatorsMayOnlyAskForTheStatusAndSendRequests) {
  Start();
  const auto watcher = Join("watcher", Hello::OPERATOR);
  WorkerMessage ask;
  ask.mutable_status_request();
  EXPECT_THAT(watcher->Send(ask, kLong), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorMessage answer, watcher->Receive(kLong));
  EXPECT_EQ(answer.run_status().run(), "run-7");
  EXPECT_EQ(coordinator_.joined(), 0u) << "it is no worker";
  EXPECT_TRUE(comm_->WaitForWorkersToLeave(absl::ZeroDuration())) << "nor waited for";
  WorkerMessage grow;
  grow.mutable_operator_request()->set_grow(2);
  EXPECT_THAT(watcher->Send(grow, kLong), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorMessage reply, watcher->Receive(kLong));
  EXPECT_EQ(reply.operator_reply().message(), "grown by 2");

  EXPECT_THAT(watcher->Send(Started("x"), kLong), IsOk());
  EXPECT_THAT(watcher->Receive(kLong), StatusIs(absl::StatusCode::kAborted,
                                                HasSubstr("an operator may ask for the status")));
  EXPECT_THAT(coordinator_.heard(0), IsEmpty());
}

// Peers that say anything, as their first words and later; a worker beside them is not disturbed.
TEST_F(CommCoordinatorTest, Fuzz_Messages_DoNotDisturbOtherWorkers) {
  Start();
  const auto witness = Join("witness");
  std::map<absl::StatusCode, int> outcomes;
  Fuzz(100, [&](Mutator* mutator) {
    auto session =
        Session::Start(transport_.Connect(kAddress, kLong).value(), options_.session).value();
    absl::StatusOr<std::string> heard = "";
    for (int i = 0; i < 5 && heard.ok(); ++i) {
      WorkerMessage message = i == 0 ? HelloMessage("x") : Started("y");
      if (mutator->Coin()) MutateMessage(mutator, &message);
      std::string bytes = message.SerializeAsString();
      if (mutator->rng()->UniformInt(8) == 0) bytes = mutator->Mutate(bytes);
      session->Send(bytes, kLong).IgnoreError();
      // A welcomed worker receives nothing more; a refused one receives the end of the session.
      heard = session->Receive(i == 0 ? kLong : absl::ZeroDuration());
      if (absl::IsDeadlineExceeded(heard.status())) heard = "";
    }
    ++outcomes[heard.status().code()];
    session->Close("enough");
  });
  EXPECT_GE(outcomes.size(), 2u);
  WorkerMessage ask;
  ask.mutable_status_request();
  EXPECT_THAT(witness->Send(ask, kLong), IsOk());
  EXPECT_THAT(witness->Receive(kLong), IsOk());
}

}  // namespace
}  // namespace ding
