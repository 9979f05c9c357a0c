#include "ding_worker/interaction/control/worker_session.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/interaction/testing/message_mutator.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr absl::Duration kShort = absl::Milliseconds(100);

// A coordinator that answers Hello with `answer`.
absl::StatusOr<std::unique_ptr<WorkerSession>> JoinAnswered(const std::string& answer,
                                                            FakeCoordinator* coordinator) {
  return coordinator->JoinWith({}, [&answer](const Hello&, Session* session) {
    EXPECT_THAT(session->Send(answer, kLong), IsOk());
  });
}

TEST(WorkerSessionTest, JoinsAndLearnsTheSettingsOfTheRun) {
  FakeCoordinator coordinator;
  Hello heard;
  DING_ASSERT_OK_AND_ASSIGN(const auto worker, coordinator.JoinWith({}, [&heard](const Hello& hello,
                                                                                 Session* session) {
    heard = hello;
    EXPECT_THAT(session->Send(FakeCoordinator::MakeWelcome().SerializeAsString(), kLong), IsOk());
  }));
  EXPECT_EQ(heard.version().major(), kProtocolMajor) << "Join() fills it in";
  EXPECT_EQ(worker->welcome().worker(), FakeCoordinator::kWorker);
  EXPECT_EQ(worker->welcome().run(), "run-1");

  WorkerMessage message;
  message.mutable_task_started()->set_task_id("task_0");
  EXPECT_THAT(worker->Send(message, kLong), IsOk());
  EXPECT_EQ(coordinator.Receive().task_started().task_id(), "task_0");
  coordinator.CloseTask("task_0");
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorMessage received, worker->Receive(kLong));
  EXPECT_EQ(received.close_task().task_id(), "task_0");
}

TEST(WorkerSessionTest, ARefusalHasTheCoordinatorsReason) {
  FakeCoordinator coordinator;
  EXPECT_THAT(
      coordinator.JoinWith({},
                           [](const Hello&, Session* session) {
                             session->Close("the run is for collectors of weekdays");
                           }),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("collectors of weekdays"), HasSubstr(FakeCoordinator::kAddress))));
}

TEST(WorkerSessionTest, RefusesACoordinatorOfAnotherMajorVersion) {
  FakeCoordinator coordinator;
  CoordinatorMessage welcome = FakeCoordinator::MakeWelcome();
  welcome.mutable_welcome()->mutable_version()->set_major(kProtocolMajor + 1);
  EXPECT_THAT(
      JoinAnswered(welcome.SerializeAsString(), &coordinator),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("protocol version is 3.1")));
}

TEST(WorkerSessionTest, RefusesAnAnswerOtherThanWelcome) {
  for (const std::string& answer : {std::string("\xff\xfe no message"), std::string(), [] {
                                      CoordinatorMessage message;
                                      message.mutable_end_run();
                                      return message.SerializeAsString();
                                    }()}) {
    FakeCoordinator coordinator;
    EXPECT_THAT(JoinAnswered(answer, &coordinator),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("coordinator")))
        << answer.size();
  }
}

TEST(WorkerSessionTest, RefusesAnInvalidLease) {
  for (const double lease : {0.0, -1.0, 0.001, std::nan("")}) {
    FakeCoordinator coordinator;
    CoordinatorMessage welcome = FakeCoordinator::MakeWelcome();
    welcome.mutable_welcome()->set_lease_seconds(lease);
    EXPECT_THAT(JoinAnswered(welcome.SerializeAsString(), &coordinator),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a lease of")))
        << lease;
  }
}

TEST(WorkerSessionTest, WaitsForAListenerUntilTheJoinTimeout) {
  InProcessTransport transport;
  WorkerSession::Options options;
  options.join_timeout = kShort;
  EXPECT_THAT(WorkerSession::Join(&transport, "nobody", {}, options),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("nobody")));
}

// The lease counts only after the Welcome.
TEST(WorkerSessionTest, WaitsForAnAnswerUntilTheJoinTimeout) {
  InProcessTransport transport;
  const std::unique_ptr<Listener> silent = transport.Listen("silent").value();
  WorkerSession::Options options;
  options.session.lease = absl::Milliseconds(50);
  options.join_timeout = absl::Milliseconds(500);
  EXPECT_THAT(WorkerSession::Join(&transport, "silent", {}, options),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("silent")));
}

// Each side judges the lease by its own clock.
TEST(WorkerSessionTest, TakesTheLeaseFromWelcome) {
  for (const bool told : {false, true}) {
    SimulatedClock clock;
    FakeCoordinator coordinator;
    WorkerSession::Options options;
    options.session.clock = &clock;
    options.session.lease = absl::Minutes(1);
    DING_ASSERT_OK_AND_ASSIGN(
        const auto worker, coordinator.JoinWith(options, [told](const Hello&, Session* session) {
          CoordinatorMessage welcome = FakeCoordinator::MakeWelcome();
          if (told) welcome.mutable_welcome()->set_lease_seconds(3600);
          EXPECT_THAT(session->Send(welcome.SerializeAsString(), kLong), IsOk());
        }));
    clock.Advance(absl::Minutes(5));
    EXPECT_EQ(worker->status().ok(), told) << worker->status();
  }
}

TEST(WorkerSessionTest, AnInvalidMessageIsAnError) {
  FakeCoordinator coordinator;
  const std::unique_ptr<WorkerSession> worker = coordinator.Join();
  EXPECT_THAT(coordinator.session()->Send("\xff\xff", kLong), IsOk());
  EXPECT_THAT(worker->Receive(kLong), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(WorkerSessionTest, AfterTheEndEveryCallReturnsTheReason) {
  FakeCoordinator coordinator;
  const std::unique_ptr<WorkerSession> worker = coordinator.Join();
  coordinator.session()->Close("enough");
  EXPECT_THAT(worker->Receive(kLong), StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  WorkerMessage message;
  message.mutable_status_request();
  EXPECT_THAT(worker->Send(message, kLong),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  EXPECT_THAT(worker->status(), StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
}

TEST(WorkerSessionFuzz, JoinEndsAfterAnyAnswer) {
  std::map<absl::StatusCode, int> outcomes;
  Fuzz(300, [&outcomes](Mutator* mutator) {
    FakeCoordinator coordinator;
    CoordinatorMessage welcome = FakeCoordinator::MakeWelcome();
    welcome.mutable_welcome()->set_lease_seconds(5);
    MutateMessage(mutator, &welcome);
    std::string bytes = welcome.SerializeAsString();
    if (mutator->rng()->UniformInt(4) == 0) bytes = mutator->Mutate(bytes);
    const auto joined = coordinator.JoinWith({}, [&bytes](const Hello&, Session* session) {
      EXPECT_THAT(session->Send(bytes, kLong), IsOk());
    });
    ++outcomes[joined.status().code()];
  });
  EXPECT_GE(outcomes.size(), 3u)
      << "expected a join, another version, and an answer that is not a Welcome";
}

}  // namespace
}  // namespace ding
