#include "ding_worker/interaction/grpc/taken_connections.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kProveWithin = absl::Seconds(10);

// Two sockets that are tied to each other; the server owns one of them.
class Pair {
 public:
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_), 0); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    CloseIfOpen(&fds_[0]);
    CloseIfOpen(&fds_[1]);
  }

  int servers() const { return fds_[0]; }
  // Also the number of the server's end, which the machine gives to the next file.
  void CloseServers() { CloseIfOpen(&fds_[0]); }
  bool IsCut() const {
    pollfd polled = {fds_[1], POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
  }

 private:
  int fds_[2] = {-1, -1};
};

class TakenConnectionsTest : public testing::Test {
 protected:
  // Adds the connection `peer` of `address`.
  Pair* Add(const std::string& peer, const std::string& address = "a") {
    pairs_.push_back(std::make_unique<Pair>());
    EXPECT_TRUE(taken_.Add(pairs_.back()->servers(), {peer, address}, Timer(&clock_)));
    return pairs_.back().get();
  }
  absl::Status LetIn(const std::string& peer) {
    std::string report;
    return taken_.LetIn(peer, /*known=*/false, &report);
  }
  std::vector<std::string> Sweep(int64_t waiting = 0) { return taken_.Sweep(waiting, &victims_); }
  // Makes calls until the connection is cut; returns what is reported.
  std::string Flood(const std::string& peer) {
    std::string report;
    while (taken_.CountCall(peer, &report)) {
    }
    return report;
  }

  SimulatedClock clock_;
  Rng victims_{0, Rng::Purpose("test")};
  std::vector<std::unique_ptr<Pair>> pairs_;
  TakenConnections taken_{{/*silent=*/4, /*unproven=*/4, /*proven=*/2}, kProveWithin, &clock_};
};

TEST_F(TakenConnectionsTest, AConnectionThatIsNotProvenInTimeIsCut) {
  const Pair* const proven = Add("proven");
  const Pair* const late = Add("late");
  EXPECT_THAT(LetIn("proven"), IsOk());
  clock_.Advance(kProveWithin - absl::Nanoseconds(1));
  EXPECT_THAT(Sweep(), IsEmpty());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_THAT(Sweep(), ElementsAre(HasSubstr("late was cut: it makes no call")));
  EXPECT_TRUE(late->IsCut());
  EXPECT_FALSE(proven->IsCut());
  EXPECT_THAT(LetIn("late"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Sweep(), IsEmpty()) << "it is cut twice";
}

TEST_F(TakenConnectionsTest, AConnectionCountsUntilItsSocketIsClosed) {
  Pair* const pair = Add("peer");
  taken_.CutUnproven("a test");
  EXPECT_THAT(Sweep(), IsEmpty());
  EXPECT_EQ(taken_.unproven(), 1);
  Pair other;
  EXPECT_FALSE(taken_.Add(other.servers(), {"peer", "a"}, Timer(&clock_))) << "it is still open";
  pair->CloseServers();
  const Pair same_number;
  EXPECT_EQ(taken_.unproven(), 1);
  EXPECT_THAT(Sweep(), IsEmpty());
  EXPECT_TRUE(taken_.empty());
  EXPECT_FALSE(same_number.IsCut());
}

TEST_F(TakenConnectionsTest, UnprovenConnectionsOfTheCrowdAreCutForThoseThatWait) {
  const Pair* const proven = Add("proven", "crowd");
  EXPECT_THAT(LetIn("proven"), IsOk());
  const Pair* const single = Add("single", "other");
  for (int i = 0; i < 2; ++i) Add(absl::StrCat(i), "crowd");
  EXPECT_THAT(Sweep(/*waiting=*/5), IsEmpty()) << "there is room";
  Add("2", "crowd");
  EXPECT_THAT(Sweep(/*waiting=*/0), IsEmpty()) << "nobody waits";
  // At most a quarter of the bound, and one more, goes at a time.
  EXPECT_THAT(Sweep(/*waiting=*/5),
              ElementsAre(HasSubstr("have not been let in"), HasSubstr("have not been let in")));
  EXPECT_THAT(Sweep(/*waiting=*/5), IsEmpty()) << "those that are cut have not gone yet";
  EXPECT_FALSE(proven->IsCut());
  EXPECT_FALSE(single->IsCut());
}

TEST_F(TakenConnectionsTest, ProvenConnectionsHaveABound) {
  for (const char* const peer : {"1", "2", "3"}) Add(peer);
  EXPECT_THAT(LetIn("1"), IsOk());
  EXPECT_THAT(LetIn("2"), IsOk());
  EXPECT_THAT(LetIn("3"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("it has 2 connections")));
  EXPECT_EQ(taken_.unproven(), 1);
}

TEST_F(TakenConnectionsTest, ASecondCallThatIsLetInCutsTheConnection) {
  const Pair* const pair = Add("peer");
  EXPECT_THAT(LetIn("peer"), IsOk());
  std::string report;
  EXPECT_THAT(taken_.LetIn("peer", /*known=*/true, &report),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(report, HasSubstr("too many calls"));
  EXPECT_TRUE(pair->IsCut());
}

TEST_F(TakenConnectionsTest, TooManyCallsOrStreamsAreAFlood) {
  const Pair* const calls = Add("calls");
  EXPECT_FALSE(taken_.TakeFlooded());
  EXPECT_THAT(Flood("calls"), HasSubstr("calls was cut: it makes too many calls"));
  EXPECT_TRUE(calls->IsCut());
  EXPECT_TRUE(taken_.TakeFlooded());
  EXPECT_FALSE(taken_.TakeFlooded());
  EXPECT_EQ(Flood("calls"), "") << "it is cut twice";

  const Pair* const streams = Add("streams");
  EXPECT_EQ(taken_.CountStreams("streams", CallAllowance::kAtOnce), "");
  EXPECT_EQ(taken_.CountStreams("streams", CallAllowance::kAtOnce), "") << "they count twice";
  EXPECT_THAT(taken_.CountStreams("streams", CallAllowance::kAtOnce + 1),
              HasSubstr("too many calls"));
  EXPECT_TRUE(streams->IsCut());
  EXPECT_EQ(taken_.CountStreams("nobody", 1000), "");
}

TEST_F(TakenConnectionsTest, AnAddressThatHasFloodedWaitsForItsTurnsForATime) {
  Add("peer", "flooder");
  Flood("peer");
  EXPECT_FALSE(taken_.IsItsTurn("flooder"));
  EXPECT_TRUE(taken_.IsItsTurn("other"));
  clock_.Advance(absl::Milliseconds(50));
  EXPECT_TRUE(taken_.IsItsTurn("flooder"));
  EXPECT_FALSE(taken_.IsItsTurn("flooder"));
  clock_.Advance(absl::Seconds(2));
  Sweep();
  EXPECT_TRUE(taken_.IsItsTurn("flooder"));
  EXPECT_TRUE(taken_.IsItsTurn("flooder"));
}

TEST(ConnectionBoundsTest, LeaveDescriptorsForEverythingElse) {
  for (const int64_t limit : {16, 64, 256, 1024, 4096, 20000, 65536}) {
    const ConnectionBounds bounds = ConnectionBounds::Within(limit);
    const int64_t all = bounds.silent + bounds.unproven + bounds.proven;
    EXPECT_LE(all, limit - limit / 4) << limit;
    if (limit >= 128) {
      EXPECT_LE(all, limit - 64) << limit;
    }
    EXPECT_GE(bounds.silent, 1) << limit;
    EXPECT_GE(bounds.unproven, 1) << limit;
    EXPECT_GE(bounds.proven, bounds.unproven) << limit;
  }
}

TEST(CallAllowanceTest, SomeAtOnceAndSomeInASecond) {
  constexpr int64_t kSecond = 1'000'000'000;
  CallAllowance allowance;
  EXPECT_TRUE(allowance.Take(CallAllowance::kAtOnce, 0));
  EXPECT_FALSE(allowance.Take(1, 0));
  CallAllowance patient;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(patient.Take(CallAllowance::kPerSecond, i * kSecond)) << i;
  }
  // What was not used is not kept for ever.
  EXPECT_FALSE(patient.Take(CallAllowance::kAtOnce + 1, 1'000'000 * kSecond));
}

using Candidates = std::vector<VictimCandidate>;

// All that are chosen in many attempts.
std::set<size_t> ChosenOf(const Candidates& candidates) {
  Rng rng(0, Rng::Purpose("test"));
  std::set<size_t> chosen;
  for (int i = 0; i < 200; ++i) chosen.insert(ChooseVictim(candidates, &rng));
  return chosen;
}

TEST(ChooseVictimTest, TheOldestSilentConnectionGoes) {
  EXPECT_EQ(ChosenOf({{"a", true}, {"a", true}, {"a", true}}), std::set<size_t>({0}));
  // It goes before an older one that has spoken.
  EXPECT_EQ(ChosenOf({{"a", false}, {"a", true}, {"a", true}}), std::set<size_t>({1}));
}

TEST(ChooseVictimTest, AnyConnectionGoesIfAllHaveSpoken) {
  EXPECT_EQ(ChosenOf({{"a", false}}), std::set<size_t>({0}));
  EXPECT_EQ(ChosenOf({{"a", false}, {"a", false}, {"a", false}}), std::set<size_t>({0, 1, 2}));
}

TEST(ChooseVictimTest, OnlyTheAddressWithMostConnectionsLosesOne) {
  EXPECT_EQ(ChosenOf({{"a", false}, {"b", false}, {"a", false}}), std::set<size_t>({0, 2}));
  // A silent connection of another address stays, even if it is the oldest one.
  EXPECT_EQ(ChosenOf({{"b", true}, {"a", false}, {"a", false}}), std::set<size_t>({1, 2}));
  EXPECT_EQ(ChosenOf({{"b", true}, {"a", false}, {"a", true}}), std::set<size_t>({2}));
}

TEST(ChooseVictimTest, AddressesWithEquallyManyLoseOneOfTheirs) {
  const Candidates candidates = {{"a", true}, {"b", true}, {"b", true}, {"a", true}, {"c", true}};
  for (const size_t chosen : ChosenOf(candidates)) EXPECT_LE(chosen, 1u);
}

}  // namespace
}  // namespace ding
