// What every log does: SqliteLog, RedisLog, and MemLog, which is the model of both.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/coordinator/testing/mem_log.h"
#include "ding_worker/interaction/redis/redis_log.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Records = std::vector<std::pair<int64_t, std::string>>;

Records Read(Log* log) {
  Records records;
  EXPECT_THAT(log->Read([&records](int64_t index, absl::string_view record) {
    records.emplace_back(index, record);
    return absl::OkStatus();
  }),
              IsOk());
  return records;
}

MATCHER_P(IsOkAndHolds, matcher, "") {
  return testing::ExplainMatchResult(IsOk(), arg, result_listener) &&
         testing::ExplainMatchResult(matcher, *arg, result_listener);
}

Log::Change Append(std::vector<absl::string_view> records) {
  Log::Change change;
  change.append = std::move(records);
  return change;
}

enum class Kind { kMem, kSqlite, kRedis };

std::string NameOf(const testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kMem ? "Mem" : info.param == Kind::kSqlite ? "Sqlite" : "Redis";
}

class LogTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    folder_ = CreateTemporaryDirectory(JoinPath(testing::TempDir(), "log_test")).value();
    if (GetParam() == Kind::kRedis) redis_ = RedisServer::Start({}).value();
  }
  void TearDown() override { RemoveRecursively(folder_).IgnoreError(); }

  absl::StatusOr<std::unique_ptr<Log>> TryOpen(LogOptions options = {"run-1"}) {
    options.sync = LogSync::kNone;
    if (GetParam() == Kind::kMem) return std::make_unique<MemLog>(&mem_);
    if (GetParam() == Kind::kSqlite) return SqliteLog::Open(JoinPath(folder_, "log"), options);
    RedisServerAddress server;
    server.host = "127.0.0.1";
    server.port = redis_->port();
    return RedisLog::Open(server, "runs/1", redis_->Url("runs/1"), options);
  }
  std::unique_ptr<Log> Open() { return TryOpen().value(); }
  bool IsReal() const { return GetParam() != Kind::kMem; }

  std::string folder_;
  MemLogData mem_;
  std::unique_ptr<RedisServer> redis_;
};

INSTANTIATE_TEST_SUITE_P(Logs, LogTest, testing::Values(Kind::kMem, Kind::kSqlite, Kind::kRedis),
                         NameOf);

TEST_P(LogTest, KeepsRecordsInOrder) {
  {
    const auto log = Open();
    EXPECT_THAT(Read(log.get()), IsEmpty());
    EXPECT_THAT(log->Commit(Append({"a", ""})), IsOkAndHolds(1));
    EXPECT_THAT(log->Commit(Append({std::string(100000, 'b')})), IsOkAndHolds(3));
    EXPECT_THAT(log->Commit(Append({})), IsOkAndHolds(4));
    EXPECT_THAT(log->Sync(), IsOk());
  }
  const auto log = Open();
  EXPECT_THAT(Read(log.get()),
              ElementsAre(Pair(1, "a"), Pair(2, ""), Pair(3, std::string(100000, 'b'))));
  EXPECT_GT(log->size_bytes(), 0);
}

TEST_P(LogTest, RemovesRecordsAndGivesNoIndexTwiceWhileOpen) {
  auto log = Open();
  ASSERT_THAT(log->Commit(Append({"a", "b", "c", "d", "e"})), IsOk());
  Log::Change change = Append({"f"});
  change.remove = {4, 2, 77, 4};
  EXPECT_THAT(log->Commit(change), IsOkAndHolds(6));
  EXPECT_THAT(Read(log.get()), ElementsAre(Pair(1, "a"), Pair(3, "c"), Pair(5, "e"), Pair(6, "f")));
  change = Log::Change();
  change.remove = {1, 3, 6, 5};
  ASSERT_THAT(log->Commit(change), IsOk());
  EXPECT_THAT(Read(log.get()), IsEmpty());
  EXPECT_THAT(log->Commit(Append({"g"})), IsOkAndHolds(7));
  log.reset();
  EXPECT_THAT(Read(Open().get()), ElementsAre(Pair(7, "g")));
}

TEST_P(LogTest, ReplacesPartsOfTheSnapshotTogetherWithTheRecords) {
  auto log = Open();
  EXPECT_THAT(log->ReadSnapshot(), IsOkAndHolds(IsEmpty()));
  ASSERT_THAT(log->Commit(Append({"a", "b"})), IsOk());
  Log::Change change = Append({"c"});
  const std::string large(10000, 's');
  change.snapshot = {{"x", "one"}, {"y", large}, {"z/1", "three"}};
  change.remove = {1};
  ASSERT_THAT(log->Commit(change), IsOk());
  log.reset();
  log = Open();
  EXPECT_THAT(log->ReadSnapshot(),
              IsOkAndHolds(ElementsAre(Pair("x", "one"), Pair("y", large), Pair("z/1", "three"))));
  EXPECT_THAT(Read(log.get()), ElementsAre(Pair(2, "b"), Pair(3, "c")));
  change = Log::Change();
  change.snapshot = {{"y", "two"}, {"x", ""}, {"none", ""}};
  ASSERT_THAT(log->Commit(change), IsOk());
  EXPECT_THAT(log->ReadSnapshot(),
              IsOkAndHolds(ElementsAre(Pair("y", "two"), Pair("z/1", "three"))));
  change = Append({"d"});
  change.snapshot = {{"w", "four"}};
  change.anew = true;
  EXPECT_THAT(log->Commit(change), IsOkAndHolds(4));
  EXPECT_THAT(Read(log.get()), ElementsAre(Pair(4, "d")));
  EXPECT_THAT(log->ReadSnapshot(), IsOkAndHolds(ElementsAre(Pair("w", "four"))));
}

TEST_P(LogTest, AVisitorsErrorEndsTheReading) {
  const auto log = Open();
  ASSERT_THAT(log->Commit(Append({"a", "b"})), IsOk());
  int64_t visited = 0;
  EXPECT_THAT(log->Read([&visited](int64_t, absl::string_view) {
    ++visited;
    return absl::InternalError("stop");
  }),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(visited, 1);
  EXPECT_THAT(log->Commit(Append({"c"})), IsOkAndHolds(3));
}

TEST_P(LogTest, OnlyOneOfTwoProcessesWrites) {
  const auto first = Open();
  ASSERT_THAT(first->Commit(Append({"a"})), IsOk());
  if (GetParam() == Kind::kSqlite) {
    EXPECT_THAT(TryOpen(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in use")));
    EXPECT_THAT(first->Commit(Append({"b"})), IsOkAndHolds(2));
    return;
  }
  const auto second = Open();
  EXPECT_THAT(first->Commit(Append({"b"})),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("another coordinator goes on")));
  EXPECT_THAT(second->Commit(Append({"c"})), IsOkAndHolds(2));
  Log::Change anew = Append({"d"});
  anew.anew = true;
  EXPECT_THAT(first->Commit(anew), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Read(second.get()), ElementsAre(Pair(1, "a"), Pair(2, "c")));
}

TEST_P(LogTest, ALogOfAnotherRunIsRefused) {
  if (!IsReal()) return;
  ASSERT_THAT(Open()->Commit(Append({"a"})), IsOk());
  EXPECT_THAT(TryOpen({"run-2"}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("is of run 'run-1', expected 'run-2'")));
  EXPECT_EQ(Read(Open().get()).size(), 1);
}

TEST_P(LogTest, ALogThatMustExistIsNotMade) {
  if (!IsReal()) return;
  LogOptions options{"run-1"};
  options.must_exist = true;
  EXPECT_THAT(TryOpen(options), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(Open()->Commit(Append({"a"})), IsOk());
  EXPECT_THAT(TryOpen(options), IsOk());
}

TEST_P(LogTest, RandomChangesAreThoseOfTheModel) {
  const auto seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  Rng rng(seed, "log");
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  MemLogData expected;
  MemLog model(&expected);
  auto log = Open();
  for (int i = 0; i < 600; ++i) {
    std::vector<std::string> bytes;
    for (uint64_t n = rng.UniformInt(4); n > 0; --n) {
      bytes.push_back(
          std::string(rng.UniformInt(3) == 0 ? rng.UniformInt(9000) : rng.UniformInt(50),
                      static_cast<char>(rng.UniformInt(256))));
    }
    Log::Change change = Append({bytes.begin(), bytes.end()});
    for (uint64_t n = rng.UniformInt(6); n > 0; --n) {
      change.remove.push_back(
          static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(expected.next) + 2)));
    }
    const std::string name(1, static_cast<char>('a' + rng.UniformInt(8)));
    if (!bytes.empty()) change.snapshot = {{name, bytes[0]}, {"last", bytes.back()}};
    if (rng.UniformInt(100) == 0) {
      change.remove.clear();
      change.anew = true;
    }
    const int64_t first = model.Commit(change).value();
    ASSERT_THAT(log->Commit(change), IsOkAndHolds(first)) << i;
    // A log that is opened again may give the indexes again that are above all that it has.
    const bool last_is_there = expected.records.count(expected.next - 1) > 0;
    if (last_is_there && rng.UniformInt(20) == 0) {
      log.reset();
      log = Open();
    }
    if (rng.UniformInt(10) != 0) continue;
    ASSERT_EQ(Read(log.get()), Records(expected.records.begin(), expected.records.end())) << i;
    ASSERT_THAT(log->ReadSnapshot(), IsOkAndHolds(expected.snapshot)) << i;
  }
}

class RedisLogTest : public LogTest {};
INSTANTIATE_TEST_SUITE_P(Redis, RedisLogTest, testing::Values(Kind::kRedis));

TEST_P(RedisLogTest, ACommitWhoseConnectionWasClosedIsMadeOnce) {
  const auto log = Open();
  ASSERT_THAT(log->Commit(Append({"a"})), IsOk());
  ASSERT_THAT(redis_->Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}), IsOk());
  EXPECT_THAT(log->Commit(Append({"b"})), IsOkAndHolds(2));
  EXPECT_THAT(Read(log.get()), ElementsAre(Pair(1, "a"), Pair(2, "b")));
}

TEST_P(RedisLogTest, ALogThatRedisHasLostIsBegunAnew) {
  const auto log = Open();
  ASSERT_THAT(log->Commit(Append({"a", "b"})), IsOk());
  ASSERT_THAT(redis_->Command({"FLUSHALL"}), IsOk());
  EXPECT_THAT(log->Commit(Append({"c"})), StatusIs(absl::StatusCode::kDataLoss));
  Log::Change anew = Append({"a", "b", "c"});
  anew.anew = true;
  EXPECT_THAT(log->Commit(anew), IsOkAndHolds(3));
  EXPECT_THAT(log->Commit(Append({"d"})), IsOkAndHolds(6));
  EXPECT_EQ(Read(log.get()).size(), 4);
  EXPECT_EQ(Read(Open().get()).size(), 4);
}

TEST_P(RedisLogTest, AFullRedisRefusesTheWholeChange) {
  const auto log = Open();
  ASSERT_THAT(log->Commit(Append({"a", "b"})), IsOk());
  ASSERT_THAT(redis_->Command({"CONFIG", "SET", "maxmemory", "1kb"}), IsOk());
  Log::Change change = Append({"c"});
  change.remove = {1};
  EXPECT_THAT(log->Commit(change), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(Read(log.get()).size(), 2);
  ASSERT_THAT(redis_->Command({"CONFIG", "SET", "maxmemory", "0"}), IsOk());
  EXPECT_THAT(log->Commit(change), IsOkAndHolds(3));
  EXPECT_THAT(Read(log.get()), ElementsAre(Pair(2, "b"), Pair(3, "c")));
}

TEST_P(RedisLogTest, AJournalOfAnEarlierVersionIsRefused) {
  ASSERT_THAT(redis_->Command({"SET", "runs/1/journal/owner", "x"}), IsOk());
  EXPECT_THAT(TryOpen(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("has version 1, expected 3")));
}

}  // namespace
}  // namespace ding
