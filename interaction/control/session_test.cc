#include "ding_worker/interaction/control/session.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
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
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/session_frame.h"
#include "ding_worker/interaction/control/session_pump.h"
#include "ding_worker/interaction/testing/faulty_transport.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = SessionFrame::Kind;

constexpr absl::Duration kLong = absl::Seconds(60);
// How long a test waits for something that must not happen.
constexpr absl::Duration kShort = absl::Milliseconds(50);
constexpr absl::StatusCode kAborted = absl::StatusCode::kAborted;
constexpr absl::StatusCode kCancelled = absl::StatusCode::kCancelled;
constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// Options with a lease that is too long to matter.
SessionOptions Patient() {
  SessionOptions options;
  options.lease = absl::Minutes(5);
  return options;
}

void WaitUntil(const std::atomic<bool>& condition) {
  const absl::Time deadline = absl::Now() + kLong;
  while (!condition && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(condition);
}

// Waits until the session is over, and returns its status; OK if it does not end.
absl::Status End(const Session& session) {
  const absl::Time deadline = absl::Now() + kLong;
  while (session.status().ok() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  return session.status();
}

// The two ends of a connection. The faults of `faulty` act at the caller's end.
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
        here(Session::Start(std::move(connections.caller), here_options).value()),
        there(Session::Start(std::move(connections.callee), there_options).value()) {
    here->Admit();
    there->Admit();
  }
  explicit Sessions(const SessionOptions& options, const Faults& faults = {})
      : Sessions(options, options, faults) {}

  Connections connections;
  std::unique_ptr<Session> here;
  std::unique_ptr<Session> there;
};

// A session whose peer is the test, which sends and receives frames itself.
struct Puppet {
  explicit Puppet(const SessionOptions& options) {
    InProcessTransport transport;
    const auto listener = transport.Listen("there").value();
    session = Session::Start(transport.Connect("there", kLong).value(), options).value();
    peer = listener->Accept(kLong).value();
  }

  void Send(SessionFrame frame) {
    EXPECT_THAT(peer->Send(EncodeSessionFrame(frame), kLong), IsOk());
  }
  static SessionFrame Message(uint64_t sequence, std::string message) {
    SessionFrame frame;
    frame.kind = Kind::kMessage;
    frame.sequence = sequence;
    frame.message = std::move(message);
    return frame;
  }
  void SendMessage(uint64_t sequence, std::string message) {
    Send(Message(sequence, std::move(message)));
  }
  // Returns the next frame for which `wanted` is true; after the end, a frame with number 0.
  SessionFrame Next(const std::function<bool(const SessionFrame&)>& wanted) {
    while (true) {
      absl::StatusOr<std::string> bytes = peer->Receive(kLong);
      EXPECT_THAT(bytes, IsOk());
      if (!bytes.ok()) return {};
      absl::StatusOr<SessionFrame> frame = DecodeSessionFrame(*std::move(bytes));
      EXPECT_THAT(frame, IsOk());
      if (!frame.ok()) return {};
      if (wanted(*frame)) return *std::move(frame);
    }
  }
  SessionFrame NextNumbered() {
    return Next([](const SessionFrame& frame) { return frame.kind != Kind::kSignOfLife; });
  }

  std::unique_ptr<Session> session;
  std::unique_ptr<Connection> peer;  // destroyed first, so that the session waits for nobody
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

// Sends and receives numbers in both directions at the same time.
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

TEST(Session, AMessageMayBeAnyBytes) {
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

TEST(Session, LateMessagesArriveOnceAndInOrder) {
  Faults faults;
  faults.delay = 0.05;
  faults.max_delay = absl::Milliseconds(5);
  for (const int window : {3, 256}) {
    SessionOptions options = Patient();
    options.window = window;
    Sessions sessions(options, faults);
    ExchangeNumbers(&sessions, 1000);
  }
}

TEST(Session, SendWaitsForTheWindowAlsoIfBothAreFull) {
  SessionOptions options = Patient();
  options.window = 8;
  Sessions sessions(options);
  for (Session* const session : {sessions.here.get(), sessions.there.get()}) {
    SendNumbers(session, options.window);
    EXPECT_THAT(session->Send("8", kShort), StatusIs(kDeadlineExceeded, HasSubstr("there")));
    EXPECT_THAT(session->Send("8", absl::ZeroDuration()), StatusIs(kDeadlineExceeded));
  }
  // The messages that were refused were not sent. The messages that are received make room for
  // others.
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

TEST(Session, ASlowReceiverKeepsTheLease) {
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

// A transport keeps the order and loses nothing: a frame with another number breaks the rules.
TEST(Session, ARepeatedMessageEndsTheSession) {
  Puppet puppet(Patient());
  puppet.SendMessage(1, "one");
  puppet.SendMessage(1, "another one");
  DING_ASSERT_OK_AND_ASSIGN(const std::string message, puppet.session->Receive(kLong));
  EXPECT_EQ(message, "one");
  EXPECT_THAT(puppet.session->Receive(kLong),
              StatusIs(kDataLoss, HasSubstr("message 1, expected message 2")));
  // The peer is told.
  const SessionFrame last = puppet.NextNumbered();
  EXPECT_EQ(last.kind, Kind::kClose);
  EXPECT_THAT(last.message, HasSubstr("message 1, expected message 2"));
}

TEST(Session, AnEarlyMessageEndsTheSession) {
  for (const uint64_t number : {uint64_t{2}, uint64_t{300}, std::numeric_limits<uint64_t>::max()}) {
    Puppet puppet(Patient());
    puppet.SendMessage(number, "early");
    // The session may have closed its connection by now.
    puppet.peer->Send(EncodeSessionFrame(Puppet::Message(1, "one")), kLong).IgnoreError();
    EXPECT_THAT(puppet.session->Receive(kLong),
                StatusIs(kDataLoss, HasSubstr("expected message 1")));
  }
}

TEST(Session, TooManyMessagesEndTheSession) {
  SessionOptions options = Patient();
  options.window = 4;
  Puppet puppet(options);
  for (uint64_t i = 1; i <= 5; ++i) puppet.SendMessage(i, "x");
  EXPECT_THAT(End(*puppet.session),
              StatusIs(kResourceExhausted, HasSubstr("beyond its window: 4 messages")));
  EXPECT_THAT(puppet.NextNumbered().message, HasSubstr("beyond its window"));
}

TEST(Session, ThePeerMaySendFewBytesBeforeItIsAdmitted) {
  {
    // The message is larger than a connection accepts before the peer is admitted.
    Puppet puppet(Patient());
    puppet.SendMessage(1, std::string(kFirstWindowBytes + 1, 'x'));
    EXPECT_THAT(End(*puppet.session),
                StatusIs(kUnavailable, AllOf(HasSubstr("there"), HasSubstr("a message of"))));
  }
  Puppet puppet(Patient());
  const std::string third(kFirstWindowBytes / 3 - kMessageOverheadBytes, 'x');
  for (uint64_t i = 1; i <= 3; ++i) puppet.SendMessage(i, third);
  // The messages that were received make room for others.
  EXPECT_THAT(puppet.session->Receive(kLong), IsOk());
  puppet.SendMessage(4, third);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(puppet.session->Receive(kLong), IsOk());
  puppet.session->Admit();
  EXPECT_EQ(
      puppet.Next([](const SessionFrame& frame) { return frame.window_bytes > kFirstWindowBytes; })
          .window_bytes,
      static_cast<uint64_t>(kWindowBytes));
  puppet.SendMessage(5, std::string(kMaxSessionMessageBytes, 'x'));
  EXPECT_THAT(puppet.session->Receive(kLong), IsOk());
}

TEST(Session, TooManyBytesEndTheSession) {
  Puppet puppet(Patient());
  const std::string third(kFirstWindowBytes / 3 - kMessageOverheadBytes, 'x');
  for (uint64_t i = 1; i <= 4; ++i) puppet.SendMessage(i, third);
  EXPECT_THAT(End(*puppet.session),
              StatusIs(kResourceExhausted, HasSubstr("beyond its window: 3 messages of")));
}

// The sender respects the same bounds.
TEST(Session, SendWaitsForRoomInBytes) {
  Connections connections;
  const auto here = Session::Start(std::move(connections.caller), Patient()).value();
  const auto there = Session::Start(std::move(connections.callee), Patient()).value();
  const std::string half(kFirstWindowBytes / 2 - kMessageOverheadBytes, 'x');
  EXPECT_THAT(here->Send(half, kLong), IsOk());
  EXPECT_THAT(here->Send(half, kLong), IsOk());
  EXPECT_THAT(here->Send("x", kShort),
              StatusIs(kDeadlineExceeded, HasSubstr(absl::StrCat(kFirstWindowBytes))));
  EXPECT_THAT(there->Receive(kLong), IsOk());
  EXPECT_THAT(here->Send(half, kLong), IsOk());
  there->Admit();
  // The side that was not admitted may send more, and takes no more.
  const std::string largest(kMaxSessionMessageBytes, 'x');
  EXPECT_THAT(here->Send(largest, kLong), IsOk());
  EXPECT_THAT(there->Send(largest, kShort), StatusIs(kDeadlineExceeded));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(there->Receive(kLong), IsOk());
  EXPECT_THAT(here->status(), IsOk());
  EXPECT_THAT(there->status(), IsOk());
}

TEST(Session, TheBytesOfAllSessionsAreBounded) {
  SessionOptions options = Patient();
  options.budget = std::make_shared<SessionBudget>(/*bytes=*/1 << 20, /*max_sessions=*/4);
  const int64_t share = (1 << 20) / 2 / 4;
  Puppet greedy(options);
  greedy.session->Admit();
  uint64_t number = 0;
  while (greedy.session->status().ok() && number < 64) {
    greedy.SendMessage(++number, std::string(64 << 10, 'x'));
    while (greedy.session->status().ok() && options.budget->taken() < static_cast<int64_t>(number)
                                                                          << 16) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  EXPECT_THAT(greedy.session->status(),
              StatusIs(kResourceExhausted, HasSubstr("for which there is no room")));
  EXPECT_EQ(number, 8u) << "half of the budget, less what the messages cost besides their bytes";
  // Another session still has its share, for both directions together.
  Puppet modest(options);
  modest.session->Admit();
  modest.SendMessage(1, std::string(static_cast<size_t>(share) / 2, 'x'));
  EXPECT_THAT(modest.session->Receive(kLong), IsOk());
  EXPECT_THAT(modest.session->Send(std::string(kFirstWindowBytes / 2, 'x'), kLong), IsOk());
  EXPECT_THAT(modest.session->status(), IsOk());
  greedy.peer.reset();
  greedy.session.reset();
  modest.peer.reset();
  modest.session.reset();
  EXPECT_EQ(options.budget->taken(), 0) << "all bytes must be returned";
}

TEST(Session, Send_TheBudgetIsSpent_WaitsUntilBytesAreReturned) {
  SessionOptions options = Patient();
  options.budget = std::make_shared<SessionBudget>(/*bytes=*/1000, /*max_sessions=*/5);
  Puppet puppet(options);
  const std::string message(300, 'x');
  EXPECT_THAT(puppet.session->Send(message, kLong), IsOk());
  EXPECT_EQ(options.budget->taken(), 300 + kMessageOverheadBytes);
  EXPECT_THAT(puppet.session->Send(message, kShort), StatusIs(kDeadlineExceeded));
  SessionFrame taken;
  taken.taken = 1;
  puppet.NextNumbered();
  puppet.Send(taken);
  EXPECT_THAT(puppet.session->Send(message, kLong), IsOk());
  puppet.peer.reset();
  puppet.session.reset();
  EXPECT_EQ(options.budget->taken(), 0);
}

TEST(Session, Receive_OfFewMessages_ThePeerIsToldWithinThePeriod) {
  Puppet puppet(Patient());
  puppet.SendMessage(1, "one");
  EXPECT_THAT(puppet.session->Receive(kLong), IsOk());
  EXPECT_TRUE(puppet.Next([](const SessionFrame& frame) { return frame.taken == 1; }).taken == 1);
}

TEST(Session, SilenceForTheLengthOfTheLeaseEndsTheSession) {
  SessionOptions options;
  options.lease = absl::Milliseconds(300);
  Sessions sessions(options);
  SendNumbers(sessions.here.get(), 3);
  ReceiveNumbers(sessions.there.get(), 1);
  sessions.connections.faulty.set_black_hole(true);
  EXPECT_THAT(End(*sessions.here),
              StatusIs(kUnavailable, AllOf(HasSubstr("lease"), HasSubstr("there"))));
  EXPECT_THAT(End(*sessions.there), StatusIs(kUnavailable, HasSubstr("lease")));
  // Messages from before are not received any more, even when the connection comes back.
  sessions.connections.faulty.set_black_hole(false);
  EXPECT_THAT(sessions.there->Receive(kShort), StatusIs(kUnavailable));
  EXPECT_THAT(sessions.there->Send("x", kShort), StatusIs(kUnavailable));
}

TEST(Session, TheEndOfTheLeaseWakesWaitingCalls) {
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

// As after SIGSTOP: the process continues with a call (0 to 2) or with the arrival of a frame (3).
TEST(Session, AProcessStoppedForTheLengthOfTheLeaseLosesItsSession) {
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
    // The message renews the lease.
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
    // The peer learns of it, also if nobody makes a call, and the late message has no effect.
    EXPECT_THAT(End(*sessions.there), StatusIs(kUnavailable));
    EXPECT_THAT(sessions.here->Receive(kLong), StatusIs(kUnavailable, HasSubstr("lease")));
  }
}

TEST(Session, AStoppedProcessReceivesNoEarlierMessages) {
  SimulatedClock clock;
  std::atomic<bool> arrived{false};
  SessionOptions options = Patient();
  options.clock = &clock;
  Puppet puppet(options);
  puppet.session->SetReadyCallback([&arrived] { arrived = true; });
  puppet.SendMessage(1, "one");
  WaitUntil(arrived);
  clock.Advance(options.lease);
  EXPECT_THAT(puppet.session->Receive(kLong), StatusIs(kUnavailable, HasSubstr("lease")));
}

// It may only send the message that it was just about to send.
TEST(Session, AStoppedProcessSendsNoMore) {
  SimulatedClock clock;
  SessionOptions options = Patient();
  options.clock = &clock;
  options.window = kMaxQueuedMessages + 50;
  Puppet puppet(options);
  SendNumbers(puppet.session.get(), options.window);
  clock.Advance(options.lease);
  int sent = 0;
  absl::StatusOr<std::string> bytes = puppet.peer->Receive(kLong);
  for (; bytes.ok(); bytes = puppet.peer->Receive(kLong)) ++sent;
  EXPECT_THAT(bytes, StatusIs(kUnavailable));
  EXPECT_LE(sent, kMaxQueuedMessages + 1);
}

TEST(Session, ThePeerLearnsTheReasonAfterAllMessages) {
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

TEST(Session, TheReasonArrivesAlsoIfTheWindowIsFull) {
  SessionOptions options = Patient();
  options.window = 2;
  Sessions sessions(options);
  SendNumbers(sessions.here.get(), 2);
  sessions.here->Close(std::string(1 << 20, 'x'));
  ReceiveNumbers(sessions.there.get(), 2);
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kAborted, HasSubstr("xxx")));
}

TEST(Session, BothSidesMayCloseAtOnceAndAgain) {
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

TEST(Session, CloseWakesWaitingCalls) {
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

TEST(Session, ADestroyedSessionTellsItsPeer) {
  Sessions sessions(Patient());
  sessions.here.reset();
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kAborted, HasSubstr("owner is gone")));
}

TEST(Session, ABrokenConnectionEndsBothSessions) {
  Sessions sessions(Patient());
  sessions.connections.faulty.Cut();
  EXPECT_THAT(End(*sessions.here), StatusIs(kUnavailable, HasSubstr("there")));
  EXPECT_THAT(sessions.here->Send("x", kLong), StatusIs(kUnavailable));
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kUnavailable));
}

TEST(Session, MessagesFromBeforeTheBreakAreReceived) {
  Puppet puppet(Patient());
  puppet.SendMessage(1, "one");
  puppet.peer.reset();
  EXPECT_THAT(End(*puppet.session), StatusIs(kUnavailable));
  DING_ASSERT_OK_AND_ASSIGN(const std::string message, puppet.session->Receive(kLong));
  EXPECT_EQ(message, "one");
  EXPECT_THAT(puppet.session->Receive(kLong), StatusIs(kUnavailable));
}

TEST(Session, BytesThatAreNotAFrameEndTheSession) {
  for (const std::string& bytes :
       {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1 << 16, '\0')}) {
    Puppet puppet(Patient());
    ASSERT_THAT(puppet.peer->Send(bytes, kLong), IsOk());
    EXPECT_THAT(puppet.session->Receive(kLong), StatusIs(kDataLoss, HasSubstr("there")));
    EXPECT_THAT(puppet.session->Send("x", kLong), StatusIs(kDataLoss));
  }
}

TEST(Session, APeerThatTakesMoreThanWasSentEndsTheSession) {
  Puppet puppet(Patient());
  SendNumbers(puppet.session.get(), 1);
  EXPECT_EQ(puppet.NextNumbered().message, "0");
  SessionFrame frame;
  frame.taken = 2;
  puppet.Send(frame);
  EXPECT_THAT(puppet.session->Receive(kLong), StatusIs(kDataLoss, HasSubstr("2 messages of 1")));
}

TEST(Session, AFrameOfAnotherVersion_EndsTheSessionWithBothVersions) {
  // A message of version 3: kind, number, taken, window, version, checksum.
  std::string frame = "hi\1\1";
  frame.resize(2 + 1 + 3 * 8);
  frame += "\3";
  uint32_t check = 0x811C9DC5;  // FNV-1a
  for (const char c : frame.substr(2)) check = (check ^ static_cast<uint8_t>(c)) * 0x01000193;
  AppendNumber(check, &frame);
  Puppet puppet(Patient());
  ASSERT_THAT(puppet.peer->Send(frame, kLong), IsOk());
  EXPECT_THAT(puppet.session->Receive(kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("there sent a frame of version 3"),
                             HasSubstr("expected version 2"))));
  EXPECT_THAT(puppet.NextNumbered().message, HasSubstr("expected version 2"));
}

// Well-formed frames that break the rules end the session. Messages before them are received.
TEST(SessionFuzz, WellFormedFramesOutOfOrderEndTheSession) {
  Fuzz(100, [](Mutator* mutator) {
    Rng* const rng = mutator->rng();
    SessionOptions options = Patient();
    options.window = 8;
    Puppet puppet(options);
    uint64_t in_order = 0;
    bool good = true;
    for (int i = 0; i < 20; ++i) {
      SessionFrame frame;
      frame.kind = rng->UniformInt(40) == 0 ? Kind::kClose : Kind::kMessage;
      frame.sequence = static_cast<uint64_t>(i) + 1;
      if (rng->UniformInt(20) == 0) frame.sequence = rng->Next64() | 1;
      if (rng->UniformInt(20) == 0) frame.taken = rng->Next64();
      if (rng->UniformInt(4) == 0) frame.window_bytes = rng->Next64();
      frame.message = absl::StrCat(frame.sequence);
      good = good && frame.kind == Kind::kMessage && frame.taken == 0 &&
             frame.sequence == in_order + 1 && in_order < 8;
      in_order += good ? 1 : 0;
      if (!puppet.peer->Send(EncodeSessionFrame(frame), kLong).ok()) break;
    }
    // The session ends in any case, because the frames are more than the window.
    const absl::Status status = End(*puppet.session);
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsAborted(status) ||
                absl::IsResourceExhausted(status))
        << status;
    for (uint64_t next = 1; next <= in_order; ++next) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, puppet.session->Receive(kLong));
      EXPECT_EQ(message, absl::StrCat(next));
    }
    EXPECT_EQ(puppet.session->Receive(kLong).status(), status);
  });
}

// A hundred sessions use two threads, and no more.
TEST(Session, ManySessionsShareTwoThreads) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  {
    InProcessTransport transport;
    const auto listener = transport.Listen("there").value();
    std::vector<std::unique_ptr<Session>> here, there;
    for (int i = 0; i < 50; ++i) {
      here.push_back(Session::Start(transport.Connect("there", kLong).value(), {}).value());
      there.push_back(Session::Start(listener->Accept(kLong).value(), {}).value());
    }
    for (const auto& session : here) SendNumbers(session.get(), 10);
    for (const auto& session : there) ReceiveNumbers(session.get(), 10);
    EXPECT_EQ(threads(), before + SessionPump::kThreads);
  }
  EXPECT_EQ(threads(), before) << "the threads must end with the last session";
}

TEST(Session, MessagesSentBeforeBeginCloseArrive) {
  Sessions sessions(Patient());
  SendNumbers(sessions.here.get(), 10);
  sessions.here->BeginClose("training is done");
  EXPECT_THAT(sessions.here->Receive(kLong), StatusIs(kCancelled, HasSubstr("training is done")));
  ReceiveNumbers(sessions.there.get(), 10);
  EXPECT_THAT(sessions.there->Receive(kLong), StatusIs(kAborted, HasSubstr("training is done")));
}

TEST(Session, SetReadyCallback_ANews_IsCalledOncePerWait) {
  std::atomic<int> told{0};
  Puppet puppet(Patient());
  const auto expect_told = [&told](int times) {
    for (int i = 0; i < 5000 && told < times; ++i) absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(kShort);
    EXPECT_EQ(told, times);
  };
  puppet.session->SetReadyCallback([&told] { ++told; });
  expect_told(0);
  puppet.SendMessage(1, "one");
  expect_told(1);
  puppet.SendMessage(2, "two");
  expect_told(1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(puppet.session->Receive(absl::ZeroDuration()), IsOk());
  }
  puppet.SendMessage(3, "three");
  expect_told(1);  // Nobody has found out yet that there was no message.
  EXPECT_THAT(puppet.session->Receive(absl::ZeroDuration()), IsOk());
  EXPECT_THAT(puppet.session->Receive(absl::ZeroDuration()), StatusIs(kDeadlineExceeded));
  puppet.SendMessage(4, "four");
  expect_told(2);
  EXPECT_FALSE(puppet.session->exhausted());
  puppet.peer->Close();
  expect_told(3);
  EXPECT_FALSE(puppet.session->exhausted());
  EXPECT_THAT(puppet.session->Receive(absl::ZeroDuration()), IsOk());
  EXPECT_TRUE(puppet.session->exhausted());
}

TEST(Session, TheLeaseMayBeSetLater) {
  SimulatedClock clock;
  SessionOptions options = Patient();
  options.clock = &clock;
  Sessions sessions(options);
  sessions.connections.faulty.set_black_hole(true);  // so that nothing renews the lease
  sessions.here->set_lease(absl::Hours(2));
  clock.Advance(absl::Hours(1));
  EXPECT_THAT(sessions.here->status(), IsOk());
  EXPECT_THAT(sessions.there->status(), StatusIs(kUnavailable));
  sessions.here->set_lease(kMinSessionLease);
  EXPECT_THAT(sessions.here->status(), StatusIs(kUnavailable, HasSubstr("20ms")));
}

}  // namespace
}  // namespace ding
