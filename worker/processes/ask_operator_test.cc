#include "ding_worker/worker/processes/ask_operator.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A transport to an address where nobody listens, or to a listener that says nothing.
class DeadEnd : public Transport {
 public:
  explicit DeadEnd(bool silent) : silent_(silent) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& /*address*/) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& to,
                                                      absl::Duration timeout) override {
    address = to;
    ++attempts;
    longest = std::max(longest, timeout);
    const absl::Status late = absl::DeadlineExceededError("no connection");
    return silent_ ? late : MarkConnectRefused(late);
  }

  std::string address;  // of the last attempt
  int attempts = 0;
  absl::Duration longest;

 private:
  const bool silent_;
};

// Without the cancellation, the call would take all of its time.
TEST(OperatorClientTest, CancellationEndsTheCallEarly) {
  DeadEnd transport(/*silent=*/false);
  EXPECT_THAT(AskStatus("nowhere", "test", absl::Hours(1), &transport,
                        [&] { return transport.attempts == 5; }),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(transport.attempts, 5);
  EXPECT_LE(transport.longest, absl::Milliseconds(100));
}

TEST(OperatorClientTest, AskerOf_ConnectsOnThisMachineAndGivesUpSoon) {
  DeadEnd transport(/*silent=*/false);
  EXPECT_THAT(AskerOf(&transport)("0.0.0.0:7235", {"status"}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(transport.address, "127.0.0.1:7235");
  EXPECT_THAT(AskerOf(&transport)("", {"dance"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

// A transport that gives a reason for its failure, unless an attempt is too short for that.
class Refusal : public DeadEnd {
 public:
  Refusal() : DeadEnd(/*silent=*/false) {}

  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& /*address*/,
                                                      absl::Duration timeout) override {
    absl::SleepFor(timeout);
    if (timeout < absl::Milliseconds(50)) return absl::DeadlineExceededError("too short");
    return MarkConnectRefused(absl::DeadlineExceededError("the reason"));
  }
};

TEST(OperatorClientTest, AShortLastAttemptDoesNotHideTheReason) {
  Refusal transport;
  EXPECT_THAT(AskStatus("refuses", "test", absl::Milliseconds(70), &transport),
              StatusIs(absl::StatusCode::kDeadlineExceeded, testing::HasSubstr("the reason")));
}

// A silent coordinator may only be busy.
TEST(OperatorClientTest, ASilentCoordinatorIsGivenTheWholeTime) {
  DeadEnd transport(/*silent=*/true);
  EXPECT_THAT(AskStatus("hangs", "test", absl::Hours(1), &transport,
                        [&] { return transport.attempts == 2; }),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GT(transport.longest, absl::Minutes(59));
}

// Gets a request, and never replies.
class NeverReplies : public WorkerHandler {
 public:
  void Admit(const Hello& /*hello*/, Admitted admitted) override { admitted(1); }
  void WorkerJoined(uint32_t /*worker*/, const Hello& /*hello*/,
                    const std::string& /*peer*/) override {}
  void WorkerLost(uint32_t /*worker*/, const absl::Status& /*why*/) override {}
  void Handle(uint32_t /*worker*/, WorkerMessage /*message*/, Done /*done*/) override {
    asked.set_value();
  }

  std::promise<void> asked;
};

absl::StatusOr<OperatorReply> AskARunThatEndsBeforeItReplies(const OperatorRequest& request) {
  NeverReplies handler;
  InProcessTransport transport;
  WorkerServer::Options options;
  options.address = "coordinator";
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerServer> server,
                        WorkerServer::Create(std::move(options), &transport));
  DING_RETURN_IF_ERROR(server->Start(&handler));
  absl::StatusOr<OperatorReply> reply;
  std::thread asking([&] {
    reply = AskOperator(server->address(), "test", request, absl::Minutes(1), &transport);
  });
  handler.asked.get_future().wait_for(std::chrono::minutes(1));
  server->Close("the run is over");
  asking.join();
  return reply;
}

TEST(OperatorClientTest, ARunThatEndsBeforeItRepliesHasStopped) {
  OperatorRequest request;
  request.set_stop(true);
  const absl::StatusOr<OperatorReply> reply = AskARunThatEndsBeforeItReplies(request);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->code(), 0);
  EXPECT_THAT(reply->message(), testing::HasSubstr("the run is over"));
}

TEST(OperatorClientTest, ARunThatEndsBeforeItRepliesHasDoneNothingElse) {
  OperatorRequest request;
  request.set_grow(1);
  EXPECT_THAT(AskARunThatEndsBeforeItReplies(request),
              StatusIs(absl::StatusCode::kAborted, testing::HasSubstr("the run is over")));
}

TEST(OperatorClientTest, ParseOperatorCommand_Known_IsItsRequest) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> known = {
      {{"status"}, "inspect: \"\""},        {{"inspect", "x"}, "inspect: \"x\""},
      {{"grow", "2"}, "grow: 2"},           {{"shrink", "-1"}, "shrink: -1"},
      {{"drain", "a b"}, "drain: \"a b\""}, {{"stop"}, "stop: true"}};
  for (const auto& [words, text] : known) {
    DING_ASSERT_OK_AND_ASSIGN(const OperatorRequest request, ParseOperatorCommand(words));
    EXPECT_EQ(request.ShortDebugString(), text);
  }
}

TEST(OperatorClientTest, ParseOperatorCommand_Unknown_IsRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> unknown = {
      {{}, "command '' is not known, expected: status"},
      {{"dance"}, "command 'dance' is not known"},
      {{"grow"}, "grow takes one argument"},
      {{"stop", "now"}, "stop takes no argument"},
      {{"grow", "two"}, "expected a number of collectors"}};
  for (const auto& [words, why] : unknown) {
    EXPECT_THAT(ParseOperatorCommand(words),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr(why)));
  }
}

class MissingWorkerDetectorTest : public testing::Test {
 protected:
  std::vector<int64_t> Update(std::initializer_list<int64_t> pids) {
    RunStatus status;
    for (const int64_t pid : pids) status.add_worker()->set_pid(pid);
    return watch_.Update(status.worker());
  }

  SimulatedClock clock_;
  MissingWorkerDetector watch_{absl::Seconds(3), &clock_};
};

TEST_F(MissingWorkerDetectorTest, AWorkerAwayForTooLongIsReportedOnce) {
  EXPECT_THAT(Update({1, 2, 3}), IsEmpty());
  clock_.Advance(absl::Seconds(100));
  EXPECT_THAT(Update({2}), ElementsAre(1, 3)) << "nobody was seen for so long";
  EXPECT_THAT(Update({2}), IsEmpty());
}

TEST_F(MissingWorkerDetectorTest, AWorkerThatReturnsInTimeIsNotReported) {
  EXPECT_THAT(Update({1, 2}), IsEmpty());
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(Update({2}), IsEmpty());
  clock_.Advance(absl::Milliseconds(999));
  EXPECT_THAT(Update({1, 2}), IsEmpty());
  clock_.Advance(absl::Milliseconds(2999));
  EXPECT_THAT(Update({2}), IsEmpty());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_THAT(Update({2}), ElementsAre(1));
}

TEST_F(MissingWorkerDetectorTest, ForgiveRestartsTheTime) {
  EXPECT_THAT(Update({1}), IsEmpty());
  clock_.Advance(absl::Seconds(2));
  watch_.Forgive();
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(Update({}), IsEmpty());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Update({}), ElementsAre(1));
}

TEST_F(MissingWorkerDetectorTest, AWorkerThatNeverJoinedIsNotReported) {
  clock_.Advance(absl::Seconds(100));
  EXPECT_THAT(Update({}), IsEmpty());
}

}  // namespace
}  // namespace ding
