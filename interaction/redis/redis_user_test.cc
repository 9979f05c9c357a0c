// A store and its log as a user of Redis' ACL who may do no more than the rules of our page allow.
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/redis/redis_connection.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/store/testing/store_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RedisOfAUser {
 public:
  RedisOfAUser() : password_file_(JoinPath(FreshTestFolder(), "password")) {
    OverwriteFile(password_file_, "w0rker\n");
    EXPECT_EQ(chmod(password_file_.c_str(), 0600), 0);
    RedisServer::Options options;
    options.password = "s3cret";
    options.lines = {absl::StrCat("user ding on >w0rker ~runs/* ", kRedisUserRules)};
    auto started = RedisServer::Start(options);
    EXPECT_THAT(started, IsOk());
    server_ = *std::move(started);
  }

  RedisServer* server() { return server_.get(); }
  const std::string& password_file() const { return password_file_; }
  RedisStore::Options OptionsOf(const std::string& prefix) const {
    RedisStore::Options options;
    options.server = server_->address();
    options.server.user = "ding";
    options.server.password_file = password_file_;
    options.prefix = prefix;
    return options;
  }

 private:
  const std::string password_file_;
  std::unique_ptr<RedisServer> server_;
};

// Returns an empty store in the Redis that all tests of the process share.
std::unique_ptr<Store> NewStore(int64_t part_bytes) {
  static RedisOfAUser* const redis = new RedisOfAUser;
  static int stores = 0;
  RedisStore::Options options = redis->OptionsOf(absl::StrCat("runs/", ++stores));
  options.part_bytes = part_bytes;
  return RedisStore::Create(options).value();
}

INSTANTIATE_TEST_SUITE_P(RedisUser, StoreConformance, testing::Values(StoreMaker([] {
                           return NewStore(RedisStore::kMaxPartBytes);
                         })));
INSTANTIATE_TEST_SUITE_P(RedisUserInParts, StoreConformance,
                         testing::Values(StoreMaker([] { return NewStore(1000); })));

TEST(RedisUser, MayDoAllThatAStoreNeeds) {
  RedisOfAUser redis;
  RedisStore::Options options = redis.OptionsOf("runs/7");
  options.part_bytes = 10;
  DING_ASSERT_OK_AND_ASSIGN(const auto store, RedisStore::Create(options));
  ASSERT_THAT(redis.server()->Command({"SADD", "runs/7/set", "x"}), IsOk());
  std::string value;
  EXPECT_THAT(store->Get("set", &value), StatusIs(absl::StatusCode::kDataLoss))
      << "this asks for its type";
  EXPECT_THAT(store->Put("a", {"a value in several parts"}), IsOk());
  ASSERT_THAT(redis.server()->Command({"CONFIG", "SET", "maxmemory", "1"}), IsOk());
  EXPECT_THAT(store->Put("a", {std::string(100, 'x')}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_THAT(redis.server()->Command({"CONFIG", "SET", "maxmemory", "0"}), IsOk());
  EXPECT_THAT(store->Get("a", &value), IsOk()) << "by the connection of the failed attempt";
  EXPECT_EQ(value, "a value in several parts");

  LogOptions log_options;
  log_options.run = "r";
  DING_ASSERT_OK_AND_ASSIGN(auto log, store->OpenLog(log_options));
  Log::Change change;
  change.append = {"one", "two"};
  change.snapshot = {{"part", "bytes"}, {"other", "bytes"}};
  EXPECT_EQ(log->Commit(change).value(), 1);
  change = {};
  change.append = {"three"};
  change.remove = {1};
  change.snapshot = {{"other", ""}};
  EXPECT_EQ(log->Commit(change).value(), 3);
  EXPECT_GT(log->size_bytes(), 0);
  ASSERT_THAT(redis.server()->Command({"CLIENT", "KILL", "USER", "ding"}), IsOk());
  EXPECT_EQ(log->Commit(change).value(), 4) << "it asks whether the last attempt took effect";
  DING_ASSERT_OK_AND_ASSIGN(log, store->OpenLog(log_options));
  std::vector<int64_t> indexes;
  EXPECT_THAT(log->Read([&](int64_t index, absl::string_view) {
    indexes.push_back(index);
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(indexes, testing::ElementsAre(2, 3, 4));
  EXPECT_EQ(log->ReadSnapshot().value().size(), 1u);
  change = {};
  change.anew = true;
  EXPECT_THAT(log->Commit(change), IsOk());
  EXPECT_THAT(store->Clear(), IsOk());
}

TEST(RedisUser, MayDoNothingElse) {
  RedisOfAUser redis;
  const auto connection = RedisConnection::Open(redis.OptionsOf("runs/7").server).value();
  for (const absl::string_view command : {"CONFIG GET dir", "FLUSHALL", "SHUTDOWN", "KEYS *",
                                          "GET other/x", "ACL LIST", "REPLICAOF NO ONE"}) {
    const std::vector<absl::string_view> words = absl::StrSplit(command, ' ');
    EXPECT_THAT(connection->Call(words), StatusIs(absl::StatusCode::kPermissionDenied)) << command;
  }
}

TEST(RedisUser, RefusalsSayWhatIsMissing) {
  RedisOfAUser redis;
  const std::string place = absl::StrCat("redis:127.0.0.1:", redis.server()->port(), "/runs/7");
  const std::string file = absl::StrCat("?password_file=", redis.password_file());
  DING_ASSERT_OK_AND_ASSIGN(const auto store, create_store(place + file + "&user=ding"));
  const auto unknown =
      StatusIs(absl::StatusCode::kUnauthenticated,
               AllOf(HasSubstr("does not know the 'user'"), Not(HasSubstr("w0rker"))));
  EXPECT_THAT(create_store(place + file + "&user=dong"), unknown);
  EXPECT_THAT(create_store(place + file), unknown) << "that is not the password of 'default'";
  EXPECT_THAT(RedisStore::Create(redis.OptionsOf("other")),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("~PREFIX/*")));
  ASSERT_THAT(redis.server()->Command({"ACL", "SETUSER", "ding", "-rpush"}), IsOk());
  EXPECT_THAT(store->Put("a", {std::string(5 << 20, 'x')}),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr(kRedisUserRules), HasSubstr("'rpush'"))));
}

}  // namespace
}  // namespace ding
