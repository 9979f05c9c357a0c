// Tests that every kind of journal must pass.
#include "ding_worker/coordinator/journal/journal.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/file_journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/store_journal.h"
#include "ding_worker/coordinator/testing/journal_fixture.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

// Where a journal lies.
class Place {
 public:
  virtual ~Place() = default;
  // Opens the journal as the next process would. A journal of fewer bytes is not compacted.
  virtual std::unique_ptr<Journal> Open(int64_t min_compaction_bytes = 1) = 0;
};

class FilePlace : public Place {
 public:
  std::unique_ptr<Journal> Open(int64_t min_compaction_bytes) override {
    return FileJournal::Open({JoinPath(folder_.path(), "journal"), min_compaction_bytes}).value();
  }

 private:
  const Folder folder_;
};

class StorePlace : public Place {
 public:
  explicit StorePlace(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  std::unique_ptr<Journal> Open(int64_t min_compaction_bytes) override {
    StoreJournal::Options options;
    options.store = store_.get();
    options.min_compaction_bytes = min_compaction_bytes;
    options.entry_bytes = 1000;  // Compacted ones have many.
    return StoreJournal::Open(options).value();
  }

 private:
  const std::unique_ptr<Store> store_;
};

class FileStorePlace : public Place {
 public:
  std::unique_ptr<Journal> Open(int64_t min_compaction_bytes) override {
    return place_.Open(min_compaction_bytes);
  }

 private:
  const Folder folder_;
  StorePlace place_{FileStore::Create(folder_.path()).value()};
};

// Returns a place in the one Redis that all tests of the process share, under names of its own.
std::unique_ptr<Place> RedisPlace() {
  static RedisServer* const redis = RedisServer::Start({}).value().release();
  static int runs = 0;
  RedisStore::Options options;
  options.server.host = "127.0.0.1";
  options.server.port = redis->port();
  options.prefix = absl::StrCat("run-", ++runs);
  return std::make_unique<StorePlace>(RedisStore::Create(options).value());
}

using PlaceMaker = std::function<std::unique_ptr<Place>()>;

// Runs each test with a journal of every kind.
class JournalTest : public testing::TestWithParam<PlaceMaker> {
 protected:
  std::unique_ptr<Journal> Open(int64_t min_compaction_bytes = 1) {
    return place_->Open(min_compaction_bytes);
  }

  const std::unique_ptr<Place> place_ = GetParam()();
};

INSTANTIATE_TEST_SUITE_P(File, JournalTest,
                         testing::Values(PlaceMaker([] { return std::make_unique<FilePlace>(); })));
INSTANTIATE_TEST_SUITE_P(MemStore, JournalTest, testing::Values(PlaceMaker([] {
                           return std::make_unique<StorePlace>(std::make_unique<MemStore>());
                         })));
INSTANTIATE_TEST_SUITE_P(FileStore, JournalTest, testing::Values(PlaceMaker([] {
                           return std::make_unique<FileStorePlace>();
                         })));
INSTANTIATE_TEST_SUITE_P(RedisStore, JournalTest, testing::Values(PlaceMaker(RedisPlace)));

TEST_P(JournalTest, TheNextProcessReadsAllRecords) {
  {
    const auto journal = Open();
    EXPECT_THAT(Read(*journal), IsEmpty());
    ASSERT_THAT(journal->Append({State(1), Push(7)}), IsOk());
    ASSERT_THAT(journal->Append({Removed({7, 8})}), IsOk());
  }
  {
    const auto journal = Open();
    EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 7", "removed 7 8"));
    ASSERT_THAT(journal->Append({Push(9)}), IsOk());
    EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 7", "removed 7 8", "push 9"));
  }
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 7", "removed 7 8", "push 9"));
}

TEST_P(JournalTest, CompactingKeepsOnlyTheLivePushes) {
  const auto journal = Open();
  JournalRecord two = Push(3);
  two.mutable_push()->add_chunk(4);
  ASSERT_THAT(
      journal->Append({State(1), Push(1), Push(2), two, Push(5, "closed"), Removed({1, 3})}),
      IsOk());
  const int64_t before = journal->size_bytes();
  ASSERT_THAT(journal->BeginCompaction([](const std::string& id) { return id == "buffer_0"; }),
              IsOk());
  // Records that are appended meanwhile are kept, except for the state.
  ASSERT_THAT(journal->Append({Push(6), Removed({2}), State(2)}), IsOk());
  ASSERT_THAT(journal->FinishCompaction({State(3)}), IsOk());
  journal->DropReplaced();
  EXPECT_LT(journal->size_bytes(), before);
  EXPECT_THAT(Read(*journal),
              ElementsAre("push 2", "push 3 4", "removed 3", "push 6", "removed 2", "state 3"));
  ASSERT_THAT(journal->Append({Push(7)}), IsOk());
  EXPECT_EQ(journal->compactions(), 1);
  EXPECT_THAT(Read(*Open()), ElementsAre("push 2", "push 3 4", "removed 3", "push 6", "removed 2",
                                         "state 3", "push 7"));
}

TEST_P(JournalTest, AnUnfinishedCompactionChangesNothing) {
  {
    const auto journal = Open();
    ASSERT_THAT(journal->Append({State(1), Push(1)}), IsOk());
    ASSERT_THAT(journal->BeginCompaction(All), IsOk());
  }
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 1"));
}

TEST_P(JournalTest, WantsCompactionWhenItHasDoubled) {
  const auto journal = Open(/*min_compaction_bytes=*/1000);
  EXPECT_FALSE(journal->WantsCompaction());
  int64_t chunk = 0;
  while (!journal->WantsCompaction()) ASSERT_THAT(journal->Append({Push(chunk++)}), IsOk());
  EXPECT_GE(journal->size_bytes(), 1000);
  ASSERT_THAT(Compact(journal.get(), State(1)), IsOk());
  EXPECT_FALSE(journal->WantsCompaction()) << "all of it lives";
  const int64_t compacted = journal->size_bytes();
  while (!journal->WantsCompaction()) ASSERT_THAT(journal->Append({Push(chunk++)}), IsOk());
  EXPECT_GE(journal->size_bytes(), 2 * compacted);
}

TEST_P(JournalTest, AppendsContinueDuringACompaction) {
  const auto journal = Open();
  constexpr int64_t kPushes = 5000;
  std::thread pushes([&journal] {
    for (int64_t chunk = 0; chunk < kPushes; ++chunk) {
      ASSERT_THAT(journal->Append({Push(chunk)}), IsOk());
    }
  });
  for (int32_t i = 0; i < 10; ++i) ASSERT_THAT(Compact(journal.get(), State(i)), IsOk());
  pushes.join();
  std::vector<std::string> expected;
  for (int64_t chunk = 0; chunk < kPushes; ++chunk)
    expected.push_back(absl::StrCat("push ", chunk));
  std::vector<std::string> found = Read(*Open());
  found.erase(std::remove(found.begin(), found.end(), "state 9"), found.end());
  EXPECT_THAT(found, ElementsAreArray(expected));
}

TEST_P(JournalTest, EqualsTheModel) {
  const uint64_t seed = NewSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Rng rng(seed, "journal");
  Records records(&rng);
  Said said;
  auto journal = Open();
  for (int i = 0; i < 500; ++i) {
    const uint64_t what = rng.UniformInt(20);
    if (what == 0) {
      journal = Open();
    } else if (what == 1) {
      ASSERT_THAT(journal->BeginCompaction(All), IsOk());
      JournalRecord push = Push(1000000 + i);
      ASSERT_THAT(journal->Append({push}), IsOk());
      const JournalRecord state = records.NextState();
      ASSERT_THAT(journal->FinishCompaction({state}), IsOk());
      if (rng.UniformInt(2) == 0) journal->DropReplaced();
      said.Add(push);
      said.Add(state);
    } else {
      const std::vector<JournalRecord> next = records.Next(said);
      ASSERT_THAT(journal->Append(next), IsOk());
      for (const JournalRecord& record : next) said.Add(record);
    }
    ASSERT_EQ(SaidBy(*journal), said) << "step " << i;
  }
}

}  // namespace
}  // namespace ding
