#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/file_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding::internal_metrics {
namespace {

using ::testing::HasSubstr;

class AppendFileTest : public testing::Test {
 protected:
  AppendFileTest()
      : path_(JoinPath(testing::TempDir(),
                       testing::UnitTest::GetInstance()->current_test_info()->name())) {
    EXPECT_THAT(RemoveRecursively(path_), IsOk());
    options_.clock = &clock_;
    options_.flush_interval = absl::Seconds(5);
  }

  std::string Content() const { return ReadFile(path_).value_or("no file"); }

  SimulatedClock clock_;
  AppendFile::Options options_;
  const std::string path_;
};

// Limits files of this process to `bytes` while the result lives. As on a full disk, a longer write
// writes a part and the next one fails.
auto LimitFileSize(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit limited = {bytes, old.rlim_max};
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  return absl::MakeCleanup([old] { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0); });
}

TEST_F(AppendFileTest, AFifoWithoutAReaderIsAnErrorAndDoesNotBlock) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  file->Append(std::string(1 << 20, 'x'));  // More than a FIFO holds.
  EXPECT_THAT(file->Flush(), StatusIs(absl::StatusCode::kInternal, HasSubstr(path_)));
}

TEST_F(AppendFileTest, BuffersUntilFlush) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  EXPECT_TRUE(file->empty());
  file->Append("a\n");
  EXPECT_FALSE(file->empty());
  EXPECT_EQ(Content(), "");
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Content(), "a\n");
}

TEST_F(AppendFileTest, WritesWhenTheIntervalHasPassed) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  clock_.Advance(absl::Seconds(4.9));
  file->Append("a\n");
  EXPECT_EQ(Content(), "");
  clock_.Advance(absl::Seconds(0.1));
  file->Append("b\n");
  EXPECT_EQ(Content(), "a\nb\n");
  file->Append("c\n");
  EXPECT_EQ(Content(), "a\nb\n");
}

TEST_F(AppendFileTest, WritesWhenTheBufferIsFull) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  const std::string record(size_t{64} << 10, 'x');
  file->Append(record);
  EXPECT_EQ(Content(), record);
}

TEST_F(AppendFileTest, WritesOnDestructionAndContinuesAnExistingFile) {
  for (const char* record : {"first\n", "second\n"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
    file->Append(record);
  }
  EXPECT_EQ(Content(), "first\nsecond\n");
}

TEST_F(AppendFileTest, CutsOffATornRecord) {
  // Longer than the blocks in which the last record end is searched.
  const std::string torn(10000, 'x');
  ASSERT_THAT(WriteFileAtomically(path_, absl::StrCat("whole\n", torn)), IsOk());
  options_.record_end = '\n';
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  EXPECT_FALSE(file->empty());
  file->Append("next\n");
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Content(), "whole\nnext\n");
}

TEST_F(AppendFileTest, IsEmptyWhenItHeldATornRecordOnly) {
  ASSERT_THAT(WriteFileAtomically(path_, "torn"), IsOk());
  options_.record_end = '\n';
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  EXPECT_TRUE(file->empty());
  EXPECT_EQ(Content(), "");
}

TEST_F(AppendFileTest, NamesAFileThatCannotBeOpened) {
  const std::string path = JoinPath(path_, "log");
  EXPECT_THAT(AppendFile::Open(path, options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
}

TEST_F(AppendFileTest, FlushReturnsAFullDisk) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open("/dev/full", options_));
  EXPECT_THAT(file->Flush(), IsOk());
  file->Append("a\n");
  EXPECT_THAT(file->Flush(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'/dev/full'")));
  file->Append("b\n");
  EXPECT_THAT(file->Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(AppendFileTest, AFailedWriteLeavesWholeRecordsAndLosesNone) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  file->Append("0123\n");
  ASSERT_THAT(file->Flush(), IsOk());
  {
    const auto limited = LimitFileSize(8);
    file->Append("4567\n");
    EXPECT_THAT(file->Flush(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(path_)));
    EXPECT_EQ(Content(), "0123\n");
  }
  file->Append("89\n");
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Content(), "0123\n4567\n89\n");
}

TEST_F(AppendFileTest, Flush_AfterAFailedWriteWasMadeUpFor_IsOk) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  {
    const auto limited = LimitFileSize(1);
    clock_.Advance(absl::Seconds(5));
    file->Append("abc\n");
  }
  clock_.Advance(absl::Seconds(5));
  file->Append("def\n");
  EXPECT_EQ(Content(), "abc\ndef\n");
  EXPECT_THAT(file->Flush(), IsOk());
}

TEST_F(AppendFileTest, KeepsABoundedBufferAndCountsLostRecords) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open("/dev/full", options_));
  const std::string record(size_t{1} << 20, 'x');
  for (int i = 0; i < 12; ++i) file->Append(record);
  EXPECT_THAT(file->Flush(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("4 records were lost")));
}

}  // namespace
}  // namespace ding::internal_metrics
