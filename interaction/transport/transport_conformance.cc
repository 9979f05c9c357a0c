#include "ding_worker/interaction/transport/transport_conformance.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"

namespace ding {

using ::testing::HasSubstr;

constexpr absl::StatusCode kAlreadyExists = absl::StatusCode::kAlreadyExists;
constexpr absl::StatusCode kCancelled = absl::StatusCode::kCancelled;
constexpr absl::StatusCode kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// gRPC and the kernel hold some messages besides the queues of both ends.
constexpr int kMaxUnderWay = 4 * kMaxQueuedMessages;
constexpr size_t kFillBytes = 16 << 10;

void TransportConformance::Listen() {
  listener_.reset();
  absl::StatusOr<std::unique_ptr<Listener>> listener =
      transport_->Listen(GetParam().fresh_address());
  ASSERT_THAT(listener, IsOk());
  listener_ = *std::move(listener);
}

TransportConformance::Ends TransportConformance::Connect() {
  Ends ends;
  std::thread caller([this, &ends] {
    absl::StatusOr<std::unique_ptr<Connection>> connection =
        transport_->Connect(listener_->address(), kLong);
    EXPECT_THAT(connection, IsOk());
    if (connection.ok()) ends.caller = *std::move(connection);
  });
  absl::StatusOr<std::unique_ptr<Connection>> connection = listener_->Accept(kLong);
  EXPECT_THAT(connection, IsOk());
  if (connection.ok()) ends.callee = *std::move(connection);
  caller.join();
  return ends;
}

int TransportConformance::Fill(Connection* connection) {
  for (int i = 0; i < kMaxUnderWay; ++i) {
    std::string message = absl::StrCat(i, ":");
    message.resize(kFillBytes);
    const absl::Status sent = connection->Send(std::move(message), absl::Milliseconds(200));
    if (sent.ok()) continue;
    EXPECT_THAT(sent, StatusIs(kDeadlineExceeded, HasSubstr(connection->peer())));
    return i;
  }
  ADD_FAILURE() << kMaxUnderWay << " messages are under way, and there is room for more";
  return kMaxUnderWay;
}

absl::Status TransportConformance::SendStatusOfLost(Connection* connection) {
  const Deadline deadline = Deadline::After(kLong);
  absl::Status status;
  while (status.ok() && !deadline.Passed()) {
    status = connection->Send("anybody there?", kLong);
    absl::SleepFor(absl::Milliseconds(1));
  }
  return status;
}

namespace {

TEST_P(TransportConformance, MessagesArriveInOrderInBothDirections) {
  const Ends ends = Connect();
  for (const auto& [from, to] : {std::pair(ends.caller.get(), ends.callee.get()),
                                 std::pair(ends.callee.get(), ends.caller.get())}) {
    for (int i = 0; i < kMaxQueuedMessages; ++i) {
      ASSERT_THAT(from->Send(absl::StrCat(i), kLong), IsOk());
    }
    for (int i = 0; i < kMaxQueuedMessages; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, to->Receive(kLong));
      ASSERT_EQ(message, absl::StrCat(i));
    }
  }
}

TEST_P(TransportConformance, QuestionsAreAnswered) {
  const Ends ends = Connect();
  std::thread answering([&ends] {
    for (int i = 0; i < 1000; ++i) {
      const absl::StatusOr<std::string> question = ends.callee->Receive(kLong);
      ASSERT_THAT(question, IsOk());
      ASSERT_THAT(ends.callee->Send(absl::StrCat("re: ", *question), kLong), IsOk());
    }
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_THAT(ends.caller->Send(absl::StrCat(i), kLong), IsOk());
    const absl::StatusOr<std::string> answer = ends.caller->Receive(kLong);
    EXPECT_THAT(answer, IsOk());
    if (!answer.ok()) break;
    EXPECT_EQ(*answer, absl::StrCat("re: ", i));
  }
  ends.caller->Close();
  answering.join();
}

TEST_P(TransportConformance, AMessageIsAnyBytesOfAnyLength) {
  const Ends ends = Connect();
  std::string bytes;
  for (int i = 0; i < 1 << 18; ++i) bytes.push_back(static_cast<char>(i * 7 + i / 256));
  const std::string largest(static_cast<size_t>(kMaxMessageBytes), '\xff');
  for (const std::string& message : {std::string(), std::string(1, '\0'), bytes, std::string(),
                                     largest, std::string("\r\n\0end", 6)}) {
    ASSERT_THAT(ends.caller->Send(message, kLong), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const std::string received, ends.callee->Receive(kLong));
    ASSERT_TRUE(received == message) << received.size() << " of " << message.size() << " bytes";
  }
}

TEST_P(TransportConformance, ATooLargeMessageIsRefusedAndTheConnectionGoesOn) {
  const Ends ends = Connect();
  const std::string message(static_cast<size_t>(kMaxMessageBytes) + 1, 'x');
  EXPECT_THAT(ends.caller->Send(message, kLong),
              StatusIs(kInvalidArgument, HasSubstr(absl::StrCat(message.size()))));
  EXPECT_THAT(ends.callee->Send(message, kLong), StatusIs(kInvalidArgument));
  ASSERT_THAT(ends.caller->Send("small", kLong), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string received, ends.callee->Receive(kLong));
  EXPECT_EQ(received, "small");
}

TEST_P(TransportConformance, WaitingEndsAtTheTimeout) {
  EXPECT_THAT(listener_->Accept(absl::ZeroDuration()), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(listener_->Accept(kShort),
              StatusIs(kDeadlineExceeded, HasSubstr(listener_->address())));
  const Ends ends = Connect();
  EXPECT_THAT(ends.caller->Receive(absl::ZeroDuration()), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(ends.callee->Receive(kShort),
              StatusIs(kDeadlineExceeded, HasSubstr(ends.callee->peer())));
  ASSERT_THAT(ends.caller->Send("still there", kLong), IsOk());
  EXPECT_THAT(ends.callee->Receive(kLong), IsOk());
}

TEST_P(TransportConformance, ASenderWaitsWhenTheQueueIsFull) {
  const Ends ends = Connect();
  const int sent = Fill(ends.caller.get());
  EXPECT_GE(sent, kMaxQueuedMessages);
  // The other direction has a queue of its own.
  ASSERT_THAT(ends.callee->Send("wait", kLong), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string wait, ends.caller->Receive(kLong));
  EXPECT_EQ(wait, "wait");
  // The messages that were refused do not arrive.
  for (int i = 0; i < sent; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string message, ends.callee->Receive(kLong));
    ASSERT_EQ(message.size(), kFillBytes);
    ASSERT_EQ(message.substr(0, message.find(':')), absl::StrCat(i));
  }
  EXPECT_THAT(ends.callee->Receive(kShort), StatusIs(kDeadlineExceeded));
  ASSERT_THAT(ends.caller->Send("more", kLong), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string more, ends.callee->Receive(kLong));
  EXPECT_EQ(more, "more");
}

TEST_P(TransportConformance, AWaitingSenderGoesOnWhenThereIsRoom) {
  const Ends ends = Connect();
  const int sent = Fill(ends.caller.get());
  std::thread sender([&ends] { EXPECT_THAT(ends.caller->Send("last", kLong), IsOk()); });
  absl::SleepFor(kShort);
  for (int i = 0; i < sent; ++i) EXPECT_THAT(ends.callee->Receive(kLong), IsOk());
  const absl::StatusOr<std::string> last = ends.callee->Receive(kLong);
  sender.join();
  ASSERT_THAT(last, IsOk());
  EXPECT_EQ(*last, "last");
}

// Uses the connection as a user without a thread of its own does: it tries, and tries again when it
// is called.
TEST_P(TransportConformance, TheReadyCallbackComesWhenAnotherTryIsWorthwhile) {
  const Ends ends = Connect();
  // The callback may still come while `ends` closes, when this variable is gone, so it owns the
  // counter, too.
  const auto calls = std::make_shared<std::atomic<int>>(0);
  const auto call_comes = [&calls](int before) {
    const Deadline deadline = Deadline::After(kLong);
    while (*calls == before && !deadline.Passed()) absl::SleepFor(absl::Milliseconds(1));
    return *calls > before;
  };
  ends.callee->SetReadyCallback([calls] { ++*calls; });
  const auto succeeds = [](const absl::StatusOr<bool>& tried) {
    EXPECT_THAT(tried, IsOk());
    return tried.ok() && *tried;
  };
  // A message to receive.
  std::string message = "as before";
  EXPECT_FALSE(succeeds(ends.callee->TryReceive(&message)));
  EXPECT_EQ(message, "as before");
  int before = *calls;
  ASSERT_THAT(ends.caller->Send("one", kLong), IsOk());
  ASSERT_TRUE(call_comes(before));
  EXPECT_TRUE(succeeds(ends.callee->TryReceive(&message)));
  EXPECT_EQ(message, "one");
  // Room in the queue. A message that was not taken stays in the variable.
  std::string large;
  bool sent = true;
  for (int i = 0; sent && i < kMaxUnderWay; ++i) {
    large.assign(size_t{1} << 20, 'x');
    before = *calls;
    sent = succeeds(ends.callee->TrySend(&large));
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(large.size(), size_t{1} << 20);
  std::thread receiver([&ends] {
    while (ends.caller->Receive(kLong).ok()) {
    }
  });
  while (!sent && call_comes(before)) {
    before = *calls;
    sent = succeeds(ends.callee->TrySend(&large));
  }
  EXPECT_TRUE(sent);
  // The end of the connection.
  EXPECT_FALSE(succeeds(ends.callee->TryReceive(&message)));
  before = *calls;
  ends.caller->Close();
  receiver.join();
  ASSERT_TRUE(call_comes(before));
  const Deadline deadline = Deadline::After(kLong);
  absl::StatusOr<bool> received = false;
  while (received.ok() && !deadline.Passed()) received = ends.callee->TryReceive(&message);
  EXPECT_THAT(received, StatusIs(kUnavailable, HasSubstr(ends.callee->peer())));
  ends.callee->Close();
  EXPECT_THAT(ends.callee->TryReceive(&message), StatusIs(kCancelled));
  EXPECT_THAT(ends.callee->TrySend(&message), StatusIs(kCancelled));
}

TEST_P(TransportConformance, AMessageBeyondTheReceiversLimitEndsTheConnection) {
  for (const bool to_callee : {true, false}) {
    const Ends ends = Connect();
    Connection* const from = (to_callee ? ends.caller : ends.callee).get();
    Connection* const to = (to_callee ? ends.callee : ends.caller).get();
    to->SetMaxReceivedBytes(1000);
    ASSERT_THAT(from->Send(std::string(1000, 'x'), kLong), IsOk());
    ASSERT_THAT(to->Receive(kLong), IsOk());
    to->SetMaxReceivedBytes(kMaxMessageBytes);
    ASSERT_THAT(from->Send(std::string(kMaxMessageBytes, 'x'), kLong), IsOk());
    ASSERT_THAT(to->Receive(kLong), IsOk());
    to->SetMaxReceivedBytes(1000);
    from->Send(std::string(1001, 'x'), kLong).IgnoreError();  // The connection may already be over.
    EXPECT_THAT(to->Receive(kLong), StatusIs(kUnavailable, HasSubstr("a message of 1001 bytes")));
  }
}

// The bytes of a queue are bounded, not only the number of its messages.
TEST_P(TransportConformance, AQueueIsBoundedInBytes) {
  const Ends ends = Connect();
  int64_t sent = 0;
  absl::Status status;
  while (status.ok() && sent < 64) {
    status = ends.caller->Send(std::string(kMaxMessageBytes / 4, 'x'), absl::Milliseconds(500));
    sent += status.ok() ? 1 : 0;
  }
  EXPECT_THAT(status, StatusIs(kDeadlineExceeded));
  // This bounds both queues and the bytes that are under way.
  EXPECT_LE(sent * kMaxMessageBytes / 4, 4 * kMaxQueuedBytes);
}

TEST_P(TransportConformance, MessagesSentBeforeBeginCloseArrive) {
  const Ends ends = Connect();
  for (int i = 0; i < 100; ++i) ASSERT_THAT(ends.caller->Send(absl::StrCat(i), kLong), IsOk());
  ends.caller->BeginClose();
  EXPECT_THAT(ends.caller->Send("x", kLong), StatusIs(kCancelled));
  EXPECT_THAT(ends.caller->Receive(kLong), StatusIs(kCancelled));
  for (int i = 0; i < 100; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string message, ends.callee->Receive(kLong));
    ASSERT_EQ(message, absl::StrCat(i));
  }
  EXPECT_THAT(ends.callee->Receive(kLong), StatusIs(kUnavailable));
  ends.caller->BeginClose();
  ends.caller->Close();
}

TEST_P(TransportConformance, CloseWakesWaitingCalls) {
  const Ends ends = Connect();
  Fill(ends.caller.get());
  std::thread sender([&ends] { EXPECT_THAT(ends.caller->Send("x", kLong), StatusIs(kCancelled)); });
  std::thread receiver([&ends] { EXPECT_THAT(ends.caller->Receive(kLong), StatusIs(kCancelled)); });
  std::thread acceptor([this] { EXPECT_THAT(listener_->Accept(kLong), StatusIs(kCancelled)); });
  absl::SleepFor(kShort);
  ends.caller->Close();
  listener_->Close();
  sender.join();
  receiver.join();
  acceptor.join();
}

TEST_P(TransportConformance, ClosingTwiceHasNoFurtherEffect) {
  const Ends ends = Connect();
  for (int i = 0; i < 2; ++i) {
    ends.caller->Close();
    listener_->Close();
    EXPECT_THAT(ends.caller->Send("x", kLong),
                StatusIs(kCancelled, HasSubstr(ends.caller->peer())));
    EXPECT_THAT(ends.caller->Receive(kLong), StatusIs(kCancelled));
    EXPECT_THAT(listener_->Accept(kLong), StatusIs(kCancelled));
  }
  // Several threads may also close at the same time.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&ends] { ends.callee->Close(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ends.callee->Receive(kLong), StatusIs(kCancelled));
}

TEST_P(TransportConformance, MessagesSentBeforeThePeerClosesArrive) {
  for (const bool caller_goes : {true, false}) {
    Ends ends = Connect();
    std::unique_ptr<Connection> goes = std::move(caller_goes ? ends.caller : ends.callee);
    Connection* const stays = (caller_goes ? ends.callee : ends.caller).get();
    for (int i = 0; i < 100; ++i) ASSERT_THAT(goes->Send(absl::StrCat(i), kLong), IsOk());
    if (caller_goes) {
      goes->Close();
    } else {
      goes.reset();
    }
    for (int i = 0; i < 100; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::string message, stays->Receive(kLong));
      ASSERT_EQ(message, absl::StrCat(i));
    }
    EXPECT_THAT(stays->Receive(kLong), StatusIs(kUnavailable, HasSubstr(stays->peer())));
    EXPECT_THAT(SendStatusOfLost(stays), StatusIs(kUnavailable, HasSubstr(stays->peer())));
    stays->Close();
    EXPECT_THAT(stays->Receive(kLong), StatusIs(kCancelled));
  }
}

TEST_P(TransportConformance, TheEndOfThePeerWakesWaitingCalls) {
  const Ends ends = Connect();
  Fill(ends.caller.get());
  // A peer that closes may still take messages that were under way, so there may be room for one
  // more.
  std::thread sender(
      [this, &ends] { EXPECT_THAT(SendStatusOfLost(ends.caller.get()), StatusIs(kUnavailable)); });
  std::thread receiver(
      [&ends] { EXPECT_THAT(ends.caller->Receive(kLong), StatusIs(kUnavailable)); });
  absl::SleepFor(kShort);
  ends.callee->Close();
  sender.join();
  receiver.join();
}

TEST_P(TransportConformance, AnAddressHasOneListener) {
  const std::string address = listener_->address();
  EXPECT_THAT(transport_->Listen(address), StatusIs(kAlreadyExists, HasSubstr(address)));
  EXPECT_THAT(Connect().caller->Send("x", kLong), IsOk());
  listener_->Close();
  DING_ASSERT_OK_AND_ASSIGN(listener_, transport_->Listen(address));
  EXPECT_EQ(listener_->address(), address);
  EXPECT_THAT(Connect().caller->Send("x", kLong), IsOk());
}

TEST_P(TransportConformance, InvalidAddressesAreRefused) {
  EXPECT_THAT(transport_->Listen(GetParam().bad_address), StatusIs(kInvalidArgument));
  EXPECT_THAT(transport_->Connect(GetParam().bad_address, kLong), StatusIs(kInvalidArgument));
}

TEST_P(TransportConformance, ConnectingWithoutAListenerReachesTheDeadline) {
  const std::string address = GetParam().fresh_address();
  EXPECT_THAT(transport_->Connect(address, absl::Milliseconds(200)),
              StatusIs(kDeadlineExceeded, HasSubstr(address)));
  EXPECT_THAT(transport_->Connect(address, absl::ZeroDuration()), StatusIs(kDeadlineExceeded));
}

TEST_P(TransportConformance, ConnectWaitsForTheListener) {
  const std::string address = GetParam().fresh_address();
  std::thread caller([this, &address] {
    const auto connection = transport_->Connect(address, kLong);
    ASSERT_THAT(connection, IsOk());
    EXPECT_THAT((*connection)->Send("early", kLong), IsOk());
    EXPECT_THAT((*connection)->Receive(kLong), IsOk());
  });
  absl::SleepFor(kShort);
  const auto listener = transport_->Listen(address);
  EXPECT_THAT(listener, IsOk());
  const auto connection = listener.ok() ? (*listener)->Accept(kLong) : listener.status();
  EXPECT_THAT(connection, IsOk());
  if (connection.ok()) {
    EXPECT_THAT((*connection)->Receive(kLong), IsOk());
    EXPECT_THAT((*connection)->Send("late", kLong), IsOk());
  }
  caller.join();
}

TEST_P(TransportConformance, ConnectionsOfOneListenerAreIndependent) {
  const Ends first = Connect();
  const Ends second = Connect();
  Fill(first.caller.get());
  ASSERT_THAT(second.caller->Send("second", kLong), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string message, second.callee->Receive(kLong));
  EXPECT_EQ(message, "second");
  first.callee->Close();
  ASSERT_THAT(second.callee->Send("goes on", kLong), IsOk());
  EXPECT_THAT(second.caller->Receive(kLong), IsOk());
}

TEST_P(TransportConformance, AClosedListenerEndsOnlyConnectionsNotAccepted) {
  const Ends accepted = Connect();
  std::thread caller([this] {
    const auto connection = transport_->Connect(listener_->address(), absl::Seconds(1));
    if (connection.ok()) {
      EXPECT_THAT((*connection)->Receive(kLong), StatusIs(kUnavailable));
    } else {
      EXPECT_THAT(connection, StatusIs(kDeadlineExceeded));
    }
  });
  absl::SleepFor(kShort);
  listener_->Close();
  caller.join();
  ASSERT_THAT(accepted.caller->Send("goes on", kLong), IsOk());
  EXPECT_THAT(accepted.callee->Receive(kLong), IsOk());
}

// On each end two threads send while a third one receives.
TEST_P(TransportConformance, SeveralThreadsMaySendAtATime) {
  constexpr int kMessages = 3000;
  const Ends ends = Connect();
  std::vector<std::thread> threads;
  for (Connection* const end : {ends.caller.get(), ends.callee.get()}) {
    for (int sender = 0; sender < 2; ++sender) {
      threads.emplace_back([end, sender] {
        for (int i = 0; i < kMessages; ++i) {
          ASSERT_THAT(end->Send(absl::StrCat(sender, ":", i), kLong), IsOk());
        }
      });
    }
    threads.emplace_back([end] {
      std::array<int, 2> next{};
      for (int i = 0; i < 2 * kMessages; ++i) {
        const absl::StatusOr<std::string> message = end->Receive(kLong);
        ASSERT_THAT(message, IsOk());
        const std::vector<std::string> parts = absl::StrSplit(*message, ':');
        size_t sender = 0;
        ASSERT_TRUE(absl::SimpleAtoi(parts[0], &sender) && sender < 2) << *message;
        ASSERT_EQ(parts[1], absl::StrCat(next[sender]++));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(TransportConformance, TimesOfAnyLengthWaitOrReturnAtOnce) {
  const Ends ends = Connect();
  for (const absl::Duration none :
       {absl::ZeroDuration(), absl::Nanoseconds(-1), -absl::InfiniteDuration()}) {
    EXPECT_THAT(listener_->Accept(none), StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(ends.caller->Receive(none), StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(ends.caller->Send("x", absl::InfiniteDuration()), IsOk());
    EXPECT_THAT(ends.callee->Receive(absl::InfiniteDuration()), IsOk());
    EXPECT_THAT(transport_->Connect(GetParam().fresh_address(), none),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
}

TEST_P(TransportConformance, AnEmptyReadyCallbackIsNone) {
  const Ends ends = Connect();
  ends.callee->SetReadyCallback(nullptr);
  std::string message;
  EXPECT_THAT(ends.callee->TryReceive(&message), IsOk());
  EXPECT_THAT(ends.caller->Send("x", kLong), IsOk());
  EXPECT_THAT(ends.callee->Receive(kLong), IsOk());
  ends.caller->Close();
  EXPECT_THAT(ends.callee->Receive(kLong), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_P(TransportConformance, LimitsOutOfRangeAreTheNearestOnes) {
  const Ends large = Connect();
  large.callee->SetMaxReceivedBytes(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(large.caller->Send("x", kLong), IsOk());
  EXPECT_THAT(large.callee->Receive(kLong), IsOk());
  for (const int64_t bytes : {int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    const Ends small = Connect();
    small.callee->SetMaxReceivedBytes(bytes);
    small.caller->Send("x", kLong).IgnoreError();
    EXPECT_THAT(small.callee->Receive(kLong), StatusIs(absl::StatusCode::kUnavailable)) << bytes;
  }
}

// Destroys the transport, the listener and both ends in every order.
TEST_P(TransportConformance, MayBeDestroyedInAnyOrder) {
  std::array<int, 4> order = {0, 1, 2, 3};
  do {
    std::unique_ptr<Transport> transport = GetParam().create();
    DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Listener> listener,
                              transport->Listen(GetParam().fresh_address()));
    absl::StatusOr<std::unique_ptr<Connection>> caller;
    std::thread connecting([&transport, &listener, &caller] {
      caller = transport->Connect(listener->address(), kLong);
    });
    absl::StatusOr<std::unique_ptr<Connection>> callee = listener->Accept(kLong);
    connecting.join();
    ASSERT_THAT(caller, IsOk());
    ASSERT_THAT(callee, IsOk());
    for (const int what : order) {
      const bool connected = *caller != nullptr && *callee != nullptr;
      if (connected) {
        ASSERT_THAT((*caller)->Send("x", kLong), IsOk());
        ASSERT_THAT((*callee)->Receive(kLong), IsOk());
      }
      if (what == 0) transport.reset();
      if (what == 1) listener.reset();
      if (what == 2) caller->reset();
      if (what == 3) callee->reset();
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
}  // namespace ding
