#include "ding_worker/interaction/session.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/in_process_transport.h"
#include "ding_worker/interaction/session_frame.h"
#include "ding_worker/interaction/testing/faulty_transport.h"
#include "ding_worker/interaction/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = SessionFrame::Kind;

constexpr absl::Duration kLong = absl::Seconds(60);
// For what is not to happen.
constexpr absl::Duration kShort = absl::Milliseconds(50);
constexpr absl::StatusCode kAborted = absl::StatusCode::kAborted;
constexpr absl::StatusCode kCancelled = absl::StatusCode::kCancelled;
constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// Too long to matter.
SessionOptions Patient() {
  SessionOptions options;
  options.lease = absl::Minutes(5);
  return options;
}

// Waits until the session is over; OK if it does not end.
absl::Status End(const Session& session) {
  const absl::Time deadline = absl::Now() + kLong;
  while (session.status().ok() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  return session.status();
}

// Two connections that are tied to each other, by way of `faulty` at the caller's end.
struct Connections {
  explicit Connections(const Faults& faults = {}) : faulty(&base, faults) {
    listener = base.Listen("there").value();
    caller = faulty.Connect("there", kLong).value();
    callee = listener->Accept(kLong).value();
  }

  InProcessTransport base;
  FaultyTransport faulty;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> caller;
  std::unique_ptr<Connection> callee;
};

struct Sessions {
  Sessions(const SessionOptions& here_options, const SessionOptions& there_options,
           const Faults& faults = {})
      : connections(faults),
        here(Session::Start(std::move(connections.caller), here_options)),
        there(Session::Start(std::move(connections.callee), there_options)) {}
  explicit Sessions(const SessionOptions& options, const Faults& faults = {})
      : Sessions(options, options, faults) {}

  Connections connections;
  std::unique_ptr<Session> here;
  std::unique_ptr<Session> there;
};

// A session whose peer is the test.
struct Puppet {
  explicit Puppet(const SessionOptions& options) {
    InProcessTransport transport;
    const auto listener = transport.Listen("there").value();
    session = Session::Start(transport.Connect("there", kLong).value(), options);
    peer = listener->Accept(kLong).value();
  }

  void Send(SessionFrame frame) {
    EXPECT_THAT(peer->Send(EncodeSessionFrame(std::move(frame)), kLong), IsOk());
  }
  void SendMessage(uint64_t sequence, std::string message, uint64_t acknowledged = 0) {
    SessionFrame frame;
    frame.kind = Kind::kMessage;
    frame.sequence = sequence;
    frame.acknowledged = acknowledged;
    frame.message = std::move(message);
    Send(std::move(frame));
  }
  // The next one that carries a message or acknowledges at least `acknowledged` of them.
  SessionFrame Next(uint64_t acknowledged = std::numeric_limits<uint64_t>::max()) {
    while (true) {
      absl::StatusOr<std::string> bytes = peer->Receive(kLong);
      EXPECT_THAT(bytes, IsOk());
      if (!bytes.ok()) return {};
      absl::StatusOr<SessionFrame> frame = DecodeSessionFrame(*std::move(bytes));
      EXPECT_THAT(frame, IsOk());
      if (!frame.ok()) return {};
      if (frame->kind != Kind::kAcknowledgement || frame->acknowledged >= acknowledged) {
        return *std::move(frame);
      }
    }
  }

  std::unique_ptr<Session> session;
  std::unique_ptr<Connection> peer;  // goes first, so that the session waits for nobody
};

void SendNumbers(Session* session, int count) {
  for (int i = 0; i < count; ++i) ASSERT_THAT(session->Send(absl::StrCat(i), kLong), IsOk());
}
void ReceiveNumbers(Session* session, int count) {
  for (int i = 0; i < count; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string message, session->Receive(kLong));
    ASSERT_EQ(message, absl::StrCat(i));
  }
}

// Both directions at a time.
void ExchangeNumbers(Sessions* sessions, int count) {
  std::vector<std::thread> threads;
  for (Session* const session : {sessions->here.get(), sessions->there.get()}) {
    threads.emplace_back([session, count] { SendNumbers(session, count); });
    threads.emplace_back([session, count] { ReceiveNumbers(session, count); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Session, MessagesArriveOnceAndInOrder) {
  Sessions sessions(Patient());
  ExchangeNumbers(&sessions, 20000);
  EXPECT_THAT(sessions.here->status(), IsOk());
  EXPECT_THAT(sessions.there->status(), IsOk());
}

TEST(Session, MessagesAreAnyBytes) {
  Sessions sessions(Patient());
  const std::string largest(static_cast<size_t>(kMaxSessionMessageBytes), '\xff');
  for (const std::string& message : {std::string(), std::string(40, '\0'), largest}) {
    ASSERT_THAT(sessions.here->Send(message, kLong), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const std::string received, sessions.there->Receive(kLong));
    ASSERT_TRUE(received == message);
  }
  EXPECT_THAT(sessions.here->Send(largest + "x", kLong),
              StatusIs(kInvalidArgument, HasSubstr("there")));
  EXPECT_THAT(sessions.here->status(), IsOk());
}

// The parameter is the seed of the faults.
class SessionFaultTest : public testing::TestWithParam<uint64_t> {
 protected:
  static SessionOptions Quick() {
    SessionOptions options;
    // Heartbeats repair a lost word on what was taken.
    options.lease = absl::Seconds(20);
    options.resend = absl::Milliseconds(8);
    return options;
  }
  Faults Seeded() const {
    Faults faults;
    faults.seed = GetParam();
    return faults;
  }
};

INSTANTIATE_TEST_SUITE_P(Seeds, SessionFaultTest, testing::Values(1, 2, 3),
                         testing::PrintToStringParamName());

TEST_P(SessionFaultTest, Losses) {
  Faults faults = Seeded();
  faults.lose = 0.1;
  Sessions sessions(Quick(), faults);
  ExchangeNumbers(&sessions, 2000);
}

TEST_P(SessionFaultTest, Repeats) {
  Faults faults = Seeded();
  faults.repeat = 0.3;
  Sessions sessions(Quick(), faults);
  ExchangeNumbers(&sessions, 5000);
}

TEST_P(SessionFaultTest, Disorder) {
  Faults faults = Seeded();
  faults.delay = 0.2;
  Sessions sessions(Quick(), faults);
  ExchangeNumbers(&sessions, 5000);
}

TEST_P(SessionFaultTest, EverythingInANarrowWindow) {
  Faults faults = Seeded();
  faults.lose = 0.05;
  faults.repeat = 0.1;
  faults.delay = 0.1;
  faults.max_delay = absl::Milliseconds(5);
  SessionOptions options = Quick();
  options.lease = absl::Seconds(2);
  options.window = 3;
  Sessions sessions(options, faults);
  ExchangeNumbers(&sessions, 500);
  options.window = 256;
  Sessions wide(options, faults);
  ExchangeNumbers(&wide, 3000);
}

TEST_P(SessionFaultTest, TheReasonOfAClose) {
  Faults faults = Seeded();
  faults.lose = 0.2;
  Sessions sessions(Quick(), faults);
  SendNumbers(sessions.here.get(), 10);
  sessions.here->Close("training is done");
  ReceiveNumbers(sessions.there.get(), 10);
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kAborted, HasSubstr("training is done")));
}

TEST(Session, WindowsOfDifferentSize) {
  SessionOptions narrow = Patient();
  narrow.window = 2;
  narrow.resend = absl::Milliseconds(4);
  SessionOptions wide = narrow;
  wide.window = 64;
  Sessions sessions(narrow, wide);
  ExchangeNumbers(&sessions, 300);
}

TEST(Session, SendWaitsForTheWindowAndBothMayBeFull) {
  SessionOptions options = Patient();
  options.window = 8;
  Sessions sessions(options);
  for (Session* const session : {sessions.here.get(), sessions.there.get()}) {
    SendNumbers(session, options.window);
    EXPECT_THAT(session->Send("8", kShort), StatusIs(kDeadlineExceeded, HasSubstr("there")));
    EXPECT_THAT(session->Send("8", absl::ZeroDuration()), StatusIs(kDeadlineExceeded));
  }
  // What was refused was not sent, and there is room again for what is taken.
  ReceiveNumbers(sessions.there.get(), 4);
  for (int i = 8; i < 12; ++i) ASSERT_THAT(sessions.here->Send(absl::StrCat(i), kLong), IsOk());
  EXPECT_THAT(sessions.here->Send("x", kShort), StatusIs(kDeadlineExceeded));
  for (int i = 4; i < 12; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string message, sessions.there->Receive(kLong));
    EXPECT_EQ(message, absl::StrCat(i));
  }
  EXPECT_THAT(sessions.there->Receive(kShort), StatusIs(kDeadlineExceeded));
  ReceiveNumbers(sessions.here.get(), 8);
}

TEST(Session, WhoIsSlowToReceiveKeepsTheLease) {
  SessionOptions options;
  options.lease = absl::Seconds(1);
  options.window = 4;
  Sessions sessions(options);
  SendNumbers(sessions.here.get(), 4);
  absl::SleepFor(2 * options.lease);
  ReceiveNumbers(sessions.there.get(), 4);
  EXPECT_THAT(sessions.here->status(), IsOk());
  EXPECT_THAT(sessions.there->status(), IsOk());
}

// What arrived and is only waiting for the user is not sent again.
TEST(Session, WhatHasArrivedIsNotSentAgain) {
  SessionOptions options = Patient();
  options.resend = absl::Milliseconds(20);
  Puppet puppet(options);
  SendNumbers(puppet.session.get(), 2);
  EXPECT_EQ(puppet.Next().sequence, 1u);
  EXPECT_EQ(puppet.Next().sequence, 2u);
  // The first is missed, so it comes again.
  EXPECT_EQ(puppet.Next().sequence, 1u);
  SessionFrame frame;
  frame.acknowledged = 2;
  puppet.Send(frame);
  ASSERT_THAT(puppet.session->Send("2", kLong), IsOk());
  // Some copies of the first may have been on their way.
  SessionFrame next = puppet.Next();
  while (next.sequence == 1) next = puppet.Next();
  EXPECT_EQ(next.sequence, 3u);
}

TEST(Session, RepeatsAndEarlyOnesAndThoseBeyondTheWindow) {
  SessionOptions options = Patient();
  options.window = 4;
  Puppet puppet(options);
  puppet.SendMessage(3, "three");
  puppet.SendMessage(2, "two");
  puppet.SendMessage(3, "another three");
  // Beyond the window, which nobody has made any room in.
  puppet.SendMessage(7, "seven");
  puppet.SendMessage(std::numeric_limits<uint64_t>::max(), "the last");
  EXPECT_THAT(puppet.session->Receive(kShort), StatusIs(kDeadlineExceeded));
  puppet.SendMessage(1, "one");
  EXPECT_EQ(puppet.Next(3).acknowledged, 3u);
  puppet.SendMessage(1, "another one");
  EXPECT_EQ(puppet.Next(3).acknowledged, 3u);
  for (const char* const expected : {"one", "two", "three"}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string message, puppet.session->Receive(kLong));
    EXPECT_EQ(message, expected);
  }
  puppet.SendMessage(4, "four");
  puppet.SendMessage(5, "five");
  puppet.SendMessage(6, "six");
  for (const char* const expected : {"four", "five", "six"}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string message, puppet.session->Receive(kLong));
    EXPECT_EQ(message, expected);
  }
  EXPECT_THAT(puppet.session->Receive(kShort), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(puppet.session->status(), IsOk());
}

TEST(Session, WhoHearsNothingForTheLengthOfTheLeaseEndsTheSession) {
  SessionOptions options;
  options.lease = absl::Milliseconds(300);
  Sessions sessions(options);
  SendNumbers(sessions.here.get(), 3);
  ReceiveNumbers(sessions.there.get(), 1);
  sessions.connections.faulty.set_black_hole(true);
  EXPECT_THAT(End(*sessions.here),
              StatusIs(kUnavailable, AllOf(HasSubstr("lease"), HasSubstr("there"))));
  EXPECT_THAT(End(*sessions.there), StatusIs(kUnavailable, HasSubstr("lease")));
  // What is left of before is not handed out, even when the connection comes back.
  sessions.connections.faulty.set_black_hole(false);
  EXPECT_THAT(sessions.there->Receive(kShort), StatusIs(kUnavailable));
  EXPECT_THAT(sessions.there->Send("x", kShort), StatusIs(kUnavailable));
}

TEST(Session, TheEndOfTheLeaseWakesWhoeverWaits) {
  SessionOptions options;
  options.lease = absl::Milliseconds(300);
  options.window = 2;
  Sessions sessions(options);
  sessions.connections.faulty.set_black_hole(true);
  SendNumbers(sessions.here.get(), options.window);
  std::thread sender([&sessions] {
    EXPECT_THAT(sessions.here->Send("x", kLong), StatusIs(kUnavailable, HasSubstr("lease")));
  });
  EXPECT_THAT(sessions.here->Receive(kLong), StatusIs(kUnavailable, HasSubstr("lease")));
  sender.join();
}

// As after SIGSTOP: the first thing that happens is a call, or the arrival of a frame.
TEST(Session, WhoWasStoppedForTheLengthOfTheLeaseIsOut) {
  for (int call = 0; call < 4; ++call) {
    SCOPED_TRACE(call);
    SimulatedClock clock;
    SessionOptions stopped = Patient();
    stopped.clock = &clock;
    Sessions sessions(stopped, Patient());
    SendNumbers(sessions.there.get(), 3);
    ReceiveNumbers(sessions.here.get(), 1);
    clock.Advance(stopped.lease - absl::Nanoseconds(1));
    EXPECT_THAT(sessions.here->status(), IsOk());
    // Renews the lease.
    ASSERT_THAT(sessions.there->Send("3", kLong), IsOk());
    for (int i = 1; i < 4; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, sessions.here->Receive(kLong));
      ASSERT_EQ(message, absl::StrCat(i));
    }
    clock.Advance(stopped.lease - absl::Nanoseconds(1));
    EXPECT_THAT(sessions.here->status(), IsOk());
    clock.Advance(stopped.lease);
    ASSERT_THAT(sessions.there->Send("late", kLong), IsOk());
    if (call == 0) {
      EXPECT_THAT(sessions.here->status(), StatusIs(kUnavailable));
    }
    if (call == 1) {
      EXPECT_THAT(sessions.here->Send("x", kLong), StatusIs(kUnavailable));
    }
    if (call == 2) {
      EXPECT_THAT(sessions.here->Receive(kLong), StatusIs(kUnavailable, HasSubstr("lease")));
    }
    // Nobody calls: the peer learns of it all the same, and what came late has no effect.
    EXPECT_THAT(End(*sessions.there), StatusIs(kUnavailable));
    EXPECT_THAT(sessions.here->Receive(kLong), StatusIs(kUnavailable, HasSubstr("lease")));
  }
}

TEST(Session, WhoWasStoppedDoesNotReceiveWhatHadArrived) {
  SimulatedClock clock;
  SessionOptions options = Patient();
  options.clock = &clock;
  Puppet puppet(options);
  puppet.SendMessage(1, "one");
  EXPECT_EQ(puppet.Next(1).acknowledged, 1u);
  clock.Advance(options.lease);
  EXPECT_THAT(puppet.session->Receive(kLong), StatusIs(kUnavailable, HasSubstr("lease")));
}

// But for the message that it was just about to send.
TEST(Session, WhoWasStoppedSendsNoMore) {
  SimulatedClock clock;
  SessionOptions options = Patient();
  options.clock = &clock;
  options.window = kMaxQueuedMessages + 50;
  // Only the writer, whom the connection holds up, has a reason to wake.
  options.resend = options.lease;
  Puppet puppet(options);
  SendNumbers(puppet.session.get(), options.window);
  clock.Advance(options.lease);
  int sent = 0;
  absl::StatusOr<std::string> bytes = puppet.peer->Receive(kLong);
  for (; bytes.ok(); bytes = puppet.peer->Receive(kLong)) ++sent;
  EXPECT_THAT(bytes, StatusIs(kUnavailable));
  EXPECT_LE(sent, kMaxQueuedMessages + 1);
}

TEST(Session, ThePeerLearnsTheReasonBehindWhatWasSent) {
  Sessions sessions(Patient());
  SendNumbers(sessions.here.get(), 100);
  sessions.here->Close("training is done");
  EXPECT_THAT(sessions.here->status(), StatusIs(kCancelled, HasSubstr("training is done")));
  EXPECT_THAT(sessions.here->Send("x", kLong), StatusIs(kCancelled));
  EXPECT_THAT(sessions.here->Receive(kLong), StatusIs(kCancelled));
  ReceiveNumbers(sessions.there.get(), 100);
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kAborted, HasSubstr("training is done")));
  EXPECT_THAT(sessions.there->Send("x", kLong), StatusIs(kAborted));
  sessions.there->Close("me too");
  EXPECT_THAT(sessions.there->status(), StatusIs(kAborted));
}

TEST(Session, TheReasonFindsRoomInAFullWindow) {
  SessionOptions options = Patient();
  options.window = 2;
  Sessions sessions(options);
  SendNumbers(sessions.here.get(), 2);
  sessions.here->Close(std::string(1 << 20, 'x'));
  ReceiveNumbers(sessions.there.get(), 2);
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kAborted, HasSubstr("xxx")));
}

TEST(Session, BothMayCloseAtATimeAndAgain) {
  for (int i = 0; i < 20; ++i) {
    Sessions sessions(Patient());
    std::vector<std::thread> threads;
    for (Session* const session : {sessions.here.get(), sessions.there.get()}) {
      for (int j = 0; j < 2; ++j) threads.emplace_back([session] { session->Close("bye"); });
    }
    for (std::thread& thread : threads) thread.join();
    sessions.here->Close("again");
    EXPECT_FALSE(sessions.here->status().ok());
    EXPECT_FALSE(sessions.there->status().ok());
  }
}

TEST(Session, CloseWakesWhoeverWaits) {
  SessionOptions options = Patient();
  options.window = 1;
  Sessions sessions(options);
  SendNumbers(sessions.here.get(), 1);
  std::thread sender(
      [&sessions] { EXPECT_THAT(sessions.here->Send("x", kLong), StatusIs(kCancelled)); });
  std::thread receiver(
      [&sessions] { EXPECT_THAT(sessions.here->Receive(kLong), StatusIs(kCancelled)); });
  absl::SleepFor(kShort);
  sessions.here->Close("enough");
  sender.join();
  receiver.join();
}

TEST(Session, APeerThatIsDestroyedSaysSo) {
  Sessions sessions(Patient());
  sessions.here.reset();
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kAborted, HasSubstr("owner is gone")));
}

TEST(Session, AConnectionThatBreaks) {
  Sessions sessions(Patient());
  sessions.connections.faulty.Cut();
  EXPECT_THAT(End(*sessions.here), StatusIs(kUnavailable, HasSubstr("there")));
  EXPECT_THAT(sessions.here->Send("x", kLong), StatusIs(kUnavailable));
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kUnavailable));
}

TEST(Session, WhatCameBeforeTheConnectionBrokeIsHandedOut) {
  Puppet puppet(Patient());
  puppet.SendMessage(1, "one");
  EXPECT_EQ(puppet.Next(1).acknowledged, 1u);
  puppet.peer.reset();
  EXPECT_THAT(End(*puppet.session), StatusIs(kUnavailable));
  DING_ASSERT_OK_AND_ASSIGN(const std::string message, puppet.session->Receive(kLong));
  EXPECT_EQ(message, "one");
  EXPECT_THAT(puppet.session->Receive(kLong), StatusIs(kUnavailable));
}

TEST(Session, APeerThatSpeaksSomethingElse) {
  for (const std::string& bytes :
       {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1 << 16, '\0')}) {
    Puppet puppet(Patient());
    ASSERT_THAT(puppet.peer->Send(bytes, kLong), IsOk());
    EXPECT_THAT(puppet.session->Receive(kLong), StatusIs(kDataLoss, HasSubstr("there")));
    EXPECT_THAT(puppet.session->Send("x", kLong), StatusIs(kDataLoss));
  }
}

TEST(Session, APeerThatAcknowledgesWhatWasNotSent) {
  Puppet puppet(Patient());
  SendNumbers(puppet.session.get(), 1);
  EXPECT_EQ(puppet.Next().message, "0");
  SessionFrame frame;
  frame.acknowledged = 2;
  puppet.Send(frame);
  EXPECT_THAT(puppet.session->Receive(kLong), StatusIs(kDataLoss, HasSubstr("2 of 1")));
}

TEST(SessionFuzz, MutantsOfAFrame) {
  SessionFrame frame;
  frame.kind = Kind::kMessage;
  frame.sequence = 7;
  frame.acknowledged = 5;
  frame.taken = 3;
  frame.message = "a message";
  const std::string good = EncodeSessionFrame(frame);
  Fuzz(50000, [&good](Mutator* mutator) {
    const std::string bytes = mutator->Mutate(good);
    const absl::StatusOr<SessionFrame> decoded = DecodeSessionFrame(bytes);
    if (decoded.ok()) {
      EXPECT_EQ(EncodeSessionFrame(*decoded), bytes);
    } else {
      EXPECT_THAT(decoded, StatusIs(kDataLoss));
    }
  });
}

// Well-formed nonsense: either it is dropped or it ends the session; nothing is handed out twice or
// out of order.
TEST(SessionFuzz, WellFormedFrames) {
  Fuzz(100, [](Mutator* mutator) {
    Rng* const rng = mutator->rng();
    SessionOptions options = Patient();
    options.window = 8;
    Puppet puppet(options);
    for (int i = 0; i < 200; ++i) {
      SessionFrame frame;
      frame.kind = rng->UniformInt(200) == 0 ? Kind::kClose : Kind::kMessage;
      frame.sequence = rng->UniformInt(8) == 0 ? rng->Next64() | 1 : 1 + rng->UniformInt(40);
      if (rng->UniformInt(400) == 0) frame.acknowledged = rng->Next64();
      if (frame.acknowledged > 0) frame.taken = rng->UniformInt(frame.acknowledged);
      frame.message = absl::StrCat(frame.sequence);
      if (!puppet.peer->Send(EncodeSessionFrame(frame), kLong).ok()) break;
    }
    for (uint64_t next = 1;; ++next) {
      const absl::StatusOr<std::string> message =
          puppet.session->Receive(absl::Milliseconds(next > 20 ? 0 : 5));
      if (!message.ok()) break;
      EXPECT_EQ(*message, absl::StrCat(next));
    }
    const absl::Status status = puppet.session->status();
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status) || absl::IsAborted(status)) << status;
  });
}

TEST(SessionTest, ALeaseMayBeSetLater) {
  SimulatedClock clock;
  SessionOptions options = Patient();
  options.clock = &clock;
  Sessions sessions(options);
  // While nothing arrives, so that nothing renews it.
  sessions.connections.faulty.set_black_hole(true);
  sessions.here->set_lease(absl::Hours(2));
  clock.Advance(absl::Hours(1));
  EXPECT_THAT(sessions.here->status(), IsOk());
  EXPECT_THAT(sessions.there->status(), StatusIs(kUnavailable));
  sessions.here->set_lease(kMinSessionLease);
  EXPECT_THAT(sessions.here->status(), StatusIs(kUnavailable, HasSubstr("20ms")));
}

}  // namespace
}  // namespace ding
