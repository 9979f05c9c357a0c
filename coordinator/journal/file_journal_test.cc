#include "ding_worker/coordinator/journal/file_journal.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/journal_check.h"
#include "ding_worker/coordinator/testing/journal_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// What the test program has flushed to the disk: the size of the file that was flushed last, and the number of folders.
namespace ding::flushes {

inline int64_t file_bytes = -1;
inline int folders = 0;

inline int Flush(int call, int fd) {
  struct stat info = {};
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) ++folders;
  if (S_ISREG(info.st_mode)) file_bytes = info.st_size;
  return static_cast<int>(syscall(call, fd));
}

}  // namespace ding::flushes

// These take the place of the functions of the C library in this program.
extern "C" int fsync(int fd) { return ding::flushes::Flush(SYS_fsync, fd); }
extern "C" int fdatasync(int fd) { return ding::flushes::Flush(SYS_fdatasync, fd); }

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAreArray;
using testing::HasSubstr;

// Collects the log messages while it lives.
class LogText : public LogSink {
 public:
  LogText() : before_(SetLogSink(this)) {}
  ~LogText() override { SetLogSink(before_); }
  void Send(const LogLine& line) override {
    text_.append(line.message.data(), line.message.size());
  }
  const std::string& text() const { return text_; }

 private:
  LogSink* const before_;
  std::string text_;
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

TEST_F(FileJournalTest, LogsTheDroppedBytes) {
  Fill(7);
  const std::string bytes = Bytes();
  SetMinLogSeverity(LogSeverity::kInfo);
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

// If the machine goes down before all is on the disk, the file may end with zeros from any byte on: up to the end
// of what was written, or up to the end of a block.
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

// Either all records of one append count, or none.
TEST_F(FileJournalTest, ATornAppendLosesAllItsRecords) {
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

// The state must survive a torn end, because no other record of a compacted journal holds it.
TEST_F(FileJournalTest, ACompactedJournalWithATornEndKeepsItsState) {
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

TEST_F(FileJournalTest, DamageIsNotTakenForATornEnd) {
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
  // Zeros are refused, too, if whole records follow.
  for (size_t from = 8; from < ends_[6]; ++from) {
    const size_t end = *std::upper_bound(ends_.begin(), ends_.end(), from);
    std::string damaged = bytes;
    damaged.replace(from, end - from, end - from, '\0');
    SetBytes(damaged);
    ASSERT_THAT(FileJournal::Open(options_).status(), refused) << from;
  }
  // A damaged magic number loses nothing: the records are whole.
  std::string damaged = bytes;
  damaged.replace(0, 8, "DINGxNL2");
  SetBytes(damaged);
  ExpectRecords(all_, "beginning");
}

TEST_F(FileJournalTest, FilesOfOtherFormatsAndVersionsAreRefused) {
  const auto refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(why));
  };
  SetBytes("something else");
  EXPECT_THAT(FileJournal::Open(options_).status(), refused("is not a journal of a coordinator"));
  SetBytes("DINGJNL1" + std::string(100, 'x'));
  EXPECT_THAT(FileJournal::Open(options_).status(),
              refused("a journal of version 1, this program reads version 2"));
  SetBytes(std::string(100, '\0') + "x");
  EXPECT_THAT(FileJournal::Open(options_).status(), refused("is not a journal of a coordinator"));
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
    // The records that are read are the first of those that were written, in their order.
    const std::vector<std::string> read = Read(**journal);
    ASSERT_LE(read.size(), all_.size());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), all_.begin()));
  });
}

TEST_F(FileJournalTest, AFullDiskLeavesTheJournalUnchanged) {
  Fill(3);
  JournalRecord large = Push(7);
  large.mutable_push()->set_items(std::string(5000, 'x'));
  const auto full = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(options_.path));
  const auto journal = Open();
  const std::string bytes = Bytes();
  {
    // Only a part of the append fits.
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

TEST_F(FileJournalTest, AJournalTruncatedWhileOpenIsDamaged) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Push(1), Push(2)}), IsOk());
  ASSERT_EQ(truncate(options_.path.c_str(), journal->size_bytes() - 10), 0);
  EXPECT_THAT(journal->BeginCompaction(All),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("by another process")));
}

// Without its first record, a run whose machine goes down would begin anew beside the checkpoints that it has.
TEST_F(FileJournalTest, Append_FirstRecordOfTheFile_IsOnTheDiskWhenItReturns) {
  const auto journal = Open();
  flushes::file_bytes = -1;
  flushes::folders = 0;
  ASSERT_THAT(journal->Append({State(1)}), IsOk());
  EXPECT_EQ(flushes::file_bytes, journal->size_bytes());
  EXPECT_EQ(flushes::folders, 1);
  flushes::file_bytes = -1;
  ASSERT_THAT(journal->Append({Push(1)}), IsOk());
  EXPECT_EQ(flushes::file_bytes, -1) << "only the first one: flushing takes milliseconds";
  ASSERT_THAT(Compact(journal.get(), State(2)), IsOk());
  EXPECT_EQ(flushes::file_bytes, journal->size_bytes());
  EXPECT_EQ(flushes::folders, 2);
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

}  // namespace
}  // namespace ding
