#include "ding_worker/adapter/gloo/gloo_all_reduce.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/all_reduce_conformance.h"
#include "ding_worker/interaction/testing/rank_threads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

INSTANTIATE_TEST_SUITE_P(Gloo, AllReduceConformance, testing::Values(ConnectGloo));

// The threads of this process by id, and whether each blocks SIGPIPE.
std::map<std::string, bool> Threads() {
  std::map<std::string, bool> threads;
  const std::string tasks = "/proc/self/task";
  const std::vector<std::string> ids = ListDirectory(tasks).value();
  for (const std::string& id : ids) {
    const std::string status = ReadFile(absl::StrCat(tasks, "/", id, "/status")).value_or("");
    const std::string blocked = status.substr(status.find("SigBlk:") + 7, 17);
    threads[id] = ((std::stoull(blocked, nullptr, 16) >> (SIGPIPE - 1)) & 1) != 0;
  }
  return threads;
}

// Its threads write to ranks that may be gone; without the block, SIGPIPE would end the process.
TEST(GlooAllReduceTest, OnlyItsOwnThreadsBlockSigpipe) {
  const std::map<std::string, bool> before = Threads();
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  DING_ASSERT_OK_AND_ASSIGN(const auto group, ConnectGloo(options, &rendezvous));
  int started = 0;
  for (const auto& [id, blocks] : Threads()) {
    const bool was_there = before.count(id) > 0;
    EXPECT_EQ(blocks, !was_there) << "thread " << id;
    started += was_there ? 0 : 1;
  }
  EXPECT_GT(started, 0);
}

TEST(GlooAllReduceTest, AnUnknownHostIsRefused) {
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  options.host = "no.such.host.invalid";
  const auto group = ConnectGloo(options, &rendezvous);
  EXPECT_FALSE(group.ok());
  EXPECT_THAT(std::string(group.status().message()), HasSubstr("no.such.host.invalid"));
}

TEST(GlooAllReduceTest, WaitingForAMissingRankTimesOut) {
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  options.world_size = 2;
  options.timeout = absl::Milliseconds(300);
  EXPECT_THAT(ConnectGloo(options, &rendezvous), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

// The ports at which this process listens.
std::vector<in_port_t> ListeningPorts() {
  std::vector<in_port_t> ports;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_in name = {};
    size = sizeof(name);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size), 0);
    ports.push_back(name.sin_port);
  }
  return ports;
}

// Connects and resets the connection at once.
void ConnectAndLeave(in_port_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = port;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const linger reset = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  close(fd);
}

TEST(GlooAllReduceTest, APeerThatConnectsAndLeavesDoesNotEndTheProcess) {
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  options.world_size = 2;
  options.timeout = absl::Seconds(2);
  std::thread rank([&] {
    EXPECT_THAT(ConnectGloo(options, &rendezvous), StatusIs(absl::StatusCode::kDeadlineExceeded));
  });
  const Deadline deadline = Deadline::After(options.timeout);
  while (ListeningPorts().empty() && !deadline.Passed()) absl::SleepFor(absl::Milliseconds(1));
  const std::vector<in_port_t> ports = ListeningPorts();
  EXPECT_EQ(ports.size(), 1u);
  for (const in_port_t port : ports) ConnectAndLeave(port);
  rank.join();
}

// A rank may send any address: the others then cannot connect, and return an error.
TEST(GlooAllReduceFuzz, ConnectFailsIfARankSendsAnInvalidAddress) {
  AllReduceOptions options;
  options.world_size = 2;
  options.timeout = absl::Milliseconds(20);
  for (const int rank : {0, 1}) {
    options.group = "said";
    options.rank = 1 - rank;
    ToldRendezvous other;
    EXPECT_FALSE(ConnectGloo(options, &other).ok()) << "it is alone";
    ASSERT_THAT(other.set(), Not(IsEmpty()));
    options.rank = rank;
    Fuzz(100, [&](Mutator* mutator) {
      ToldRendezvous told;
      told.Tell(other.set(), mutator);
      options.group = absl::StrCat("fuzz-", mutator->rng()->Next64());
      const auto group = ConnectGloo(options, &told);
      EXPECT_THAT(group.status().code(),
                  AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded))
          << group.status();
    });
  }
}

}  // namespace
}  // namespace ding
