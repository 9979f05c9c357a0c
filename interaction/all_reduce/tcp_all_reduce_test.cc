#include "ding_worker/interaction/all_reduce/tcp_all_reduce.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/all_reduce_conformance.h"
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"
#include "ding_worker/interaction/testing/rank_threads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// By its name, as a run connects it.
INSTANTIATE_TEST_SUITE_P(Tcp, AllReduceConformance,
                         testing::Values([](const AllReduceOptions& options,
                                            Rendezvous* rendezvous) {
                           return create_all_reduce("tcp", options, rendezvous);
                         }));

AllReduceOptions TwoRanks() {
  AllReduceOptions options;
  options.group = "a";
  options.world_size = 2;
  options.timeout = absl::Milliseconds(300);
  return options;
}

// The first value is added from rank 0 on, the second from rank 1 on, the third from rank 2 on.
TEST(TcpAllReduceTest, Sum_ThreeRanks_AddsInTheOrderOfTheRing) {
  const std::vector<float> by_rank = {1e8f, -1e8f, 1};
  RunRanks(ConnectTcp, 3, absl::Minutes(1), [&](AllReduce* group) {
    std::vector<float> values(3, by_rank[static_cast<size_t>(group->rank())]);
    ASSERT_THAT(group->Sum(absl::MakeSpan(values)), IsOk());
    EXPECT_THAT(values, ElementsAre(1, 0, 0));
  });
}

TEST(TcpAllReduceTest, Sum_OtherSizes_AreRefusedWithBoth) {
  std::atomic<int> refused{0};
  RunRanks(ConnectTcp, 2, absl::Minutes(1), [&](AllReduce* group) {
    std::vector<float> values(group->rank() == 0 ? 2 : 3, 1.0f);
    const absl::Status status = group->Sum(absl::MakeSpan(values));
    // The other rank may have left before this one has read its header.
    if (absl::IsUnavailable(status)) return;
    ++refused;
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr("adds 2 floats"), HasSubstr("adds 3 floats"))));
  });
  EXPECT_GE(refused, 1);
}

TEST(TcpAllReduceTest, Sum_OfAnotherType_IsRefused) {
  RunRanks(ConnectTcp, 2, absl::Minutes(1), [](AllReduce* group) {
    std::vector<float> floats(2);
    std::vector<double> doubles(2);
    EXPECT_FALSE((group->rank() == 0 ? group->Sum(absl::MakeSpan(floats))
                                     : group->Sum(absl::MakeSpan(doubles)))
                     .ok());
  });
}

TEST(TcpAllReduceTest, Connect_UnknownHost_IsRefused) {
  AllReduceOptions options = TwoRanks();
  options.host = "no.such.host.invalid";
  LocalRendezvous rendezvous;
  EXPECT_THAT(ConnectTcp(options, &rendezvous),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no.such.host.invalid")));
}

TEST(TcpAllReduceTest, Connect_MissingRank_TimesOut) {
  LocalRendezvous rendezvous;
  EXPECT_THAT(ConnectTcp(TwoRanks(), &rendezvous), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(TcpAllReduceTest, Connect_RankThatNeverAnswersAmongStrangers_TimesOut) {
  LocalRendezvous rendezvous;
  // Rank 1 has told where it is, but does not connect. Strangers come all the time.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = {};
  socklen_t size = sizeof(name);
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&name), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size), 0);
  ASSERT_THAT(rendezvous.Set("tcp/1", absl::StrCat("ding-tcp-1 127.0.0.1 ", ntohs(name.sin_port),
                                                   " ", std::string(32, 'a'))),
              IsOk());
  std::atomic<bool> over{false};
  int came = 0;
  std::thread strangers([&] {
    const absl::StatusOr<std::string> where = rendezvous.Get("tcp/0", absl::Minutes(1));
    const std::vector<std::string> parts = absl::StrSplit(where.value_or(""), ' ');
    int port = 0;
    EXPECT_TRUE(parts.size() == 4 && absl::SimpleAtoi(parts[2], &port));
    name.sin_port = htons(static_cast<in_port_t>(port));
    // They reset and do not wait, so that neither ports nor the listener's queue run out.
    const linger reset = {1, 0};
    while (!over && ++came < 100000) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      connect(fd, reinterpret_cast<const sockaddr*>(&name), size);
      close(fd);
    }
  });
  EXPECT_THAT(ConnectTcp(TwoRanks(), &rendezvous),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1")));
  over = true;
  strangers.join();
  EXPECT_LT(came, 100000) << "the rank waited while strangers came";
  close(listener);
}

// Connects strangers to a rank before the others learn where it is.
class RendezvousWithStrangers : public LocalRendezvous {
 public:
  ~RendezvousWithStrangers() override {
    for (const int fd : strangers_) close(fd);
  }
  absl::Status Set(const std::string& key, const std::string& value) override {
    MutexLock lock(&mutex_);
    const std::vector<std::string> parts = absl::StrSplit(value, ' ');
    int port = 0;
    EXPECT_TRUE(parts.size() == 4 && absl::SimpleAtoi(parts[2], &port)) << value;
    for (const absl::string_view shown :
         {"", "half a secret", "a secret that is as long, but wrong"}) {
      Connect(port, shown);
    }
    close(strangers_.back());
    strangers_.pop_back();
    return LocalRendezvous::Set(key, value);
  }

 private:
  void Connect(int port, absl::string_view shown) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<in_port_t>(port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
    EXPECT_EQ(send(fd, shown.data(), shown.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(shown.size()));
    strangers_.push_back(fd);
  }

  Mutex mutex_;
  std::vector<int> strangers_ ABSL_GUARDED_BY(mutex_);
};

TEST(TcpAllReduceTest, Connect_Strangers_DoNotTakeThePlaceOfARank) {
  RendezvousWithStrangers rendezvous;
  RunRanks([&](const AllReduceOptions& of_rank,
               Rendezvous*) { return ConnectTcp(of_rank, &rendezvous); },
           2, absl::Minutes(1),
           [](AllReduce* group) {
             std::vector<float> values = {1};
             EXPECT_THAT(group->Sum(absl::MakeSpan(values)), IsOk());
             EXPECT_THAT(values, ElementsAre(2));
           });
}

TEST(TcpAllReduceFuzz, ConnectFailsIfARankSendsAnInvalidAddress) {
  AllReduceOptions options = TwoRanks();
  options.timeout = absl::Milliseconds(20);
  ToldRendezvous others[2];
  for (const int rank : {0, 1}) {
    options.rank = rank;
    EXPECT_FALSE(ConnectTcp(options, &others[rank]).ok()) << "it is alone";
    ASSERT_THAT(others[rank].set(), Not(IsEmpty()));
  }
  Fuzz(400, [&](Mutator* mutator) {
    options.rank = mutator->Coin() ? 1 : 0;
    ToldRendezvous told;
    told.Tell(others[1 - options.rank].set(), mutator);
    options.group = absl::StrCat("fuzz-", mutator->rng()->Next64());
    EXPECT_THAT(ConnectTcp(options, &told).status().code(),
                AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded));
  });
}

TEST(CreateAllReduceTest, RanksOfDifferentTypes_AreRefusedWithWhichHasWhich) {
  const ScopedRegistration<AllReduceCreator> scoped(&AllReduceRegistry(), "own", ConnectTcp);
  RunRanks(
      [](const AllReduceOptions& options, Rendezvous* rendezvous) {
        const Deadline deadline = Deadline::After(options.timeout / 2);
        const auto other =
            create_all_reduce(options.rank == 1 ? "own" : "tcp", options, rendezvous);
        EXPECT_THAT(other, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    AllOf(HasSubstr("rank 1 has"), HasSubstr("'own'"),
                                          HasSubstr("rank 0 has"), HasSubstr("'tcp'"))));
        EXPECT_FALSE(deadline.Passed());
        AllReduceOptions alone;
        return create_all_reduce("own", alone, nullptr);
      },
      2, absl::Minutes(1), [](AllReduce*) {});
}

}  // namespace
}  // namespace ding
