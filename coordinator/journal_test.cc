#include "ding_worker/coordinator/journal.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/file_journal.h"
#include "ding_worker/coordinator/journal.pb.h"
#include "ding_worker/coordinator/store_journal.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/testing/faulty_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

JournalRecord Push(int64_t chunk, const std::string& buffer = "buffer_0") {
  JournalRecord record;
  record.mutable_push()->set_buffer_id(buffer);
  record.mutable_push()->add_chunk(chunk);
  record.mutable_push()->set_items(std::string(40, static_cast<char>(chunk)));
  return record;
}

JournalRecord Removed(const std::vector<int64_t>& chunks) {
  JournalRecord record;
  for (const int64_t chunk : chunks) record.mutable_removed()->add_chunk(chunk);
  return record;
}

JournalRecord State(int32_t incarnation) {
  JournalRecord record;
  record.mutable_state()->set_incarnation(incarnation);
  return record;
}

// "push 7", "removed 7,8", "state 3"
std::string Describe(const JournalRecord& record) {
  std::string text = record.has_push() ? "push" : record.has_removed() ? "removed" : "state";
  for (const int64_t chunk : record.push().chunk()) absl::StrAppend(&text, " ", chunk);
  for (const int64_t chunk : record.removed().chunk()) absl::StrAppend(&text, " ", chunk);
  if (record.has_state()) absl::StrAppend(&text, " ", record.state().incarnation());
  return text;
}

std::vector<std::string> Read(const Journal& journal) {
  std::vector<std::string> records;
  EXPECT_THAT(journal.Read([&records](const JournalRecord& record) {
    records.push_back(Describe(record));
    return absl::OkStatus();
  }),
              IsOk());
  return records;
}

bool All(const std::string& /*buffer_id*/) { return true; }

absl::Status Compact(Journal* journal, const JournalRecord& state) {
  absl::Status status = journal->BeginCompaction(All);
  if (status.ok()) status = journal->FinishCompaction({state});
  journal->DropReplaced();
  return status;
}

class Folder {
 public:
  Folder() {
    std::string path = absl::StrCat(testing::TempDir(), "/journal_XXXXXX");
    path_ = mkdtemp(path.data());
  }
  ~Folder() { RemoveRecursively(path_).IgnoreError(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Where a journal lies.
class Place {
 public:
  virtual ~Place() = default;
  // As the next process does; a smaller one is not worth compacting.
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

// In one Redis for all tests of the process, under names of its own.
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

// What every journal does.
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

TEST_P(JournalTest, IsThereForTheNextProcess) {
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

TEST_P(JournalTest, CompactingKeepsWhatLives) {
  const auto journal = Open();
  JournalRecord two = Push(3);
  two.mutable_push()->add_chunk(4);
  ASSERT_THAT(
      journal->Append({State(1), Push(1), Push(2), two, Push(5, "closed"), Removed({1, 3})}),
      IsOk());
  const int64_t before = journal->size_bytes();
  ASSERT_THAT(journal->BeginCompaction([](const std::string& id) { return id == "buffer_0"; }),
              IsOk());
  // What comes meanwhile is kept, but for the state.
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

TEST_P(JournalTest, WhatACompactionLeftHalfDoneChangesNothing) {
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

TEST_P(JournalTest, OthersAppendWhileItIsCompacted) {
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

// What a journal says: of pushes, those that live.
struct Said {
  std::vector<int64_t> live;
  int32_t state = 0;

  void Add(const JournalRecord& record) {
    if (record.has_state()) state = record.state().incarnation();
    live.insert(live.end(), record.push().chunk().begin(), record.push().chunk().end());
    for (const int64_t chunk : record.removed().chunk()) {
      live.erase(std::remove(live.begin(), live.end(), chunk), live.end());
    }
  }
  bool operator==(const Said& other) const { return live == other.live && state == other.state; }
};

std::ostream& operator<<(std::ostream& out, const Said& said) {
  return out << "state " << said.state << ", live: " << testing::PrintToString(said.live);
}

Said SaidBy(const Journal& journal) {
  // A push may come after the chunk's removal, if the journal was compacted: twice.
  std::vector<JournalRecord> records;
  EXPECT_THAT(journal.Read([&records](const JournalRecord& record) {
    records.push_back(record);
    return absl::OkStatus();
  }),
              IsOk());
  Said said;
  for (const JournalRecord& record : records) said.Add(record);
  return said;
}

// Pushes, removals and states at random, each chunk once.
class Records {
 public:
  explicit Records(Rng* rng) : rng_(*rng) {}

  std::vector<JournalRecord> Next(const Said& said) {
    std::vector<JournalRecord> records;
    for (uint64_t i = 0; i <= rng_.UniformInt(3); ++i) {
      switch (said.live.empty() || i > 0 ? 0 : rng_.UniformInt(3)) {
        case 0:
          records.push_back(Push(++chunk_));
          break;
        case 1:
          records.push_back(State(++state_));
          break;
        default:
          records.push_back(Removed({said.live[rng_.UniformInt(said.live.size())]}));
      }
    }
    return records;
  }
  JournalRecord NextState() { return State(++state_); }

 private:
  Rng& rng_;
  int64_t chunk_ = 0;
  int32_t state_ = 0;
};

uint64_t NewSeed() { return static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())); }

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

class FileJournalTest : public testing::Test {
 protected:
  std::unique_ptr<FileJournal> Open() { return FileJournal::Open(options_).value(); }
  std::string Bytes() { return ReadFile(options_.path).value(); }
  void SetBytes(const std::string& bytes) {
    ASSERT_THAT(WriteFileAtomically(options_.path, bytes), IsOk());
  }

  const Folder folder_;
  FileJournal::Options options_{JoinPath(folder_.path(), "journal")};
};

TEST_F(FileJournalTest, ATornEndIsCutOffWhereverItIsTorn) {
  ASSERT_THAT(Open()->Append({State(1), Push(7)}), IsOk());
  const size_t whole = Bytes().size();
  ASSERT_THAT(Open()->Append({Push(8)}), IsOk());
  const std::string bytes = Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    SetBytes(bytes.substr(0, size));
    const auto journal = Open();
    if (size >= whole) {
      EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 7")) << size;
    }
    ASSERT_THAT(journal->Append({Push(9)}), IsOk());
    EXPECT_EQ(Read(*journal).back(), "push 9") << size;
  }
  SetBytes(bytes + std::string(100, '\0'));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 7", "push 8"));
}

TEST_F(FileJournalTest, DamageIsNoTornEnd) {
  ASSERT_THAT(Open()->Append({State(1), Push(7), Push(8)}), IsOk());
  const std::string bytes = Bytes();
  for (size_t at = 8; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    SetBytes(damaged);
    EXPECT_THAT(FileJournal::Open(options_).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is damaged: the record at byte")))
        << at;
  }
  SetBytes("something else");
  EXPECT_THAT(FileJournal::Open(options_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(FileJournalTest, NeverInventsARecord) {
  std::vector<JournalRecord> records;
  for (int64_t chunk = 0; chunk < 20; ++chunk) records.push_back(Push(chunk));
  ASSERT_THAT(Open()->Append(records), IsOk());
  const std::string bytes = Bytes();
  const std::vector<std::string> all = Read(*Open());
  Fuzz(300, [&](Mutator* mutator) {
    SetBytes(mutator->Mutate(bytes));
    const auto journal = FileJournal::Open(options_);
    if (!journal.ok()) return;
    // What is read was written, in its order; a mutation may leave out, or repeat, whole records.
    for (const std::string& record : Read(**journal)) EXPECT_THAT(all, testing::Contains(record));
  });
}

TEST_F(FileJournalTest, AFullDiskLeavesItAsItWas) {
  options_.path = "/dev/full";
  EXPECT_FALSE(FileJournal::Open(options_).ok());
}

// A store that fails as it is told to.
class StoreJournalTest : public testing::Test {
 protected:
  StoreJournalTest() {
    options_.store = &store_;
    options_.min_compaction_bytes = 1;
    options_.entry_bytes = 200;
  }
  std::unique_ptr<StoreJournal> Open() { return StoreJournal::Open(options_).value(); }
  absl::Status OpenStatus() { return StoreJournal::Open(options_).status(); }
  // Of the generation that is read.
  std::vector<std::string> Entries() {
    const std::vector<std::string> keys = memory_.List(kJournalPrefix).value();
    std::string folder;
    for (const std::string& key : keys) {
      if (absl::EndsWith(key, "/head")) folder = key.substr(0, key.size() - 4);
    }
    std::vector<std::string> entries;
    for (const std::string& key : keys) {
      if (absl::StartsWith(key, folder) && !absl::EndsWith(key, "/head")) entries.push_back(key);
    }
    return entries;
  }

  MemStore memory_;
  FaultyStore store_{&memory_, NewSeed()};
  StoreJournal::Options options_;
};

TEST_F(StoreJournalTest, WhoWasReplacedIsToldAndWritesNothingThatIsRead) {
  const auto old = Open();
  ASSERT_THAT(old->Append({Push(1)}), IsOk());
  ASSERT_THAT(old->BeginCompaction(All), IsOk());
  const auto next = Open();
  EXPECT_THAT(Read(*next), ElementsAre("push 1"));
  const auto is_told =
      StatusIs(absl::StatusCode::kAborted, HasSubstr("another coordinator goes on with this run"));
  EXPECT_THAT(old->FinishCompaction({State(1)}), is_told);
  EXPECT_THAT(old->Append({Push(2)}), is_told);
  EXPECT_THAT(old->BeginCompaction(All), is_told);
  old->DropReplaced();
  ASSERT_THAT(next->Append({Push(3)}), IsOk());
  EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "push 3"));
}

// It has put its entry, and been stopped before it looked who the owner is.
TEST_F(StoreJournalTest, WhatIsPutUnderAnotherOwnerIsNotAcknowledged) {
  const auto old = Open();
  ASSERT_THAT(old->Append({Push(1)}), IsOk());
  const auto next = Open();
  ASSERT_THAT(next->Append({Push(2)}), IsOk());
  EXPECT_THAT(old->Append({Push(3)}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "push 2"));
}

TEST_F(StoreJournalTest, AStoreThatWasEmptiedGetsAllOfItAgain) {
  {
    const auto journal = Open();
    for (int i = 0; i < 10; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
    ASSERT_THAT(store_.Clear(), IsOk());
    ASSERT_THAT(journal->Append({Push(10)}), IsOk());
  }
  EXPECT_EQ(Read(*Open()).size(), 11u);
}

TEST_F(StoreJournalTest, AStoreThatLostItsLastPutsGetsAllOfItAgain) {
  for (int lost = 1; lost < 8; ++lost) {
    ASSERT_THAT(store_.Clear(), IsOk());
    {
      const auto journal = Open();
      for (int i = 0; i < 5; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
      store_.LoseLast(lost);
      ASSERT_THAT(journal->Append({Push(5)}), IsOk()) << lost;
    }
    EXPECT_EQ(Read(*Open()).size(), 6u) << lost;
  }
}

TEST_F(StoreJournalTest, AStoreThatIsEmptiedWhileItIsCompactedLosesNothing) {
  {
    const auto journal = Open();
    for (int i = 0; i < 20; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
    ASSERT_THAT(journal->BeginCompaction(All), IsOk());
    ASSERT_THAT(store_.Clear(), IsOk());
    EXPECT_THAT(journal->FinishCompaction({State(1)}),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has lost the journal")));
    ASSERT_THAT(journal->BeginCompaction(All), IsOk());
    ASSERT_THAT(store_.Clear(), IsOk());
    ASSERT_THAT(journal->Append({Push(20)}), IsOk());
    EXPECT_THAT(journal->FinishCompaction({State(1)}),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("was begun anew")));
    ASSERT_THAT(Compact(journal.get(), State(2)), IsOk());
  }
  EXPECT_EQ(Read(*Open()).size(), 22u);
}

TEST_F(StoreJournalTest, AnAppendThatTakesEffectLateChangesNothing) {
  {
    const auto journal = Open();
    ASSERT_THAT(journal->Append({Push(1)}), IsOk());
    store_.set_failing(1);
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(journal->Append({Push(2)}), StatusIs(absl::StatusCode::kUnavailable));
    }
    store_.set_failing(0);
    ASSERT_THAT(journal->Append({Push(3)}), IsOk());
    store_.TakeEffectLate();
    ASSERT_THAT(journal->Append({Push(4)}), IsOk());
  }
  EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "push 3", "push 4"));
}

TEST_F(StoreJournalTest, AFullStoreLeavesItAsItWas) {
  {
    const auto journal = Open();
    ASSERT_THAT(journal->Append({Push(1)}), IsOk());
    store_.set_full(true);
    EXPECT_THAT(journal->Append({Push(2)}), StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(Compact(journal.get(), State(1)), StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(Read(*journal), ElementsAre("push 1"));
    store_.set_full(false);
    const int64_t puts = store_.put_count();
    ASSERT_THAT(journal->Append({Push(3)}), IsOk());
    EXPECT_EQ(store_.put_count(), puts + 1) << "nothing is put again";
  }
  EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "push 3"));
}

TEST_F(StoreJournalTest, ACompactedOneLiesInSeveralValuesAndNothingElseDoes) {
  const auto journal = Open();
  for (int i = 0; i < 100; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
  ASSERT_THAT(Compact(journal.get(), State(1)), IsOk());
  EXPECT_GT(Entries().size(), 10u);
  EXPECT_LT(Entries().size(), 50u);
  EXPECT_EQ(memory_.List("").value().size(), Entries().size() + 2) << "its head and the owner";
}

TEST_F(StoreJournalTest, WhatIsDamagedOrMissingIsRefused) {
  const auto fill = [this] {
    ASSERT_THAT(store_.Clear(), IsOk());
    const auto journal = Open();
    for (int i = 0; i < 20; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
    ASSERT_THAT(Compact(journal.get(), State(1)), IsOk());
    for (int i = 0; i < 3; ++i) ASSERT_THAT(journal->Append({Push(20 + i)}), IsOk());
  };
  const auto is_refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kDataLoss,
                    AllOf(HasSubstr("the journal in store 'mem:"), HasSubstr(why),
                          HasSubstr("begin a new run")));
  };
  fill();
  ASSERT_THAT(memory_.Delete(Entries()[1]), IsOk());
  EXPECT_THAT(OpenStatus(), is_refused("has no entry 2, but later ones"));
  fill();
  const std::vector<std::string> entries = Entries();
  for (size_t i = 3; i < entries.size(); ++i) ASSERT_THAT(memory_.Delete(entries[i]), IsOk());
  EXPECT_THAT(OpenStatus(), is_refused("has 3 entries of the "));
  fill();
  const std::string head = Entries()[0].substr(0, Entries()[0].rfind('/')) + "/head";
  ASSERT_THAT(memory_.Put(head, {"2 7"}), IsOk());
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("is none of this version of the coordinator: it has "
                                               "version 2, this program reads version 1")));
  ASSERT_THAT(memory_.Put(head, {"1 x"}), IsOk());
  EXPECT_THAT(OpenStatus(), is_refused("has a head that is none"));
  ASSERT_THAT(memory_.Delete(head), IsOk());
  EXPECT_THAT(OpenStatus(), is_refused("lacks its beginning"));
  fill();
  ASSERT_THAT(memory_.Put(Entries()[2], {"something else"}), IsOk());
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(StoreJournalTest, OneThatMustBeThereIs) {
  options_.must_exist = true;
  EXPECT_THAT(OpenStatus(),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("has no journal of this run"),
                                                          HasSubstr("the store was emptied"))));
  options_.must_exist = false;
  Open();
  options_.must_exist = true;
  EXPECT_THAT(OpenStatus(), IsOk()) << "though nothing was appended";
}

TEST_F(StoreJournalTest, NeverInventsARecord) {
  {
    const auto journal = Open();
    for (int64_t chunk = 0; chunk < 20; ++chunk)
      ASSERT_THAT(journal->Append({Push(chunk)}), IsOk());
    ASSERT_THAT(Compact(journal.get(), State(1)), IsOk());
  }
  const std::vector<std::string> all = Read(*Open());
  const std::vector<std::string> keys = memory_.List(kJournalPrefix).value();
  Fuzz(300, [&](Mutator* mutator) {
    // A store checks its values: whole ones may be missing, or be another's.
    MemStore mutant;
    std::string value;
    for (const std::string& key : keys) {
      ASSERT_THAT(memory_.Get(key, &value), IsOk());
      ASSERT_THAT(mutant.Put(key, {absl::string_view(value)}), IsOk());
    }
    const std::string& key = keys[mutator->rng()->UniformInt(keys.size())];
    ASSERT_THAT(memory_.Get(key, &value), IsOk());
    value = mutator->Mutate(value);
    ASSERT_THAT(mutant.Put(key, {absl::string_view(value)}), IsOk());
    StoreJournal::Options options = options_;
    options.store = &mutant;
    const auto journal = StoreJournal::Open(options);
    if (journal.ok()) Read(**journal);
  });
}

TEST(RedisJournalTest, WaitsForARedisThatIsFullOrAReplicaOrGone) {
  RedisServer::Options with_file;
  with_file.append_fsync = "always";
  const auto redis = RedisServer::Start(with_file).value();
  const auto say = [&redis](const std::vector<absl::string_view>& command) {
    ASSERT_THAT(redis->Command(command), IsOk());
  };
  RedisStore::Options server;
  server.server.host = "127.0.0.1";
  server.server.port = redis->port();
  server.prefix = "run";
  const auto store = RedisStore::Create(server).value();
  StoreJournal::Options options;
  options.store = store.get();
  {
    const auto journal = StoreJournal::Open(options).value();
    ASSERT_THAT(journal->Append({Push(1)}), IsOk());
    say({"CONFIG", "SET", "maxmemory", "1"});
    EXPECT_THAT(journal->Append({Push(2)}), StatusIs(absl::StatusCode::kResourceExhausted));
    say({"CONFIG", "SET", "maxmemory", "0"});
    ASSERT_THAT(journal->Append({Push(3)}), IsOk());
    say({"REPLICAOF", "127.0.0.1", "1"});
    EXPECT_THAT(journal->Append({Push(4)}), StatusIs(absl::StatusCode::kUnavailable));
    say({"REPLICAOF", "NO", "ONE"});
    ASSERT_THAT(journal->Append({Push(5)}), IsOk());
    redis->Kill();
    EXPECT_THAT(journal->Append({Push(6)}), StatusIs(absl::StatusCode::kUnavailable));
    ASSERT_THAT(redis->Restart(), IsOk());
    ASSERT_THAT(journal->Append({Push(7)}), IsOk());
  }
  const auto again = StoreJournal::Open(options).value();
  EXPECT_THAT(Read(*again), ElementsAre("push 1", "push 3", "push 5", "push 7"));
}

// With a store that fails, loses what was put, is emptied, and does late what it said it did not;
// processes that die at any moment, and ones that hang and wake: what was acknowledged is there, in
// its order, and at most one append that was not.
TEST_F(StoreJournalTest, EqualsTheModelWhateverTheStoreDoes) {
  const uint64_t seed = NewSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  for (uint64_t round = 0; round < 30; ++round) {
    Rng rng(seed, "faults", round);
    MemStore memory;
    FaultyStore store(&memory, seed + round);
    options_.store = &store;
    Records records(&rng);
    Said said;                    // acknowledged
    std::vector<Said> might_say;  // with what was not
    std::unique_ptr<StoreJournal> zombie;
    std::unique_ptr<StoreJournal> journal = Open();
    bool lost = false;  // The store has lost something since the last append.
    for (int i = 0; i < 200; ++i) {
      SCOPED_TRACE(absl::StrCat("round ", round, " step ", i));
      store.set_failing(rng.UniformInt(4) == 0 ? 0.4 : 0);
      switch (rng.UniformInt(20)) {
        case 0: {  // The process dies, or hangs.
          if (lost) break;
          store.set_failing(0);
          if (rng.UniformInt(2) == 0) store.TakeEffectLate();
          std::unique_ptr<StoreJournal> next = Open();
          if (rng.UniformInt(2) == 0) zombie = std::move(journal);
          journal = std::move(next);
          const Said found = SaidBy(*journal);
          might_say.push_back(said);
          ASSERT_THAT(might_say, Contains(found));
          // What was not acknowledged may appear until this one has written something.
          said = found;
          if (zombie == nullptr) break;
          const JournalRecord state = records.NextState();
          ASSERT_THAT(Compact(journal.get(), state), IsOk());
          said.Add(state);
          might_say.clear();
          break;
        }
        case 1:
        case 2: {
          const JournalRecord state = records.NextState();
          const absl::Status compacted = Compact(journal.get(), state);
          might_say.push_back(said);
          might_say.back().Add(state);
          if (compacted.ok()) {
            said = might_say.back();
            might_say.clear();
            lost = false;
          }
          break;
        }
        case 3:  // One who finds no owner may take itself for it, until the owner appends.
          if (zombie != nullptr) break;
          ASSERT_THAT(store.Clear(), IsOk());
          lost = true;
          break;
        case 4:
          if (zombie != nullptr) break;
          store.LoseLast(1 + static_cast<int>(rng.UniformInt(5)));
          lost = true;
          break;
        case 5:
          store.TakeEffectLate();
          break;
        case 6:
        case 7:
          if (zombie == nullptr) break;
          EXPECT_FALSE(zombie->Append({Push(-1)}).ok());
          EXPECT_FALSE(Compact(zombie.get(), State(-1)).ok());
          if (rng.UniformInt(2) == 0) zombie.reset();
          break;
        default: {
          const std::vector<JournalRecord> next = records.Next(said);
          const absl::Status appended = journal->Append(next);
          might_say.push_back(said);
          for (const JournalRecord& record : next) might_say.back().Add(record);
          if (appended.ok()) {
            said = might_say.back();
            might_say.clear();
            lost = false;
          } else {
            ASSERT_THAT(appended, StatusIs(absl::StatusCode::kUnavailable));
          }
        }
      }
      ASSERT_FALSE(HasFailure());
      ASSERT_EQ(SaidBy(*journal), said);
    }
  }
}

}  // namespace
}  // namespace ding
