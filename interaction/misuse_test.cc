// What transports, sessions, servers, stores and all-reduce groups do with options, times, numbers
// and callbacks that nobody should give them. Run it with AddressSanitizer,
// UndefinedBehaviorSanitizer and ThreadSanitizer, too. TransportConformance has the calls that
// every transport must bear.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/all_reduce/in_process_all_reduce.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/compressed_store.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int kMinInt = std::numeric_limits<int>::min();
constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr absl::Duration kLong = absl::Minutes(1);
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const absl::Duration kNotPositive[] = {absl::ZeroDuration(), absl::Nanoseconds(-1),
                                       -absl::InfiniteDuration()};

struct Ends {
  std::unique_ptr<Connection> caller;
  std::unique_ptr<Connection> callee;
};

Ends Connect() {
  InProcessTransport transport;
  const std::unique_ptr<Listener> listener = transport.Listen("x").value();
  Ends ends;
  ends.caller = transport.Connect("x", kLong).value();
  ends.callee = listener->Accept(kLong).value();
  return ends;
}

TEST(TransportMisuseDeathTest, ReadyCallbackThatThrows_EndsTheProgramWithASentence) {
  const auto send_to_throwing = [] {
    const Ends ends = Connect();
    ends.callee->SetReadyCallback([] { throw std::runtime_error("not ready"); });
    std::string message;
    ends.callee->TryReceive(&message).IgnoreError();
    message = "x";
    ends.caller->TrySend(&message).IgnoreError();
  };
  EXPECT_DEATH(send_to_throwing(),
               "the ready callback of a connection threw an exception: not ready");
}

std::vector<SessionOptions> WrongSessionOptions() {
  std::vector<SessionOptions> wrong;
  for (const absl::Duration lease : kNotPositive) wrong.emplace_back().lease = lease;
  wrong.emplace_back().lease = kMinSessionLease - absl::Nanoseconds(1);
  for (const int window : {0, -1, kMinInt}) wrong.emplace_back().window = window;
  for (const int64_t bytes : {int64_t{-1}, kMin, kMax}) {
    wrong.emplace_back().first_window_bytes = bytes;
    wrong.emplace_back().window_bytes = bytes;
  }
  wrong.emplace_back().window_bytes = 0;
  return wrong;
}

TEST(SessionMisuse, OptionsOutOfRange_AreRefusedEverywhere) {
  for (const SessionOptions& options : WrongSessionOptions()) {
    EXPECT_THAT(Session::Start(Connect().caller, options),
                StatusIs(kInvalid, HasSubstr("a session with a lease of")));
    InProcessTransport transport;
    EXPECT_THAT(WorkerSession::Join(&transport, "x", {}, {options, kLong}), StatusIs(kInvalid));
    WorkerServer::Options server;
    server.address = "x";
    server.session = options;
    EXPECT_THAT(WorkerServer::Create(server, &transport), StatusIs(kInvalid));
  }
}

TEST(SessionMisuse, TimesOfAnyLength_WaitOrReturnAtOnce) {
  Ends ends = Connect();
  SessionOptions options;
  options.lease = absl::InfiniteDuration();
  options.window = kMaxInt;
  options.first_window_bytes = kMaxWindowBytes;
  options.window_bytes = kMaxWindowBytes;
  DING_ASSERT_OK_AND_ASSIGN(const auto caller, Session::Start(std::move(ends.caller), options));
  DING_ASSERT_OK_AND_ASSIGN(const auto callee, Session::Start(std::move(ends.callee), options));
  for (const absl::Duration timeout : kNotPositive) {
    EXPECT_THAT(caller->Receive(timeout), StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(caller->Send("x", timeout), IsOk());
    EXPECT_THAT(callee->Receive(absl::InfiniteDuration()), IsOk());
    EXPECT_THAT(caller->Send("", absl::InfiniteDuration()), IsOk());
    EXPECT_THAT(callee->Receive(absl::Hours(kMaxInt)), IsOk());
  }
  caller->set_lease(absl::InfiniteDuration());
  caller->Close("");
  caller->Close("again");
  caller->Admit();
  EXPECT_THAT(caller->Send("x", kLong), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(caller->Receive(kLong), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(callee->Receive(kLong), StatusIs(absl::StatusCode::kAborted));
}

TEST(SessionMisuseDeathTest, SetLease_TooShort_EndsTheProgramWithASentence) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const absl::Duration lease : kNotPositive) {
    EXPECT_DEATH(Session::Start(Connect().caller, {}).value()->set_lease(lease), "the lease is");
  }
}

// Throws where it is told to.
class ThrowingHandler : public WorkerHandler {
 public:
  explicit ThrowingHandler(std::string where) : where_(std::move(where)) {}

  void Admit(const Hello& /*hello*/, Admitted admitted) override {
    Visit("Admit");
    admitted(++last_);
  }
  void WorkerJoined(uint32_t, const Hello&, const std::string&) override { Visit("WorkerJoined"); }
  void WorkerLost(uint32_t, const absl::Status&) override { Visit("WorkerLost"); }
  void Handle(uint32_t worker, WorkerMessage message, Done done) override {
    Visit("Handle");
    CoordinatorMessage answer;
    if (message.has_status_request()) {
      answer.mutable_run_status();
    } else if (message.has_operator_request()) {
      answer.mutable_operator_reply();
    }
    if (answer.message_case() != CoordinatorMessage::MESSAGE_NOT_SET) sender->Send(worker, answer);
    done(absl::OkStatus());
    Visit("Handle after it is done");
  }
  int32_t incarnation() const override {
    Visit("incarnation");
    return 1;
  }

  WorkerSender* sender = nullptr;  // set it before use

 private:
  void Visit(absl::string_view where) const {
    if (where == where_) throw std::runtime_error("no idea");
  }

  const std::string where_;
  uint32_t last_ = 0;
};

class WorkerServerMisuse : public testing::Test {
 protected:
  WorkerServerMisuse() {
    options_.address = "coordinator";
    options_.report = [this](const std::string& line) {
      MutexLock lock(&mutex_);
      reports_.push_back(line);
    };
  }

  // Joins, asks for everything that a handler does, and returns the first error.
  absl::Status Work(Hello::Role role) {
    Hello hello;
    hello.set_role(role);
    hello.set_name("x");
    DING_ASSIGN_OR_RETURN(const auto session,
                          WorkerSession::Join(&transport_, "coordinator", hello, {}));
    WorkerMessage message;
    if (role == Hello::OPERATOR) {
      message.mutable_operator_request();
    } else {
      message.mutable_task_started();
    }
    DING_RETURN_IF_ERROR(session->Send(message, kLong));
    message.mutable_status_request();
    DING_RETURN_IF_ERROR(session->Send(message, kLong));
    if (role == Hello::OPERATOR) DING_RETURN_IF_ERROR(session->Receive(kLong).status());
    return session->Receive(kLong).status();
  }

  InProcessTransport transport_;
  Mutex mutex_;
  std::vector<std::string> reports_;
  WorkerServer::Options options_;
};

TEST_F(WorkerServerMisuse, Create_OptionsOutOfRange_IsRefused) {
  for (const int workers : {0, -1, kMinInt}) {
    options_.max_workers = workers;
    EXPECT_THAT(WorkerServer::Create(options_, &transport_), StatusIs(kInvalid));
  }
  options_.max_workers = kMaxInt;
  for (const absl::Duration timeout : kNotPositive) {
    options_.hello_timeout = timeout;
    EXPECT_THAT(WorkerServer::Create(options_, &transport_), StatusIs(kInvalid));
  }
  options_.hello_timeout = absl::InfiniteDuration();
  EXPECT_THAT(WorkerServer::Create(options_, &transport_), IsOk());
}

TEST_F(WorkerServerMisuse, Start_TwiceWithoutAHandlerOrAfterTheEnd_IsRefused) {
  ThrowingHandler handler("nowhere");
  DING_ASSERT_OK_AND_ASSIGN(const auto server, WorkerServer::Create(options_, &transport_));
  handler.sender = server.get();
  EXPECT_THAT(server->Start(nullptr), StatusIs(kInvalid));
  EXPECT_THAT(server->Start(&handler), IsOk());
  EXPECT_THAT(server->Start(&handler), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Work(Hello::COLLECTOR), IsOk());
  EXPECT_THAT(Work(Hello::OPERATOR), IsOk());
  for (const uint32_t worker : {0u, 77u, ~0u}) server->Send(worker, CoordinatorMessage());
  for (const absl::Duration timeout : kNotPositive) server->WaitForWorkersToLeave(timeout);
  EXPECT_TRUE(server->WaitForWorkersToLeave(absl::InfiniteDuration()));
  server->Close("");
  server->Close("again");
  server->Send(1, CoordinatorMessage());
  EXPECT_TRUE(server->WaitForWorkersToLeave(kLong));
  EXPECT_THAT(server->Start(&handler), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(WorkerServerMisuse, HandlerThatThrows_DisconnectsTheWorkerAndServesTheNext) {
  for (const std::string where : {"Admit", "WorkerJoined", "WorkerLost", "Handle",
                                  "Handle after it is done", "incarnation"}) {
    SCOPED_TRACE(where);
    ThrowingHandler handler(where);
    DING_ASSERT_OK_AND_ASSIGN(const auto server, WorkerServer::Create(options_, &transport_));
    handler.sender = server.get();
    ASSERT_THAT(server->Start(&handler), IsOk());
    for (int i = 0; i < 2; ++i) {
      const absl::Status operated = Work(Hello::OPERATOR);
      const absl::Status collected = Work(Hello::COLLECTOR);
      EXPECT_EQ(operated.ok(), where == "WorkerJoined" || where == "WorkerLost");
      EXPECT_EQ(collected.ok(), where == "WorkerLost");
      if (where == "Admit") {
        EXPECT_THAT(collected.message(), HasSubstr("no idea"));
      }
    }
  }
  MutexLock lock(&mutex_);
  EXPECT_THAT(reports_, Contains(HasSubstr("the handler of the workers threw an exception")));
}

TEST_F(WorkerServerMisuse, CallbacksThatThrow_RefuseTheWorkerOrAreReported) {
  options_.check_hello = [](const Hello& hello) -> absl::Status {
    if (hello.role() == Hello::LEARNER) throw std::runtime_error("no learners");
    return absl::OkStatus();
  };
  options_.on_worker_lost = [](const Hello&, const absl::Status&) { throw 7; };
  {
    ThrowingHandler handler("nowhere");
    DING_ASSERT_OK_AND_ASSIGN(const auto server, WorkerServer::Create(options_, &transport_));
    handler.sender = server.get();
    ASSERT_THAT(server->Start(&handler), IsOk());
    EXPECT_THAT(Work(Hello::LEARNER).message(), HasSubstr("check_hello threw an exception"));
    EXPECT_THAT(Work(Hello::COLLECTOR), IsOk());
    EXPECT_TRUE(server->WaitForWorkersToLeave(kLong));
  }
  MutexLock lock(&mutex_);
  EXPECT_THAT(reports_, Contains(HasSubstr("on_worker_lost threw an exception")));
}

TEST_F(WorkerServerMisuse, ReportThatThrows_DoesNotEndTheServer) {
  options_.report = [](const std::string&) { throw std::runtime_error("no log"); };
  options_.check_hello = [](const Hello& hello) {
    return hello.role() == Hello::LEARNER ? absl::InternalError("no learners") : absl::OkStatus();
  };
  ThrowingHandler handler("nowhere");
  DING_ASSERT_OK_AND_ASSIGN(const auto server, WorkerServer::Create(options_, &transport_));
  handler.sender = server.get();
  ASSERT_THAT(server->Start(&handler), IsOk());
  EXPECT_THAT(Work(Hello::LEARNER), Not(IsOk()));
  EXPECT_THAT(Work(Hello::COLLECTOR), IsOk());
}

TEST_F(WorkerServerMisuse, CloseByACallback_EndsTheProgramWithASentence) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto close_by_callback = [this] {
    WorkerServer* closed = nullptr;
    options_.check_hello = [&closed](const Hello&) {
      closed->Close("too early");
      return absl::OkStatus();
    };
    ThrowingHandler handler("nowhere");
    const auto server = WorkerServer::Create(options_, &transport_).value();
    handler.sender = server.get();
    closed = server.get();
    server->Start(&handler).IgnoreError();
    Work(Hello::COLLECTOR).IgnoreError();
  };
  EXPECT_DEATH(close_by_callback(), "closed by its handler or a callback");
}

class BadCodec : public Codec {
 public:
  explicit BadCodec(size_t says) : says_(says) {}
  uint8_t id() const override { return 77; }
  size_t Compress(absl::string_view, absl::Span<char>) const override { return says_; }
  bool Decompress(absl::string_view, absl::Span<char>) const override {
    throw std::runtime_error("no idea");
  }
  uint64_t MaxRawBytes(size_t) const override { return std::numeric_limits<uint64_t>::max(); }

 private:
  const size_t says_;
};

TEST(StoreMisuse, CodecWithWrongSizesOrThatThrows_IsAnError) {
  const BadCodec beyond(5);
  CompressedStore store(std::make_unique<MemStore>(), &beyond, "mem:?compress=bad");
  EXPECT_THAT(store.Put("x", {"abcd"}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("wrote 5 bytes into 4")));
  const BadCodec throws(2);
  CompressedStore other(std::make_unique<MemStore>(), &throws, "mem:?compress=bad");
  ASSERT_THAT(other.Put("x", {"abcd"}), IsOk());
  std::string value;
  EXPECT_THAT(other.Get("x", &value),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("the codec threw an exception")));
}

TEST(StoreMisuse, FactoryThatThrowsAndUrlsOfAnyKind_AreErrors) {
  const ScopedRegistration<StoreFactory> registered(
      &StoreRegistry(), "throwing",
      [](const std::string&, const StoreSettings&) -> absl::StatusOr<std::unique_ptr<Store>> {
        throw std::runtime_error("no place");
      });
  EXPECT_THAT(create_store("throwing:x"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no place")));
  for (const std::string& url :
       {std::string(), std::string(":"), std::string("?"), std::string(1 << 20, 'x'),
        std::string("throwing:?a"), std::string("throwing:?a=1&a=2"), std::string(1, '\0')}) {
    EXPECT_THAT(create_store(url), Not(IsOk())) << url.substr(0, 20);
  }
  MemStore store;
  EXPECT_THAT(store.Put("", {"x"}), StatusIs(kInvalid));
  EXPECT_THAT(store.Put("x", {}), IsOk());
}

TEST(AllReduceMisuse, RanksSizesAndTimesOutOfRange_AreRefused) {
  InProcessAllReduceHub hub;
  for (const auto& [rank, world_size] : std::vector<std::pair<int, int>>{{-1, 2},
                                                                         {2, 2},
                                                                         {0, 0},
                                                                         {0, -1},
                                                                         {kMinInt, kMinInt},
                                                                         {kMaxInt, kMaxInt},
                                                                         {0, kMaxInt}}) {
    EXPECT_THAT(hub.Connect({"a", rank, world_size}), StatusIs(kInvalid)) << rank;
  }
  for (const absl::Duration timeout : kNotPositive) {
    EXPECT_THAT(hub.Connect({"a", 0, 1, timeout}), StatusIs(kInvalid));
  }
  EXPECT_THAT(hub.Connect({"a", 0, 1, absl::InfiniteDuration()}), StatusIs(kInvalid));
  DING_ASSERT_OK_AND_ASSIGN(const auto alone, hub.Connect({"", 0, 1}));
  EXPECT_THAT(alone->Sum(absl::Span<float>()), IsOk());
  alone->Abort();
  alone->Abort();
  EXPECT_THAT(alone->Sum(absl::Span<float>()), Not(IsOk()));
}

TEST(AllReduceMisuse, CallsOfDifferentKinds_AreAnErrorOfAllRanks) {
  for (const bool broadcasts : {false, true}) {
    InProcessAllReduceHub hub;
    const auto work = [&](int rank) {
      const auto group = hub.Connect({"a", rank, 2}).value();
      std::vector<double> doubles(4, 1);
      std::vector<float> floats(4, 1);
      std::string bytes = "abcd";
      const absl::Status status = rank == 0    ? group->Sum(absl::MakeSpan(doubles))
                                  : broadcasts ? group->Broadcast(&bytes)
                                               : group->Sum(absl::MakeSpan(floats));
      EXPECT_THAT(status, StatusIs(kInvalid, HasSubstr("calls of different kinds")));
    };
    std::thread other(work, 1);
    work(0);
    other.join();
  }
}

}  // namespace
}  // namespace ding
