#include "ding_worker/interaction/redis/redis_store.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/store/testing/store_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::unique_ptr<RedisServer> StartRedis(const RedisServer::Options& options = {}) {
  auto redis = RedisServer::Start(options);
  EXPECT_THAT(redis, IsOk());
  return std::move(redis).value();
}

RedisStore::Options OptionsFor(const RedisServer& redis, const std::string& prefix = "runs/7") {
  RedisStore::Options options;
  options.server.host = "127.0.0.1";
  options.server.port = redis.port();
  options.prefix = prefix;
  return options;
}

TEST(RedisStoreMisuse, OptionsOutOfRange_AreRefusedWithoutAServer) {
  RedisStore::Options good;
  good.server.host = "127.0.0.1";
  good.server.port = 1;  // Nobody listens there.
  good.prefix = "runs/7";
  EXPECT_THAT(RedisStore::Create(good), StatusIs(absl::StatusCode::kUnavailable));
  const auto refused = [](const RedisStore::Options& options) {
    EXPECT_THAT(RedisStore::Create(options), StatusIs(absl::StatusCode::kInvalidArgument));
  };
  for (const int number : {0, -1, std::numeric_limits<int>::min()}) {
    RedisStore::Options options = good;
    options.server.port = number;
    refused(options);
    options = good;
    options.max_connections = number;
    refused(options);
  }
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
                              RedisStore::kMaxPartBytes + 1, std::numeric_limits<int64_t>::max()}) {
    RedisStore::Options options = good;
    options.part_bytes = bytes;
    refused(options);
  }
  for (const std::string& prefix : {std::string(), std::string("/"), std::string(1000, 'x')}) {
    RedisStore::Options options = good;
    options.prefix = prefix;
    refused(options);
  }
  RedisStore::Options options = good;
  options.server.port = 65536;
  refused(options);
  options = good;
  options.server.host = "";
  refused(options);
}

// Returns an empty store in the Redis server that all tests of the process share.
std::unique_ptr<Store> NewStore(int64_t part_bytes, int max_connections) {
  static RedisServer* const redis = StartRedis().release();
  static int stores = 0;
  RedisStore::Options options = OptionsFor(*redis, absl::StrCat("run-", ++stores));
  options.part_bytes = part_bytes;
  options.max_connections = max_connections;
  return RedisStore::Create(options).value();
}

INSTANTIATE_TEST_SUITE_P(Redis, StoreConformance, testing::Values(StoreMaker([] {
                           return NewStore(RedisStore::kMaxPartBytes, 8);
                         })));
INSTANTIATE_TEST_SUITE_P(RedisInParts, StoreConformance,
                         testing::Values(StoreMaker([] { return NewStore(1000, 8); })));
INSTANTIATE_TEST_SUITE_P(RedisByOneConnection, StoreConformance,
                         testing::Values(StoreMaker([] { return NewStore(5000, 1); })));

absl::StatusOr<std::string> GetFrom(Store* store, absl::string_view key) {
  std::string value;
  const absl::Status status = store->Get(key, &value);
  if (!status.ok()) return status;
  return value;
}

class RedisStoreTest : public testing::Test {
 protected:
  void Open(const RedisServer::Options& server, int64_t part_bytes = RedisStore::kMaxPartBytes) {
    redis_ = StartRedis(server);
    RedisStore::Options options = OptionsFor(*redis_);
    options.server.io_timeout = timeout_;
    options.part_bytes = part_bytes;
    store_ = RedisStore::Create(options).value();
  }
  absl::StatusOr<std::string> Get(absl::string_view key) { return GetFrom(store_.get(), key); }
  // Creates a store in a Redis server that is started with `lines` in its config.
  absl::Status CreationWith(const std::vector<std::string>& lines) {
    RedisServer::Options options;
    options.lines = lines;
    const auto redis = StartRedis(options);
    return create_store(redis->Url("x")).status();
  }

  absl::Duration timeout_ = absl::Seconds(30);
  std::unique_ptr<RedisServer> redis_;
  std::unique_ptr<RedisStore> store_;
};

TEST_F(RedisStoreTest, FlippedBitsAndMissingBytesAreDataLoss) {
  Open({});
  ASSERT_THAT(store_->Put("a", {"some ", "bytes"}), IsOk());
  const std::string good = redis_->Command({"GET", "runs/7/a"}).value();
  ASSERT_EQ(good.size(), 20u + 8u + 10u) << "header, 'runs/7/a', value";
  const auto expect_damage = [&](const std::string& bad) {
    ASSERT_THAT(redis_->Command({"SET", "runs/7/a", bad}), IsOk());
    EXPECT_THAT(Get("a"),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("'a'"), HasSubstr("damaged"), HasSubstr(store_->url()))));
  };
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    expect_damage(bad);
  }
  for (size_t size = 0; size < good.size(); ++size) expect_damage(good.substr(0, size));
  expect_damage(good + "x");
  ASSERT_THAT(redis_->Command({"SET", "runs/7/a", good}), IsOk());
  EXPECT_EQ(Get("a").value(), "some bytes");
}

TEST_F(RedisStoreTest, ValueUnderAnotherNameIsDataLoss) {
  Open({}, /*part_bytes=*/20);
  const auto move = [this](const std::string& from, const std::string& to) {
    ASSERT_THAT(redis_->Command({"RENAME", from, to}), IsOk());
  };
  const auto is_of = [](const std::string& name) {
    return StatusIs(absl::StatusCode::kDataLoss,
                    HasSubstr(absl::StrCat("it is the value of '", name, "'")));
  };
  ASSERT_THAT(store_->Put("a", {"small"}), IsOk());
  move("runs/7/a", "runs/7/b");
  EXPECT_THAT(Get("b"), is_of("runs/7/a"));
  ASSERT_THAT(store_->Put("a", {"one that lies there in several parts"}), IsOk());
  move("runs/7/a", "runs/7/c1");
  EXPECT_THAT(Get("c1"), is_of("runs/7/a"));
  const auto other = RedisStore::Create(OptionsFor(*redis_, "runs/8")).value();
  ASSERT_THAT(other->Put("a", {"of another run"}), IsOk());
  move("runs/8/a", "runs/7/a");
  EXPECT_THAT(Get("a"), is_of("runs/8/a"));
}

TEST_F(RedisStoreTest, DamagedPartsAreDataLoss) {
  Open({}, /*part_bytes=*/4);
  ASSERT_THAT(store_->Put("a", {"some ", "bytes"}), IsOk());
  EXPECT_EQ(Get("a").value(), "some bytes");
  ASSERT_THAT(redis_->Command({"LSET", "runs/7/a", "2", "bYte"}), IsOk());
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("checksum")));
  ASSERT_THAT(redis_->Command({"RPOP", "runs/7/a"}), IsOk());
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_THAT(redis_->Command({"LTRIM", "runs/7/a", "1", "1"}), IsOk());
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_THAT(redis_->Command({"DEL", "runs/7/a"}), IsOk());
}

// Another program has put a value there, of a type that the store never writes. It does not go
// away.
TEST_F(RedisStoreTest, AKeyOfAnotherTypeIsDamageAtOnce) {
  for (const int64_t part_bytes : {RedisStore::kMaxPartBytes, int64_t{4}}) {
    Open({}, part_bytes);
    ASSERT_THAT(redis_->Command({"SADD", "runs/7/set", "x"}), IsOk());
    ASSERT_THAT(redis_->Command({"HSET", "runs/7/hash", "x", "1"}), IsOk());
    ASSERT_THAT(redis_->Command({"CONFIG", "RESETSTAT"}), IsOk());
    for (const char* const key : {"set", "hash"}) {
      EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kDataLoss,
                                     HasSubstr(absl::StrCat("'runs/7/", key, "' is a ", key))));
    }
    const std::string calls = redis_->Command({"INFO", "commandstats"}).value();
    EXPECT_THAT(calls, AllOf(HasSubstr("cmdstat_get:calls=2,"), HasSubstr("lindex:calls=2,")));
    EXPECT_THAT(store_->Put("set", {"some bytes"}), IsOk())
        << "it takes the place of the other value";
    EXPECT_EQ(Get("set").value(), "some bytes");
    EXPECT_THAT(store_->Delete("hash"), IsOk());
    EXPECT_THAT(Get("hash"), StatusIs(absl::StatusCode::kNotFound));
  }
  ASSERT_THAT(redis_->Command({"SADD", "runs/8/.store_id", "x"}), IsOk());
  EXPECT_THAT(RedisStore::Create(OptionsFor(*redis_, "runs/8")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("runs/8/.store_id"), HasSubstr("another type"))));
}

TEST_F(RedisStoreTest, StoresAValueInManyParts) {
  Open({});
  std::string value(size_t{5} * RedisStore::kMaxPartBytes + 1, 'x');
  for (size_t i = 0; i < value.size(); i += 4096) value[i] = static_cast<char>(i >> 12);
  ASSERT_THAT(store_->Put("a", {absl::string_view(value).substr(0, 1000),
                                absl::string_view(value).substr(1000)}),
              IsOk());
  std::string read;
  ASSERT_THAT(store_->Get("a", &read), IsOk());
  EXPECT_TRUE(read == value);
  EXPECT_THAT(store_->Put("a", {"small"}), IsOk());
  EXPECT_EQ(Get("a").value(), "small");
}

TEST_F(RedisStoreTest, ClearDeletesOnlyItsOwnKeys) {
  Open({}, /*part_bytes=*/10);
  const auto other = RedisStore::Create(OptionsFor(*redis_, "runs/77")).value();
  ASSERT_THAT(other->Put("data/1", {"kept"}), IsOk());
  ASSERT_THAT(redis_->Command({"SET", "unrelated", "kept"}), IsOk());
  // A killed writer leaves such a list.
  ASSERT_THAT(redis_->Command({"RPUSH", "runs/7/.tmp/1", "x"}), IsOk());
  for (int i = 0; i < 3000; ++i) {
    ASSERT_THAT(store_->Put(absl::StrCat("data/", i), {"some more than ten"}), IsOk());
  }
  EXPECT_THAT(store_->List("").value(), SizeIs(3000));
  EXPECT_THAT(store_->List("*").value(), IsEmpty()) << "the prefix is not a pattern";
  EXPECT_THAT(store_->Clear(), IsOk());
  EXPECT_THAT(store_->List("").value(), IsEmpty());
  EXPECT_EQ(GetFrom(other.get(), "data/1").value(), "kept");
  EXPECT_EQ(redis_->Command({"GET", "unrelated"}).value(), "kept");
  EXPECT_THAT(redis_->Command({"EVAL", "return tostring(redis.call('DBSIZE'))", "0"}).value(), "3")
      << "the two values, and the id of the other store";
}

// ---- errors when the store is opened

TEST_F(RedisStoreTest, ExplainsInvalidUrls) {
  const auto invalid = [](const std::string& url, const char* why) {
    EXPECT_THAT(create_store(url), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  for (const char* const url :
       {"redis:", "redis:x", "redis:/x", "redis:host/x", "redis:host:port/x", "redis:host:6379",
        "redis://host:6379/x", "redis:[::1:6379/x", "redis:::1]:6379/x"}) {
    invalid(url, "expected");
  }
  invalid("redis:host:0/x", "not the address");
  invalid("redis:host:65536/x", "not the address");
  invalid("redis:host:6379/", "not a store key");
  invalid("redis:host:6379/a b", "not a store key");
  invalid("redis:host:6379/x?name=me", "'password_file=...'");
  invalid("redis:host:6379/x?user=me", "user 'me' has no password");
  invalid("redis:user:secret@host:6379/x", "password_file");
  EXPECT_THAT(create_store("redis:127.0.0.1:6379/x?password_file=/nowhere"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
  const std::string empty = JoinPath(FreshTestFolder(), "empty");
  OverwriteFile(empty, "\nsecret");
  ASSERT_EQ(chmod(empty.c_str(), 0600), 0);
  invalid(absl::StrCat("redis:127.0.0.1:6379/x?password_file=", empty), "first line");
  EXPECT_THAT(create_store("redis:127.0.0.1:1/x"),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("refused"))));
}

TEST_F(RedisStoreTest, UnsafePasswordFilesAreRefused) {
  const std::string folder = FreshTestFolder();
  const std::string path = JoinPath(folder, "password");
  OverwriteFile(path, "s3cret\n");
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const std::string url = "redis:127.0.0.1:6379/x?password_file=";
  EXPECT_THAT(create_store(url + path),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(path), HasSubstr("0640"), HasSubstr("chmod 600"),
                             Not(HasSubstr("s3cret")))));
  const std::string fifo = JoinPath(folder, "fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(create_store(url + fifo),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it is a FIFO")));
  const std::string large = JoinPath(folder, "large");
  OverwriteFile(large, "s3cret\n");
  ASSERT_EQ(chmod(large.c_str(), 0600), 0);
  ASSERT_EQ(truncate(large.c_str(), int64_t{1} << 40), 0);
  EXPECT_THAT(create_store(url + large),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1099511627776 bytes")));
}

TEST_F(RedisStoreTest, NeedsTheRightPassword) {
  RedisServer::Options options;
  options.password = "s3cret";
  const auto redis = StartRedis(options);
  const std::string url = redis->Url("x");
  ASSERT_THAT(url, Not(HasSubstr("s3cret")));
  DING_ASSERT_OK_AND_ASSIGN(const auto store, create_store(url));
  EXPECT_THAT(store->Put("a", {"1"}), IsOk());
  const std::string place = url.substr(0, url.find('?'));
  EXPECT_THAT(create_store(place), StatusIs(absl::StatusCode::kUnauthenticated,
                                            AllOf(HasSubstr(place), HasSubstr("password_file"))));
  const std::string wrong = JoinPath(FreshTestFolder(), "wrong");
  OverwriteFile(wrong, "wr0ng\n");
  ASSERT_EQ(chmod(wrong.c_str(), 0600), 0);
  EXPECT_THAT(create_store(absl::StrCat(place, "?password_file=", wrong)),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       AllOf(HasSubstr("does not accept the password"), Not(HasSubstr("wr0ng")))));
  const auto open = StartRedis();
  EXPECT_THAT(create_store(absl::StrCat(open->Url("x"), "?password_file=", wrong)),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("Redis has no password")));
  // The password is changed while the store is connected.
  ASSERT_THAT(redis->Command({"CONFIG", "SET", "requirepass", "0ther"}), IsOk());
  EXPECT_THAT(store->Put("a", {"2"}), IsOk()) << "the store uses its open connection";
}

// The password is changed in Redis first, and then in the file.
TEST_F(RedisStoreTest, UnavailableWhileThePasswordIsBeingChanged) {
  RedisServer::Options options;
  options.password = "s3cret";
  const auto redis = StartRedis(options);
  DING_ASSERT_OK_AND_ASSIGN(const auto store, create_store(redis->Url("x")));
  ASSERT_THAT(store->Put("a", {"1"}), IsOk());
  ASSERT_THAT(redis->Command({"CONFIG", "SET", "requirepass", "0ther"}), IsOk());
  ASSERT_THAT(redis->Command({"CLIENT", "KILL", "TYPE", "normal"}), IsOk());
  const auto refused = StatusIs(absl::StatusCode::kUnavailable,
                                AllOf(HasSubstr("does not accept the password"),
                                      HasSubstr(store->url()), Not(HasSubstr("s3cret"))));
  EXPECT_THAT(store->Put("a", {"2"}), refused);
  EXPECT_THAT(GetFrom(store.get(), "a"), refused);
  EXPECT_THAT(GetFrom(store.get(), "b"), refused);
  EXPECT_THAT(store->List(""), refused);
  EXPECT_THAT(store->Delete("a"), refused);
  const std::string file = redis->password_file();
  ASSERT_THAT(RemoveFile(file), IsOk());
  EXPECT_THAT(GetFrom(store.get(), "a"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(file)));
  OverwriteFile(file, "0ther\n");
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  EXPECT_EQ(GetFrom(store.get(), "a").value(), "1");
  EXPECT_THAT(store->Put("a", {"2"}), IsOk());
}

TEST_F(RedisStoreTest, ACommandThatIsNotAllowedIsAnErrorAtOnce) {
  Open({});
  ASSERT_THAT(redis_->Command({"ACL", "SETUSER", "default", "-set", "-unlink", "-scan"}), IsOk());
  const auto refused = StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("NOPERM"));
  EXPECT_THAT(store_->Put("a", {"1"}), refused);
  EXPECT_THAT(store_->Delete("a"), refused);
  EXPECT_THAT(store_->List(""), refused);
}

TEST_F(RedisStoreTest, RedisThatEvictsKeysIsRefused) {
  EXPECT_THAT(CreationWith({"maxmemory 100mb", "maxmemory-policy allkeys-lru"}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("allkeys-lru"), HasSubstr("104857600"),
                             HasSubstr("'maxmemory-policy noeviction'"))));
  EXPECT_THAT(CreationWith({"maxmemory 100mb", "maxmemory-policy volatile-ttl"}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(CreationWith({"maxmemory 100mb"}), IsOk());
  EXPECT_THAT(CreationWith({"maxmemory-policy allkeys-lru"}), IsOk())
      << "without maxmemory nothing is evicted";
  EXPECT_THAT(CreationWith({"cluster-enabled yes"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cluster")));
}

TEST_F(RedisStoreTest, ReplicaIsRefused) {
  Open({});
  EXPECT_THAT(CreationWith({absl::StrCat("replicaof 127.0.0.1 ", redis_->port())}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(absl::StrCat("127.0.0.1:", redis_->port())),
                             HasSubstr("use its master"))));
}

// ---- errors of Redis while the store is in use

TEST_F(RedisStoreTest, UnavailableWhileRedisIsAReplica) {
  Open({});
  ASSERT_THAT(store_->Put("a", {"1"}), IsOk());
  ASSERT_THAT(redis_->Command({"REPLICAOF", "127.0.0.1", "1"}), IsOk());
  EXPECT_THAT(store_->Put("a", {"2"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("replica")));
  EXPECT_THAT(store_->Delete("a"), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_THAT(redis_->Command({"REPLICAOF", "NO", "ONE"}), IsOk());
  EXPECT_EQ(Get("a").value(), "1");
  EXPECT_THAT(store_->Put("a", {"2"}), IsOk());
}

TEST_F(RedisStoreTest, UnavailableWhileRedisRefusesWrites) {
  Open({});
  ASSERT_THAT(store_->Put("a", {"1"}), IsOk());
  ASSERT_THAT(redis_->Command({"CONFIG", "SET", "min-replicas-to-write", "3"}), IsOk());
  EXPECT_THAT(store_->Put("a", {"2"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("too few replicas")));
  ASSERT_THAT(redis_->Command({"CONFIG", "SET", "min-replicas-to-write", "0"}), IsOk());
  EXPECT_EQ(Get("a").value(), "1");
}

TEST_F(RedisStoreTest, FullRedisRefusesValuesAndLosesNone) {
  RedisServer::Options options;
  options.lines = {"maxmemory 4mb"};
  for (const int64_t part_bytes : {RedisStore::kMaxPartBytes, int64_t{20000}}) {
    Open(options, part_bytes);
    const std::string value(100000, 'x');
    ASSERT_THAT(store_->Put("a", {"old"}), IsOk());
    int stored = 0;
    absl::Status status;
    while (stored < 1000 && (status = store_->Put(absl::StrCat("data/", stored), {value})).ok()) {
      ++stored;
    }
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 AllOf(HasSubstr("maxmemory"), HasSubstr(store_->url()),
                                       HasSubstr(absl::StrCat("data/", stored)))));
    EXPECT_THAT(store_->Put("a", {value}), StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(Get("a").value(), "old");
    EXPECT_THAT(store_->List("").value(), SizeIs(stored + 1));
    for (int i = 0; i < stored; ++i) EXPECT_TRUE(*Get(absl::StrCat("data/", i)) == value);
    EXPECT_THAT(RedisStore::Create(OptionsFor(*redis_)), IsOk()) << "a worker can still join";
    EXPECT_EQ(
        redis_->Command({"EVAL", "return #redis.call('KEYS', 'runs/7/.tmp*') .. ''", "0"}).value(),
        "0");
    // Deleting makes room again.
    for (int i = 0; i < stored; ++i) EXPECT_THAT(store_->Delete(absl::StrCat("data/", i)), IsOk());
    EXPECT_THAT(store_->Put("a", {value}), IsOk());
  }
}

TEST_F(RedisStoreTest, UnavailableWhileRedisIsGone) {
  RedisServer::Options options;
  options.append_fsync = "always";
  Open(options);
  ASSERT_THAT(store_->Put("a", {"1"}), IsOk());
  redis_->Kill();
  const auto unavailable = StatusIs(absl::StatusCode::kUnavailable,
                                    AllOf(HasSubstr(store_->url()), HasSubstr("cannot connect")));
  EXPECT_THAT(store_->Put("a", {"2"}), unavailable);
  EXPECT_THAT(Get("a"), unavailable);
  EXPECT_THAT(Get("b"), unavailable) << "the key must not be reported as missing";
  EXPECT_THAT(store_->Delete("a"), unavailable);
  EXPECT_THAT(store_->List(""), unavailable);
  ASSERT_THAT(redis_->Restart(), IsOk());
  EXPECT_EQ(Get("a").value(), "1");
  EXPECT_THAT(Get("b"), StatusIs(absl::StatusCode::kNotFound, Not(HasSubstr("lost"))));
  // A restart between two calls is not noticed.
  ASSERT_THAT(redis_->Restart(), IsOk());
  EXPECT_THAT(store_->Put("a", {"2"}), IsOk());
  EXPECT_EQ(Get("a").value(), "2");
}

TEST_F(RedisStoreTest, ReportsThatRedisLostItsData) {
  Open({});
  ASSERT_THAT(store_->Put("a", {"1"}), IsOk());
  EXPECT_THAT(Get("b"), StatusIs(absl::StatusCode::kNotFound, Not(HasSubstr("lost"))));
  ASSERT_THAT(redis_->Restart(), IsOk());
  const auto lost = StatusIs(absl::StatusCode::kNotFound,
                             AllOf(HasSubstr("has no 'a'"), HasSubstr("Redis has lost its data"),
                                   HasSubstr("appendonly yes")));
  EXPECT_THAT(Get("a"), lost);
  // A store that is opened later does not know of the loss; the first one still does.
  const auto later = RedisStore::Create(OptionsFor(*redis_)).value();
  EXPECT_THAT(GetFrom(later.get(), "a"),
              StatusIs(absl::StatusCode::kNotFound, Not(HasSubstr("lost"))));
  EXPECT_THAT(Get("a"), lost);
  EXPECT_THAT(store_->Put("a", {"2"}), IsOk()) << "the store can still be used";
  EXPECT_EQ(Get("a").value(), "2");
  ASSERT_THAT(redis_->Command({"FLUSHALL"}), IsOk());
  EXPECT_THAT(GetFrom(later.get(), "a"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Redis has lost its data")));
}

TEST_F(RedisStoreTest, HangingRedisTimesOut) {
  timeout_ = absl::Seconds(2);  // Long enough for Redis on a busy machine.
  Open({});
  ASSERT_THAT(store_->Put("a", {"1"}), IsOk());
  kill(redis_->pid(), SIGSTOP);
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kUnavailable,
                                 HasSubstr("no byte was transferred for too long")));
  EXPECT_THAT(store_->Put("a", {std::string(50 << 20, 'x')}),
              StatusIs(absl::StatusCode::kUnavailable));
  kill(redis_->pid(), SIGCONT);
  timeout_ = absl::Seconds(30);
  const auto patient = RedisStore::Create(OptionsFor(*redis_)).value();
  EXPECT_THAT(GetFrom(patient.get(), "a"), IsOk());
}

TEST_F(RedisStoreTest, UnfinishedValueOfAKilledWriterExpires) {
  Open({}, /*part_bytes=*/10);
  const pid_t pid = fork();
  if (pid == 0) {
    RedisStore::Options options = OptionsFor(*redis_);
    options.part_bytes = 10;
    const auto store = RedisStore::Create(options).value();
    store->Put("a", {std::string(10 << 20, 'x')}).IgnoreError();
    _exit(0);
  }
  const auto ask = [this](absl::string_view script) {
    return redis_->Command({"EVAL", script, "0"}).value();
  };
  while (ask("return #redis.call('KEYS', 'runs/7/.tmp/*') .. ''") == "0") {
    absl::SleepFor(absl::Milliseconds(1));
  }
  kill(pid, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the writer must be killed while it writes";
  EXPECT_THAT(store_->List("").value(), IsEmpty());
  EXPECT_THAT(Get("a"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(ask("return (redis.call('TTL', redis.call('KEYS', 'runs/7/.tmp/*')[1]) > 0) and "
                "'goes' or 'stays'"),
            "goes");
  ASSERT_THAT(store_->Put("a", {std::string(400, 'x')}), IsOk());
  EXPECT_EQ(ask("return redis.call('TTL', 'runs/7/a') .. ''"), "-1")
      << "a finished value does not expire";
}

TEST_F(RedisStoreTest, ThreadsShareFewerConnections) {
  redis_ = StartRedis();
  RedisStore::Options options = OptionsFor(*redis_);
  options.max_connections = 2;
  store_ = RedisStore::Create(options).value();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([this, thread] {
      std::string value;
      for (int i = 0; i < 200; ++i) {
        const std::string key = absl::StrCat("data/", thread, "/", i);
        ASSERT_THAT(store_->Put(key, {key}), IsOk());
        ASSERT_THAT(store_->Get(key, &value), IsOk());
        ASSERT_EQ(value, key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(store_->List("").value(), SizeIs(8 * 200));
  const std::string clients = redis_->Command({"CLIENT", "LIST"}).value();
  EXPECT_LE(std::count(clients.begin(), clients.end(), '\n'), 2 + 1)
      << "CLIENT LIST itself uses one more";
}

// Every value whose Put returned OK is complete after any number of kills. (This does not hold for
// "everysec", because Redis replies before it has written while it flushes its file.)
class KilledRedis : public testing::TestWithParam<const char*> {};

TEST_P(KilledRedis, KeepsAllAcknowledgedValues) {
  constexpr int kKills = 8;
  constexpr int kWriters = 3;
  const uint64_t seed = FirstFuzzSeed();
  SCOPED_TRACE(testing::Message() << "DING_FUZZ_SEED=" << seed);
  RedisServer::Options server;
  server.append_fsync = GetParam();
  const auto redis = StartRedis(server);
  RedisStore::Options options = OptionsFor(*redis);
  options.part_bytes = 10000;  // Some values are stored in parts.
  const auto store = RedisStore::Create(options).value();
  std::atomic<bool> done{false};
  std::atomic<int64_t> puts{0};
  Mutex mutex;
  std::map<std::string, char> acknowledged;  // key, and the letter that its value repeats
  std::vector<std::thread> threads;
  for (uint64_t writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      Rng rng(seed + writer, "writer");
      for (int i = 0; !done; ++i) {
        const std::string key = absl::StrCat("data/", writer, "/", i);
        const char letter = static_cast<char>('a' + rng.UniformInt(26));
        const std::string value(rng.UniformInt(20000), letter);
        absl::Status status = store->Put(key, {value});
        while (absl::IsUnavailable(status)) {
          absl::SleepFor(absl::Milliseconds(1));
          status = store->Put(key, {value});
        }
        EXPECT_THAT(status, IsOk());
        ++puts;
        MutexLock lock(&mutex);
        acknowledged[key] = letter;
      }
    });
  }
  threads.emplace_back([&] {
    Rng rng(seed, "reader");
    std::string value;
    while (!done) {
      const std::string key =
          absl::StrCat("data/", rng.UniformInt(kWriters), "/", rng.UniformInt(1000));
      bool known;
      {
        MutexLock lock(&mutex);
        known = acknowledged.count(key) > 0;
      }
      const absl::Status status = store->Get(key, &value);
      if (known) {
        EXPECT_THAT(status, AnyOf(IsOk(), StatusIs(absl::StatusCode::kUnavailable)));
      }
    }
  });
  Rng rng(seed, "killer");
  for (int i = 0; i < kKills; ++i) {
    const int64_t target = puts + 20 + static_cast<int64_t>(rng.UniformInt(200));
    while (puts < target) absl::SleepFor(absl::Milliseconds(1));
    redis->Kill();
    ASSERT_THAT(redis->Restart(), IsOk());
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(&mutex);
  for (const auto& [key, letter] : acknowledged) {
    DING_ASSERT_OK_AND_ASSIGN(const std::string value, GetFrom(store.get(), key));
    ASSERT_EQ(value.find_first_not_of(letter), std::string::npos) << key;
  }
  EXPECT_THAT(store->List("data/").value(), SizeIs(acknowledged.size()));
}

INSTANTIATE_TEST_SUITE_P(AppendFsync, KilledRedis, testing::Values("always", "no"));

}  // namespace
}  // namespace ding
