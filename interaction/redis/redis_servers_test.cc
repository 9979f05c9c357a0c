// A store that is spread over several redis-servers; one goes away and comes back.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/redis/redis_connection.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/store/testing/store_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Gt;
using testing::HasSubstr;
using testing::Lt;
using testing::SizeIs;

using Servers = std::vector<std::unique_ptr<RedisServer>>;

Servers StartServers(const RedisServer::Options& options) {
  Servers servers;
  for (int i = 0; i < 3; ++i) {
    auto started = RedisServer::Start(options);
    EXPECT_THAT(started, IsOk());
    servers.push_back(*std::move(started));
  }
  return servers;
}

std::string UrlOf(const Servers& servers, absl::string_view prefix) {
  const auto append = [](std::string* to, const std::unique_ptr<RedisServer>& server) {
    absl::StrAppend(to, "127.0.0.1:", server->port());
  };
  return absl::StrCat("redis:", absl::StrJoin(servers, ",", append), "/", prefix);
}

INSTANTIATE_TEST_SUITE_P(
    RedisServers, StoreConformance, testing::Values(StoreMaker([] {
      static const auto* const servers = new Servers(StartServers({}));
      static int stores = 0;
      return create_store(UrlOf(*servers, absl::StrCat("run-", ++stores))).value();
    })));

TEST(RedisServers, OneMayBeAway) {
  RedisServer::Options options;
  options.append_fsync = "no";
  const Servers servers = StartServers(options);
  const std::string url = UrlOf(servers, "runs/7");
  DING_ASSERT_OK_AND_ASSIGN(const auto store, create_store(url));
  EXPECT_EQ(store->url(), url);
  const auto put = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      ASSERT_THAT(store->Put(absl::StrCat("data/1/", i), {absl::StrCat(i)}), IsOk());
    }
  };
  put(0, 100);
  ASSERT_THAT(store->Put("file/a", {"1"}), IsOk());
  servers[1]->Kill();
  put(100, 200);
  int away = 0;
  std::string value;
  for (int i = 0; i < 200; ++i) {
    const absl::Status got = store->Get(absl::StrCat("data/1/", i), &value);
    if (absl::IsUnavailable(got)) {
      ++away;
      EXPECT_LT(i, 100) << "all that was put meanwhile is there";
      EXPECT_THAT(got.message(), HasSubstr(absl::StrCat("127.0.0.1:", servers[1]->port())));
    } else {
      ASSERT_THAT(got, IsOk());
      EXPECT_EQ(value, absl::StrCat(i));
    }
  }
  EXPECT_THAT(away, AllOf(Gt(10), Lt(60)));
  EXPECT_THAT(store->Get("file/a", &value), IsOk());
  LogOptions log_options;
  log_options.run = "r";
  DING_ASSERT_OK_AND_ASSIGN(const auto log, store->OpenLog(log_options));
  Log::Change change;
  change.append = {"one"};
  EXPECT_THAT(log->Commit(change), IsOk());

  ASSERT_THAT(servers[1]->Restart(), IsOk());
  absl::Status back;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  do {
    absl::SleepFor(absl::Milliseconds(100));
    back = store->List("data/").status();
  } while (!back.ok() && absl::Now() < deadline);
  ASSERT_THAT(back, IsOk());
  EXPECT_THAT(store->List("data/").value(), SizeIs(200));
  for (int i = 0; i < 200; ++i) {
    ASSERT_THAT(store->Get(absl::StrCat("data/1/", i), &value), IsOk()) << i;
  }
  EXPECT_THAT(store->Clear(), IsOk());
  for (const auto& server : servers) {
    EXPECT_EQ(server->Command({"EVAL", "return tostring(redis.call('DBSIZE'))", "0"}).value(), "0");
  }
}

// The replica takes over the address of its master, as the name of a service or a virtual address
// does. What it had not received yet is lost, and the log notices.
TEST(RedisServers, AReplicaTakesOver) {
  RedisServer::Options options;
  options.lines = {"repl-diskless-sync-delay 0"};
  const auto master = RedisServer::Start(options).value();
  const std::string port = absl::StrCat(master->port());
  options.lines.push_back(absl::StrCat("replicaof 127.0.0.1 ", port));
  const auto replica = RedisServer::Start(options).value();
  DING_ASSERT_OK_AND_ASSIGN(const auto store, create_store(master->Url("runs/7")));
  LogOptions log_options;
  log_options.run = "r";
  DING_ASSERT_OK_AND_ASSIGN(const auto log, store->OpenLog(log_options));
  Log::Change change;
  change.append = {"one"};
  ASSERT_THAT(log->Commit(change), IsOk());
  ASSERT_THAT(store->Put("data/1/1", {"1"}), IsOk());
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  const auto received = [&] {
    return replica
               ->Command({"EVAL", "return tostring(redis.call('EXISTS', 'runs/7/data/1/1'))", "0"})
               .value() == "1";
  };
  while (!received() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  ASSERT_TRUE(received());

  const auto connection = RedisConnection::Open(replica->address()).value();
  EXPECT_THAT(connection->Call({"SET", "x", "1"}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(connection->broken()) << "the next connection may be to the new master";
  ASSERT_THAT(replica->Command({"REPLICAOF", "NO", "ONE"}), IsOk());
  ASSERT_THAT(store->Put("data/1/2", {"2"}), IsOk()) << "the old master still takes it";
  ASSERT_THAT(log->Commit(change), IsOk());
  master->Kill();
  EXPECT_THAT(store->Put("data/1/3", {"3"}), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_THAT(replica->Command({"CONFIG", "SET", "port", port}), IsOk());

  std::string value;
  EXPECT_THAT(store->Get("data/1/1", &value), IsOk());
  EXPECT_EQ(value, "1");
  EXPECT_THAT(store->Get("data/1/2", &value),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("data/1/2")));
  EXPECT_THAT(store->Put("data/1/3", {"3"}), IsOk());
  EXPECT_THAT(log->Commit(change), StatusIs(absl::StatusCode::kDataLoss));
  change.anew = true;
  EXPECT_THAT(log->Commit(change), IsOk()) << "it is written again";
}

TEST(RedisServers, ExplainsInvalidUrls) {
  const auto invalid = [](const std::string& url, const char* why) {
    EXPECT_THAT(create_store(url), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  invalid("redis:a:1,b/x", "several HOST:PORT with ',' between them");
  invalid("redis:a:1,/x", "several HOST:PORT");
  invalid("redis:a:1,b:2,a:1/x", "'a:1' is there twice");
  invalid("redis:127.0.0.1:1,127.0.0.1:0/x", "not the address");
  invalid("redis:127.0.0.1:1,127.0.0.1:2/a b", "not a store key");
  EXPECT_THAT(create_store("redis:127.0.0.1:1,127.0.0.1:2/x"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1:1")));
  RedisServer::Options evicting;
  evicting.lines = {"maxmemory 100mb", "maxmemory-policy allkeys-lru"};
  Servers servers = StartServers({});
  servers.push_back(RedisServer::Start(evicting).value());
  EXPECT_THAT(create_store(UrlOf(servers, "x")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("maxmemory-policy")));
}

}  // namespace
}  // namespace ding
