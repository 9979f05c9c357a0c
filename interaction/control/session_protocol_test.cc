#include "ding_worker/interaction/control/session_protocol.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/session_budget.h"
#include "ding_worker/interaction/control/session_frame.h"
#include "ding_worker/interaction/control/session_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;
using Kind = SessionFrame::Kind;

constexpr absl::Duration kLease = absl::Seconds(8);

struct Counts : SessionProtocol::Observer {
  void OnRoom() override { ++room; }
  void OnArrived() override { ++arrived; }
  void OnEnd() override { ++ended; }

  int room = 0;
  int arrived = 0;
  int ended = 0;
};

class SessionProtocolTest : public testing::Test {
 protected:
  struct Side {
    Side(const SessionOptions& options, const std::string& peer)
        : protocol(options, peer, &counts) {}

    bool Send(std::string message) { return protocol.Send(&message); }
    std::string Receive() {
      bool tell = false;
      return protocol.Receive(&tell);
    }

    Counts counts;
    SessionProtocol protocol;
  };

  SessionProtocolTest() {
    options_.lease = kLease;
    options_.window = 4;
    options_.clock = &clock_;
    Restart();
  }
  void Restart() {
    here_ = std::make_unique<Side>(options_, "there");
    there_ = std::make_unique<Side>(options_, "here");
  }
  // Carries all frames of one side to the other, while that one lives.
  static void Carry(Side* from, Side* to) {
    std::string frame;
    while (from->protocol.NextFrame(&frame)) {
      if (to->protocol.status().ok()) to->protocol.Take(std::move(frame));
    }
  }
  static void TakeMessage(Side* to, uint64_t sequence, std::string message, uint64_t taken = 0) {
    SessionFrame frame;
    frame.kind = Kind::kMessage;
    frame.sequence = sequence;
    frame.taken = taken;
    frame.message = std::move(message);
    to->protocol.Take(EncodeSessionFrame(frame));
  }

  SimulatedClock clock_;
  SessionOptions options_;
  std::unique_ptr<Side> here_;
  std::unique_ptr<Side> there_;
};

TEST_F(SessionProtocolTest, MessagesArriveInOrder) {
  for (const char* const message : {"1", "2", "3"}) EXPECT_TRUE(here_->Send(message));
  EXPECT_FALSE(here_->protocol.sent_all());
  Carry(here_.get(), there_.get());
  EXPECT_TRUE(here_->protocol.sent_all());
  EXPECT_EQ(there_->counts.arrived, 3);
  for (const char* const message : {"1", "2", "3"}) {
    ASSERT_TRUE(there_->protocol.has_message());
    EXPECT_EQ(there_->Receive(), message);
  }
  EXPECT_FALSE(there_->protocol.has_message());
}

TEST_F(SessionProtocolTest, AFrameThatWasNotTakenIsTheNextOneAgain) {
  here_->Send("1");
  here_->Send("2");
  std::string first, again, second;
  ASSERT_TRUE(here_->protocol.NextFrame(&first));
  here_->protocol.PutBack(first);
  EXPECT_FALSE(here_->protocol.sent_all());
  ASSERT_TRUE(here_->protocol.NextFrame(&again));
  EXPECT_TRUE(again == first);
  ASSERT_TRUE(here_->protocol.NextFrame(&second));
  EXPECT_FALSE(second == first);
  EXPECT_FALSE(here_->protocol.NextFrame(&second));
}

TEST_F(SessionProtocolTest, TheWindowHasRoomAgainWhenThePeerHasReceived) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(here_->Send(absl::StrCat(i)));
  std::string fifth = "fifth";
  EXPECT_FALSE(here_->protocol.Send(&fifth));
  EXPECT_EQ(fifth, "fifth");
  EXPECT_THAT(here_->protocol.NoRoom(5, absl::Seconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("4 messages of")));
  Carry(here_.get(), there_.get());
  EXPECT_FALSE(here_->protocol.Send(&fifth)) << "nobody has received them";
  // A quarter of the window is told at once.
  bool tell = false;
  there_->protocol.Receive(&tell);
  EXPECT_TRUE(tell);
  Carry(there_.get(), here_.get());
  EXPECT_EQ(here_->counts.room, 1);
  EXPECT_TRUE(here_->protocol.Send(&fifth));
  EXPECT_FALSE(here_->Send("sixth"));
}

TEST_F(SessionProtocolTest, ReceiptsAreReportedAtTheEndOfThePeriodAtTheLatest) {
  options_.window = 100;
  Restart();
  here_->Send("1");
  Carry(here_.get(), there_.get());
  bool tell = true;
  there_->protocol.Receive(&tell);
  EXPECT_FALSE(tell);
  std::string frame;
  EXPECT_FALSE(there_->protocol.NextFrame(&frame));
  there_->protocol.TellPeer(/*silent=*/false);
  EXPECT_TRUE(there_->protocol.NextFrame(&frame));
  there_->protocol.TellPeer(/*silent=*/false);
  EXPECT_FALSE(there_->protocol.NextFrame(&frame)) << "it knows that already";
  there_->protocol.TellPeer(/*silent=*/true);
  EXPECT_TRUE(there_->protocol.NextFrame(&frame));
}

TEST_F(SessionProtocolTest, FewBytesUntilThePeerIsAdmitted) {
  const std::string large(kFirstWindowBytes, 'x');
  EXPECT_FALSE(here_->Send(large));
  there_->protocol.Admit();
  Carry(there_.get(), here_.get());
  EXPECT_TRUE(here_->Send(large));
  Carry(here_.get(), there_.get());
  EXPECT_EQ(there_->Receive(), large);
}

TEST_F(SessionProtocolTest, APeerThatExceedsItsWindowEndsTheSession) {
  TakeMessage(there_.get(), 1, std::string(kFirstWindowBytes, 'x'));
  EXPECT_THAT(there_->protocol.status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("beyond its window")));
  Restart();
  for (uint64_t i = 1; i <= 5; ++i) TakeMessage(there_.get(), i, "");
  EXPECT_THAT(there_->protocol.status(), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(SessionProtocolTest, ABudgetIsReturned) {
  options_.budget = std::make_shared<SessionBudget>(/*bytes=*/1000, /*max_sessions=*/5);
  Restart();
  const std::string message(300, 'x');
  EXPECT_TRUE(here_->Send(message));
  EXPECT_FALSE(here_->Send(message)) << "the budget is spent";
  here_->protocol.ReturnUnderWay();
  EXPECT_EQ(options_.budget->taken(), 0);
  TakeMessage(there_.get(), 1, message);
  EXPECT_EQ(options_.budget->taken(), 300 + kMessageOverheadBytes);
  there_->Receive();
  EXPECT_EQ(options_.budget->taken(), 0);
  TakeMessage(there_.get(), 2, message);
  there_->protocol.BeginClose("a test");
  EXPECT_EQ(options_.budget->taken(), 0);
}

TEST_F(SessionProtocolTest, ASessionEndsWithItsLease) {
  here_->Send("1");
  Carry(here_.get(), there_.get());
  clock_.Advance(kLease - absl::Nanoseconds(1));
  there_->protocol.CheckLease();
  EXPECT_THAT(there_->protocol.CurrentStatus(), IsOk());
  here_->protocol.TellPeer(/*silent=*/true);
  Carry(here_.get(), there_.get());
  clock_.Advance(kLease - absl::Nanoseconds(1));
  EXPECT_THAT(there_->protocol.CurrentStatus(), IsOk()) << "each frame renews the lease";
  there_->Send("2");
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_THAT(there_->protocol.status(), IsOk());
  EXPECT_THAT(there_->protocol.CurrentStatus(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nothing was heard of here")));
  std::string frame;
  EXPECT_FALSE(there_->protocol.NextFrame(&frame)) << "whoever has no lease sends nothing";
  EXPECT_THAT(there_->protocol.status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(there_->protocol.has_message()) << "what came before may be another one's by now";
  EXPECT_TRUE(there_->protocol.mute());
  EXPECT_EQ(there_->counts.ended, 1);
}

TEST_F(SessionProtocolTest, AReasonIsToldBehindWhatWasSentBefore) {
  here_->Send("last");
  here_->protocol.BeginClose("enough");
  here_->protocol.BeginClose("too late");
  EXPECT_EQ(here_->counts.ended, 1);
  EXPECT_THAT(here_->protocol.status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("closed here: enough")));
  EXPECT_FALSE(here_->protocol.mute());
  Carry(here_.get(), there_.get());
  EXPECT_THAT(there_->protocol.status(), StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  EXPECT_EQ(there_->Receive(), "last");
}

TEST_F(SessionProtocolTest, BrokenRulesEndTheSession) {
  TakeMessage(here_.get(), 2, "early");
  EXPECT_THAT(here_->protocol.status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("expected message 1")));
  Carry(here_.get(), there_.get());
  EXPECT_THAT(there_->protocol.status(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("expected message 1")));

  Restart();
  TakeMessage(here_.get(), 1, "", /*taken=*/1);
  EXPECT_THAT(here_->protocol.status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("1 messages of 0 sent ones")));

  Restart();
  here_->protocol.Take("no frame");
  EXPECT_THAT(here_->protocol.status(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(SessionProtocolTest, NothingIsSentAfterASilentEnd) {
  here_->Send("1");
  here_->protocol.EndSilently(absl::UnavailableError("it broke"));
  here_->protocol.BeginClose("too late");
  here_->protocol.TellPeer(/*silent=*/true);
  std::string frame;
  EXPECT_FALSE(here_->protocol.NextFrame(&frame));
  EXPECT_THAT(here_->protocol.status(), StatusIs(absl::StatusCode::kUnavailable, "it broke"));
  EXPECT_EQ(here_->counts.ended, 1);
}

}  // namespace
}  // namespace ding
