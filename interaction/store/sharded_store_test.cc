#include "ding_worker/interaction/store/sharded_store.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/testing/store_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Lt;
using testing::Not;
using testing::SizeIs;

// What a server of the test is like, and the values that it keeps while it is away.
struct Server {
  absl::Status state;      // what every call returns, if it is not OK
  absl::Status put_state;  // the same for Put
  int calls = 0;
  MemStore values;
};

class ServerStore : public Store {
 public:
  explicit ServerStore(Server* server) : server_(server) {}

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override {
    DING_RETURN_IF_ERROR(Enter());
    DING_RETURN_IF_ERROR(server_->put_state);
    return server_->values.Put(key, pieces);
  }
  absl::Status Get(absl::string_view key, std::string* value) override {
    DING_RETURN_IF_ERROR(Enter());
    return server_->values.Get(key, value);
  }
  absl::Status Delete(absl::string_view key) override {
    DING_RETURN_IF_ERROR(Enter());
    return server_->values.Delete(key);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override {
    DING_RETURN_IF_ERROR(Enter());
    return server_->values.List(prefix);
  }
  absl::Status Clear() override {
    DING_RETURN_IF_ERROR(Enter());
    return server_->values.Clear();
  }
  const std::string& url() const override { return server_->values.url(); }

 private:
  absl::Status Enter() {
    ++server_->calls;
    return server_->state;
  }

  Server* const server_;
};

const absl::Status& Gone() {
  static const auto* const gone = new absl::Status(absl::UnavailableError("cannot connect"));
  return *gone;
}

class ShardedStoreTest : public testing::Test {
 protected:
  static constexpr int kServers = 3;

  absl::StatusOr<std::unique_ptr<ShardedStore>> Create(absl::Duration patience) {
    std::vector<ShardedStore::Part> parts;
    for (int i = 0; i < kServers; ++i) {
      Server* const server = &servers_[i];
      parts.push_back(
          {absl::StrCat("server", i), [server]() -> absl::StatusOr<std::unique_ptr<Store>> {
             DING_RETURN_IF_ERROR(server->state);
             return std::make_unique<ServerStore>(server);
           }});
    }
    return ShardedStore::Create("many:", std::move(parts), &clock_, patience);
  }
  void Open() { store_ = Create(absl::ZeroDuration()).value(); }
  void Pause(absl::Duration time) { clock_.Advance(time); }
  absl::StatusOr<std::string> Get(absl::string_view key) {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    if (!status.ok()) return status;
    return value;
  }
  // Puts a value, and returns the server that has it.
  int PutAt(const std::string& key) {
    EXPECT_THAT(store_->Put(key, {key}), IsOk());
    int place = -1;
    for (int i = 0; i < kServers; ++i) {
      if (!servers_[i].values.List(key).value().empty()) place = i;
    }
    return place;
  }
  // Returns a key of a chunk that lies in the server.
  std::string ChunkAt(int server) {
    for (uint32_t sequence = next_++;; sequence = next_++) {
      const std::string key = ChunkKey(ChunkNumber(7, sequence));
      if (PutAt(key) == server) return key;
    }
  }

  SimulatedClock clock_;
  Server servers_[kServers];
  std::unique_ptr<ShardedStore> store_;
  uint32_t next_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Sharded, StoreConformance, testing::Values(StoreMaker([] {
                           std::vector<ShardedStore::Part> parts;
                           for (const char* const name : {"a", "b", "c"}) {
                             parts.push_back({name, [] { return std::make_unique<MemStore>(); }});
                           }
                           return ShardedStore::Create("many:", std::move(parts)).value();
                         })));

TEST_F(ShardedStoreTest, SpreadsChunksAndPoliciesAndNothingElse) {
  Open();
  for (uint32_t i = 0; i < 3000; ++i) {
    ASSERT_THAT(store_->Put(ChunkKey(ChunkNumber(i % 5, i)), {"x"}), IsOk());
  }
  for (Server& server : servers_) {
    EXPECT_THAT(server.values.List("").value(), SizeIs(AllOf(Gt(900), Lt(1100))));
  }
  for (int i = 0; i < 30; ++i) PutAt(absl::StrCat("policy/p/", i, "-3"));
  for (Server& server : servers_) {
    EXPECT_THAT(server.values.List("policy/").value(), Not(IsEmpty()));
  }
  for (int i = 0; i < 30; ++i) EXPECT_EQ(PutAt(absl::StrCat("file/", i)), 0);
  EXPECT_THAT(store_->List("").value(), SizeIs(3060));
  // All processes of all versions must find the values.
  std::string places;
  for (int i = 10; i < 30; ++i) absl::StrAppend(&places, PutAt(absl::StrCat("data/7/", i)));
  EXPECT_EQ(places, "00022212101012001200");
}

TEST_F(ShardedStoreTest, AnotherServerTakesTheValuesOfOneThatIsAway) {
  Open();
  const std::string before = ChunkAt(1);
  servers_[1].state = Gone();
  for (int i = 0; i < 100; ++i) EXPECT_NE(PutAt(absl::StrCat("data/1/", i)), 1);
  for (int i = 0; i < 100; ++i) EXPECT_THAT(Get(absl::StrCat("data/1/", i)), IsOk());
  EXPECT_EQ(servers_[1].calls, 2) << "one for the first chunk, and one that has failed";
  servers_[1].state = absl::OkStatus();
  Pause(absl::Seconds(1));
  EXPECT_EQ(Get(before).value(), before);
  for (int i = 0; i < 100; ++i) EXPECT_THAT(Get(absl::StrCat("data/1/", i)), IsOk());
  EXPECT_THAT(store_->List("data/1/").value(), SizeIs(100));
  ChunkAt(1);
}

TEST_F(ShardedStoreTest, WhatIsThereCountsAsLostAfterAWhile) {
  Open();
  const std::string key = ChunkAt(1);
  const std::string other = ChunkAt(2);
  servers_[1].state = Gone();
  for (int second = 0; second < 30; ++second) {
    EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_THAT(store_->List("data/"), StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_EQ(Get(other).value(), other);
    Pause(absl::Seconds(1));
  }
  EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kNotFound,
                                 AllOf(HasSubstr("'server1'"), HasSubstr("cannot connect"))));
  EXPECT_THAT(store_->List("data/").value(), Not(Contains(key)));
  EXPECT_THAT(store_->List("data/").value(), Contains(other));
  servers_[1].state = absl::OkStatus();
  Pause(absl::Seconds(1));
  EXPECT_EQ(Get(key).value(), key);
  // A short absence later on begins from the start.
  servers_[1].state = Gone();
  EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ShardedStoreTest, TheFirstServerLosesNothingButChunksAndPolicies) {
  Open();
  ASSERT_EQ(PutAt("file/a"), 0);
  const std::string chunk = ChunkAt(0);
  servers_[0].state = Gone();
  EXPECT_THAT(Get("file/a"), StatusIs(absl::StatusCode::kUnavailable));
  Pause(absl::Hours(1));
  EXPECT_THAT(Get(chunk), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Get("file/a"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_->Put("file/a", {"2"}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_->List("file/"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_->List(""), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_->List("data/"), IsOk());
  EXPECT_THAT(store_->OpenLog({}), StatusIs(absl::StatusCode::kUnavailable));
  servers_[0].state = absl::OkStatus();
  Pause(absl::Seconds(1));
  EXPECT_EQ(Get("file/a").value(), "file/a");
  EXPECT_THAT(store_->OpenLog({}), StatusIs(absl::StatusCode::kFailedPrecondition))
      << "a store in memory has none";
}

TEST_F(ShardedStoreTest, AFullServerPassesValuesOn) {
  Open();
  const auto full = absl::ResourceExhaustedError("full");
  servers_[2].put_state = full;
  for (int i = 0; i < 50; ++i) EXPECT_NE(PutAt(absl::StrCat("data/1/", i)), 2);
  for (int i = 0; i < 50; ++i) EXPECT_THAT(Get(absl::StrCat("data/1/", i)), IsOk());
  servers_[0].put_state = servers_[1].put_state = full;
  EXPECT_THAT(store_->Put("data/1/x", {"1"}), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Get("data/1/1"), IsOk());
  servers_[0].put_state = absl::InternalError("something else");
  servers_[1].put_state = servers_[2].put_state = servers_[0].put_state;
  EXPECT_THAT(store_->Put("data/1/x", {"1"}), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(ShardedStoreTest, DeletesWhenAServerIsBack) {
  Open();
  std::vector<std::string> keys;
  for (int i = 0; i < 250; ++i) keys.push_back(ChunkAt(1));
  const std::string kept = ChunkAt(1);
  servers_[1].state = Gone();
  for (const std::string& key : keys) EXPECT_THAT(store_->Delete(key), IsOk());
  servers_[1].state = absl::OkStatus();
  Pause(absl::Seconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(store_->Delete("data/0/0"), IsOk());
  for (const std::string& key : keys) {
    EXPECT_THAT(servers_[1].values.List(key).value(), IsEmpty());
  }
  EXPECT_EQ(Get(kept).value(), kept);
  for (Server& server : servers_) server.state = Gone();
  EXPECT_THAT(store_->Delete(kept), StatusIs(absl::StatusCode::kUnavailable));
}

// A server that does not answer for 10 s must not be asked all the time.
TEST_F(ShardedStoreTest, TriesAServerThatIsAwayFromTimeToTime) {
  Open();
  const std::string key = ChunkAt(1);
  servers_[1].state = Gone();
  EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kUnavailable));
  const int calls = servers_[1].calls;
  Pause(absl::Milliseconds(999));
  EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(servers_[1].calls, calls);
  Pause(absl::Milliseconds(1));
  EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(servers_[1].calls, calls + 1);
}

TEST_F(ShardedStoreTest, OpensWhileAServerIsAway) {
  Open();
  const std::string key = ChunkAt(1);
  servers_[1].state = Gone();
  Open();
  EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kNotFound)) << "nobody knows since when";
  EXPECT_THAT(store_->List("").value(), Not(Contains(key)));
  EXPECT_THAT(store_->Put("data/1/1", {"1"}), IsOk());
  servers_[1].state = absl::UnauthenticatedError("the password is being changed");
  Pause(absl::Seconds(1));
  EXPECT_THAT(Get(key), StatusIs(absl::StatusCode::kNotFound));
  servers_[1].state = absl::OkStatus();
  Pause(absl::Seconds(1));
  EXPECT_EQ(Get(key).value(), key) << "it is opened now";

  for (Server& server : servers_) server.state = Gone();
  EXPECT_THAT(Create(absl::Hours(1)), StatusIs(absl::StatusCode::kUnavailable));
  servers_[0].state = absl::OkStatus();
  servers_[1].state = absl::UnauthenticatedError("wrong password");
  EXPECT_THAT(Create(absl::ZeroDuration()), StatusIs(absl::StatusCode::kUnauthenticated));
  servers_[1].state = absl::FailedPreconditionError("it evicts keys");
  EXPECT_THAT(Create(absl::ZeroDuration()), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ShardedStoreTest, ClearsTheOthersIfOneIsAway) {
  Open();
  for (int i = 0; i < kServers; ++i) ChunkAt(i);
  servers_[0].state = Gone();
  EXPECT_THAT(store_->Clear(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(servers_[2].values.List("").value(), IsEmpty());
  servers_[0].state = absl::OkStatus();
  Pause(absl::Seconds(1));
  EXPECT_THAT(store_->Clear(), IsOk());
  EXPECT_THAT(servers_[0].values.List("").value(), IsEmpty());
}

}  // namespace
}  // namespace ding
