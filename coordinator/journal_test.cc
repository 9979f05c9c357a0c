#include "ding_worker/coordinator/journal.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
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
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/file_journal.h"
#include "ding_worker/coordinator/journal.pb.h"
#include "ding_worker/coordinator/journal_check.h"
#include "ding_worker/coordinator/store_journal.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/testing/faulty_store.h"
#include "ding_worker/replay_buffer/testing/test_items.h"
#include "glog/logging.h"
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

// A compacted one has its state once or twice.
std::vector<std::string> Read(const Journal& journal) {
  std::vector<std::string> records;
  EXPECT_THAT(journal.Read([&records](const JournalRecord& record) {
    const std::string text = Describe(record);
    const bool again = record.has_state() && !records.empty() && records.back() == text;
    if (!again) records.push_back(text);
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

// What is logged while it lives.
class LogText : public google::LogSink {
 public:
  LogText() { google::AddLogSink(this); }
  ~LogText() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, size_t size) override {
    text_.append(message, size);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class FileJournalTest : public testing::Test {
 protected:
  // Thousands of warnings.
  FileJournalTest() { FLAGS_minloglevel = google::GLOG_ERROR; }
  ~FileJournalTest() override { FLAGS_minloglevel = google::GLOG_INFO; }
  std::unique_ptr<FileJournal> Open() { return FileJournal::Open(options_).value(); }
  std::string Bytes() { return ReadFile(options_.path).value(); }
  void SetBytes(const std::string& bytes) { OverwriteFile(options_.path, bytes); }
  // Writes a journal of records of many sizes; ends_[i] is the size with the first i records.
  void Fill(int records) {
    ends_ = {8};
    for (int i = 0; i < records; ++i) {
      JournalRecord record = i % 3 == 0 ? State(i) : Push(i);
      // Some end in zeros; some hold a sector of them.
      if (i % 3 == 1) record.mutable_push()->set_items(std::string(static_cast<size_t>(40 * i), 0));
      if (i % 3 == 2) record.mutable_push()->set_envstep(0);
      ASSERT_THAT(Open()->Append({record}), IsOk());
      ends_.push_back(Bytes().size());
    }
    all_ = Read(*Open());
    ASSERT_EQ(all_.size(), static_cast<size_t>(records));
  }
  // What the records of the first `size` bytes say.
  std::vector<std::string> AllBefore(size_t size) const {
    size_t whole = 0;
    while (whole + 1 < ends_.size() && ends_[whole + 1] <= size) ++whole;
    return {all_.begin(), all_.begin() + static_cast<ptrdiff_t>(whole)};
  }
  // It opens with those records, and an append goes behind them.
  void ExpectRecords(std::vector<std::string> expected, const std::string& what) {
    SCOPED_TRACE(what);
    {
      const auto journal = FileJournal::Open(options_);
      ASSERT_THAT(journal, IsOk());
      ASSERT_EQ(Read(**journal), expected);
      ASSERT_THAT((*journal)->Append({Push(99)}), IsOk());
    }
    expected.push_back("push 99");
    ASSERT_EQ(Read(*Open()), expected);
  }

  const Folder folder_;
  FileJournal::Options options_{JoinPath(folder_.path(), "journal")};
  std::vector<size_t> ends_;
  std::vector<std::string> all_;
};

TEST_F(FileJournalTest, ATornEndIsCutOffWhereverItIsTorn) {
  Fill(7);
  const std::string bytes = Bytes();
  for (size_t size = 0; size <= bytes.size(); ++size) {
    SetBytes(bytes.substr(0, size));
    ExpectRecords(AllBefore(size), absl::StrCat("cut at ", size));
    if (HasFailure()) return;
  }
}

TEST_F(FileJournalTest, TheLogSaysWhatIsDropped) {
  Fill(7);
  const std::string bytes = Bytes();
  FLAGS_minloglevel = google::GLOG_INFO;
  const LogText log;
  Open();
  EXPECT_EQ(log.text(), "");
  SetBytes(bytes.substr(0, bytes.size() - 5) + std::string(5, '\0'));
  Open();
  const size_t lost = bytes.size() - ends_[6];
  EXPECT_THAT(log.text(), AllOf(HasSubstr(options_.path),
                                HasSubstr(absl::StrCat("the last ", lost, " of its ", bytes.size(),
                                                       " bytes, from byte ", ends_[6], " on"))));
}

// The machine went down before the rest was on the disk: from any byte on there are zeros, to the end
// of what was written or of the block.
TEST_F(FileJournalTest, ZerosFromAnywhereToTheEndAreCutOff) {
  Fill(7);
  const std::string bytes = Bytes();
  for (const size_t more : {0, 4096}) {
    for (size_t from = 0; from < bytes.size(); ++from) {
      SetBytes(bytes.substr(0, from) + std::string(bytes.size() - from + more, '\0'));
      ExpectRecords(AllBefore(from), absl::StrCat("zeros from ", from, ", and ", more));
      if (HasFailure()) return;
    }
    SetBytes(bytes + std::string(more, '\0'));
    ExpectRecords(all_, absl::StrCat(more, " zeros behind it"));
  }
}

// A disk writes sectors in any order: of the last record some are there, and some are zeros.
TEST_F(FileJournalTest, ALastRecordThatLacksSectorsIsCutOff) {
  Fill(4);
  JournalRecord large = Push(50);
  large.mutable_push()->set_items(std::string(4000, 'x'));
  ASSERT_THAT(Open()->Append({large}), IsOk());
  const std::string bytes = Bytes();
  for (size_t sector = 512 * (ends_.back() / 512 + 1); sector + 512 < bytes.size(); sector += 512) {
    std::string torn = bytes;
    torn.replace(sector, 512, 512, '\0');
    SetBytes(torn);
    ExpectRecords(all_, absl::StrCat("sector ", sector));
  }
}

// All records of an append count, or none.
TEST_F(FileJournalTest, OfAnAppendThatIsTornNoRecordCounts) {
  Fill(4);
  ASSERT_THAT(Open()->Append({State(50), Push(51), Removed({51}), Push(52)}), IsOk());
  const std::string bytes = Bytes();
  for (size_t size = ends_.back(); size < bytes.size(); ++size) {
    SetBytes(bytes.substr(0, size));
    ExpectRecords(all_, absl::StrCat("cut at ", size));
    SetBytes(bytes.substr(0, size) + std::string(bytes.size() - size, '\0'));
    ExpectRecords(all_, absl::StrCat("zeros from ", size));
    if (HasFailure()) return;
  }
}

// What the state says stands nowhere else.
TEST_F(FileJournalTest, ACompactedOneThatLosesItsEndKeepsItsState) {
  ASSERT_THAT(Open()->Append({State(1), Push(1), Push(2)}), IsOk());
  JournalRecord commander;
  commander.set_commander(std::string(100, 'c'));
  {
    const auto journal = Open();
    ASSERT_THAT(journal->BeginCompaction(All), IsOk());
    ASSERT_THAT(journal->FinishCompaction({State(2), commander}), IsOk());
  }
  const std::string bytes = Bytes();
  for (size_t lost = 1; lost <= 100; ++lost) {
    SetBytes(bytes.substr(0, bytes.size() - lost) + std::string(lost, '\0'));
    int commanders = 0;
    ASSERT_THAT(Open()->Read([&commanders](const JournalRecord& record) {
      commanders += record.has_commander() ? 1 : 0;
      return absl::OkStatus();
    }),
                IsOk());
    ASSERT_EQ(commanders, 1);
    ASSERT_EQ(SaidBy(*Open()).state, 2);
  }
}

TEST_F(FileJournalTest, DamageIsNoTornEnd) {
  Fill(7);
  const std::string bytes = Bytes();
  const auto refused =
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr(options_.path), HasSubstr("is damaged: the record at byte"),
                     HasSubstr("ctl journal check"), HasSubstr("ctl journal repair")));
  for (size_t at = 8; at < bytes.size(); ++at) {
    for (const char flip : {'\x01', '\x10', '\x80'}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      SetBytes(damaged);
      ASSERT_THAT(FileJournal::Open(options_).status(), refused) << at;
      ASSERT_EQ(Bytes(), damaged) << "it is left as it is";
    }
  }
  // Zeros are, too, if whole records follow.
  for (size_t from = 8; from < ends_[6]; ++from) {
    const size_t end = *std::upper_bound(ends_.begin(), ends_.end(), from);
    std::string damaged = bytes;
    damaged.replace(from, end - from, end - from, '\0');
    SetBytes(damaged);
    ASSERT_THAT(FileJournal::Open(options_).status(), refused) << from;
  }
  // A damaged beginning says nothing that is not known.
  std::string damaged = bytes;
  damaged.replace(0, 8, "DINGxNL2");
  SetBytes(damaged);
  ExpectRecords(all_, "beginning");
}

TEST_F(FileJournalTest, WhatIsNoJournalOfThisVersionIsRefused) {
  const auto refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(why));
  };
  SetBytes("something else");
  EXPECT_THAT(FileJournal::Open(options_).status(), refused("no journal of a coordinator"));
  SetBytes("DINGJNL1" + std::string(100, 'x'));
  EXPECT_THAT(FileJournal::Open(options_).status(),
              refused("a journal of version 1, this program reads version 2"));
  SetBytes(std::string(100, '\0') + "x");
  EXPECT_THAT(FileJournal::Open(options_).status(), refused("no journal of a coordinator"));
  ASSERT_THAT(RemoveFile(options_.path), IsOk());
  ASSERT_EQ(mkfifo(options_.path.c_str(), 0600), 0);
  EXPECT_THAT(FileJournal::Open(options_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a FIFO")));
}

TEST_F(FileJournalTest, NeverInventsARecord) {
  Fill(20);
  const std::string bytes = Bytes();
  Fuzz(300, [&](Mutator* mutator) {
    const std::string mutant = mutator->Mutate(bytes);
    SetBytes(mutant);
    const auto journal = FileJournal::Open(options_);
    if (!journal.ok()) return;
    // What is read was written, in its order, from the beginning.
    const std::vector<std::string> read = Read(**journal);
    ASSERT_LE(read.size(), all_.size());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), all_.begin()));
  });
}

TEST_F(FileJournalTest, AFullDiskLeavesItAsItWas) {
  Fill(3);
  JournalRecord large = Push(7);
  large.mutable_push()->set_items(std::string(5000, 'x'));
  const auto full = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(options_.path));
  const auto journal = Open();
  const std::string bytes = Bytes();
  {
    // A part of it fits.
    const FileSizeLimit limit(bytes.size() + 2000);
    EXPECT_THAT(journal->Append({Push(6), large}), full);
    EXPECT_EQ(Bytes(), bytes) << "the part is cut off again";
    ASSERT_THAT(journal->Append({Push(8)}), IsOk());
    EXPECT_THAT(journal->Append({large}), full);
  }
  ASSERT_THAT(journal->Append({large}), IsOk());
  std::vector<std::string> expected = all_;
  expected.insert(expected.end(), {"push 8", "push 7"});
  EXPECT_THAT(Read(*Open()), ElementsAreArray(expected));
  {
    const FileSizeLimit limit(1000);
    EXPECT_THAT(journal->BeginCompaction(All), StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_THAT(Read(*journal), ElementsAreArray(expected));
  EXPECT_FALSE(PathExists(options_.path + ".new"));
}

TEST_F(FileJournalTest, OneThatIsCutWhileItIsOpenIsDamaged) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Push(1), Push(2)}), IsOk());
  ASSERT_EQ(truncate(options_.path.c_str(), journal->size_bytes() - 10), 0);
  EXPECT_THAT(journal->BeginCompaction(All),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("by somebody else")));
}

TEST_F(FileJournalTest, ASecondProcessIsRefused) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Push(1)}), IsOk());
  const auto in_another_process = [this](const std::string& expected) {
    const pid_t pid = fork();
    if (pid == 0) {
      const absl::Status opened = FileJournal::Open(options_).status();
      const absl::Status repaired = RepairJournal(options_.path, false).status();
      const bool as_expected = absl::IsFailedPrecondition(opened) &&
                               absl::StrContains(opened.message(), expected) &&
                               absl::StrContains(repaired.message(), expected) &&
                               CheckJournal(options_.path).value().user == getppid();
      _exit(as_expected ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status == 0;
  };
  const std::string in_use = absl::StrCat("is in use by process ", getpid());
  EXPECT_TRUE(in_another_process(in_use));
  ASSERT_THAT(Compact(journal.get(), State(2)), IsOk());
  EXPECT_TRUE(in_another_process(in_use)) << "the file that took its place";
}

class JournalCheckTest : public FileJournalTest {
 protected:
  void FillRun() {
    JournalRecord state = State(3);
    state.mutable_state()->set_train_iter(50);
    state.mutable_state()->add_buffer()->set_buffer_id("buffer_0");
    PolicyRecord* const policy = state.mutable_state()->add_policy();
    policy->add_stored();
    policy->add_stored();
    ASSERT_THAT(Open()->Append({state}), IsOk());
    for (const int64_t chunk : {1, 2, 3}) {
      JournalRecord push = Push(chunk);
      push.mutable_push()->set_items(EncodedBatch(TestItemsOfChunk(chunk, 10).rows).ToString());
      push.mutable_push()->set_envstep(10 * chunk);
      ends_.push_back(Bytes().size());
      ASSERT_THAT(Open()->Append({push}), IsOk());
    }
    ends_.push_back(Bytes().size());
    ASSERT_THAT(Open()->Append({Removed({1})}), IsOk());
  }
  JournalReport Check() { return CheckJournal(options_.path).value(); }
  // Flips a bit in the push of chunk 2.
  std::string Damage() {
    std::string bytes = Bytes();
    bytes[ends_[1] + 20] = static_cast<char>(bytes[ends_[1] + 20] ^ 4);
    SetBytes(bytes);
    return bytes;
  }
};

TEST_F(JournalCheckTest, SaysWhatAWholeOneHolds) {
  FillRun();
  const JournalReport report = Check();
  EXPECT_TRUE(report.whole());
  EXPECT_FALSE(report.damaged());
  EXPECT_EQ(report.records(), 5);
  EXPECT_EQ(report.first.rows, 20);
  EXPECT_EQ(report.first.envstep, 30);
  EXPECT_THAT(report.ToString(),
              AllOf(HasSubstr(options_.path), HasSubstr("journal of version 2"),
                    HasSubstr("5 whole records"),
                    HasSubstr("a resume finds: 20 rows, 30 env steps, 50 train iterations, policy "
                              "version 0 (2 stored), incarnation 3")));
  EXPECT_THAT(RepairJournal(options_.path, false).value(), HasSubstr("nothing is changed"));
  EXPECT_THAT(ListDirectory(folder_.path()).value(), ElementsAre("journal"));
}

TEST_F(JournalCheckTest, SaysWhereADamagedOneIsAndRepairsIt) {
  FillRun();
  const std::string damaged = Damage();
  const JournalReport report = Check();
  EXPECT_TRUE(report.damaged());
  ASSERT_EQ(report.ranges.size(), 3u);
  EXPECT_EQ(report.ranges[0].end, static_cast<int64_t>(ends_[1]));
  EXPECT_EQ(report.ranges[1].end, static_cast<int64_t>(ends_[2]));
  EXPECT_EQ(report.ranges[2].records, 2);
  EXPECT_EQ(report.first.rows, 10);
  EXPECT_EQ(report.all.rows, 10) << "chunk 1 was removed behind the damage";
  EXPECT_EQ(report.all.envstep, 30);
  EXPECT_THAT(report.ToString(), AllOf(HasSubstr("damaged"), HasSubstr("a resume refuses it"),
                                       HasSubstr("--skip_damage")));
  const std::string said = RepairJournal(options_.path, false).value();
  EXPECT_THAT(said, AllOf(HasSubstr("has 2 records now"), HasSubstr("2 whole records among them"),
                          HasSubstr(options_.path + ".damaged")));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 3", "push 1"));
  EXPECT_EQ(ReadFile(options_.path + ".damaged").value(), damaged);
  EXPECT_TRUE(Check().whole());
  // Once more, with all that is whole.
  SetBytes(damaged);
  EXPECT_THAT(RepairJournal(options_.path, true).value(), HasSubstr(".damaged.2"));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 3", "push 1", "push 3", "removed 1"));
  EXPECT_THAT(ListDirectory(folder_.path()).value(),
              ElementsAre("journal", "journal.damaged", "journal.damaged.2"));
}

TEST_F(JournalCheckTest, OfADamagedAppendNothingIsTaken) {
  ASSERT_THAT(Open()->Append({State(1)}), IsOk());
  const size_t begin = Bytes().size();
  ASSERT_THAT(Open()->Append({Push(1), Push(2), Push(3)}), IsOk());
  const size_t end = Bytes().size();
  ASSERT_THAT(Open()->Append({Push(4)}), IsOk());
  const std::string bytes = Bytes();
  for (size_t at = begin; at < end; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    SetBytes(damaged);
    const JournalReport report = Check();
    ASSERT_EQ(report.ranges.size(), 3u) << at;
    ASSERT_EQ(report.ranges[1].begin, static_cast<int64_t>(begin)) << at;
    ASSERT_EQ(report.ranges[1].end, static_cast<int64_t>(end)) << at;
    ASSERT_EQ(report.records(), 2) << at;
  }
  ASSERT_THAT(RepairJournal(options_.path, true), IsOk());
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 4"));
}

TEST_F(JournalCheckTest, RepairsATornEndAndKeepsIt) {
  FillRun();
  const std::string bytes = Bytes();
  SetBytes(bytes.substr(0, bytes.size() - 3));
  EXPECT_FALSE(Check().whole());
  EXPECT_FALSE(Check().damaged());
  EXPECT_THAT(Check().ToString(), HasSubstr("a resume drops them"));
  ASSERT_THAT(RepairJournal(options_.path, false), IsOk());
  EXPECT_EQ(Bytes(), bytes.substr(0, ends_[3]));
}

TEST_F(JournalCheckTest, AFullDiskLeavesTheDamagedOneAsItIs) {
  FillRun();
  const std::string damaged = Damage();
  {
    const FileSizeLimit limit(20);
    EXPECT_THAT(RepairJournal(options_.path, false),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_EQ(Bytes(), damaged);
  EXPECT_THAT(ListDirectory(folder_.path()).value(), Contains("journal"));
}

TEST_F(JournalCheckTest, WhatIsNoJournalIsRefused) {
  EXPECT_THAT(CheckJournal(options_.path), StatusIs(absl::StatusCode::kNotFound));
  SetBytes("something else");
  EXPECT_THAT(CheckJournal(options_.path), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(RepairJournal(options_.path, true), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Bytes(), "something else");
}

// Whatever is done to it: it is told, never invented, and what a repair makes is whole.
TEST_F(JournalCheckTest, MutantsAreCheckedAndRepaired) {
  Fill(12);
  const std::string bytes = Bytes();
  Fuzz(60, [&](Mutator* mutator) {
    SetBytes(mutator->Mutate(bytes));
    const auto report = CheckJournal(options_.path);
    if (!report.ok()) return;
    const bool skip_damage = mutator->rng()->UniformInt(2) == 0;
    const absl::Status repaired = RepairJournal(options_.path, skip_damage).status();
    if (absl::IsFailedPrecondition(repaired)) return;  // Its states are lost.
    ASSERT_THAT(repaired, IsOk());
    ASSERT_TRUE(Check().whole());
    const std::vector<std::string> read = Read(*Open());
    for (const std::string& record : read) EXPECT_THAT(all_, Contains(record));
    if (skip_damage) {
      EXPECT_EQ(static_cast<int64_t>(read.size()), report->records());
    } else {
      EXPECT_TRUE(std::equal(read.begin(), read.end(), all_.begin()));
    }
    ASSERT_THAT(RemoveRecursively(folder_.path()), IsOk());
    ASSERT_THAT(CreateDirectories(folder_.path()), IsOk());
  });
}

TEST_F(JournalCheckTest, PushesWithoutAStateAreNoRunThatHasNotBegun) {
  ASSERT_THAT(Open()->Append({Push(1), Push(2)}), IsOk());
  EXPECT_THAT(Check().first.status, StatusIs(absl::StatusCode::kDataLoss,
                                             HasSubstr("2 pushes of rows, and not the state")));
  // A compacted one ends with its state, so that what is before a damage is no run.
  ASSERT_THAT(Compact(Open().get(), State(2)), IsOk());
  std::string bytes = Bytes();
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  SetBytes(bytes);
  EXPECT_THAT(RepairJournal(options_.path, false),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--skip_damage")));
  EXPECT_EQ(Bytes(), bytes);
  EXPECT_THAT(RepairJournal(options_.path, true), IsOk());
  EXPECT_EQ(SaidBy(*Open()).state, 2);
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
