#include "ding_worker/metrics/file_sink.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/text_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding::internal_metrics {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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
  EXPECT_THAT(file->Flush(), IsError(absl::StatusCode::kInternal, path_));
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
  EXPECT_THAT(AppendFile::Open(path, options_), IsError(absl::StatusCode::kNotFound, path));
}

TEST_F(AppendFileTest, FlushReturnsAFullDisk) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open("/dev/full", options_));
  EXPECT_THAT(file->Flush(), IsOk());
  file->Append("a\n");
  EXPECT_THAT(file->Flush(), IsError(absl::StatusCode::kResourceExhausted, "'/dev/full'"));
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
    EXPECT_THAT(file->Flush(), IsError(absl::StatusCode::kResourceExhausted, path_));
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
  EXPECT_THAT(file->Flush(), IsError(absl::StatusCode::kResourceExhausted, "4 records were lost"));
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(HistogramTest, CountsValuesUpToEachLimit) {
  const HistogramSummary summary = Summarize({0, 1, 1, 2, 3, 4}, 4);
  EXPECT_THAT(summary.limits, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(summary.counts, ElementsAre(3, 1, 1, 1));
  EXPECT_EQ(summary.count, 6);
  EXPECT_EQ(summary.min, 0);
  EXPECT_EQ(summary.max, 4);
  EXPECT_EQ(summary.sum, 11);
  EXPECT_EQ(summary.sum_squares, 31);
  EXPECT_DOUBLE_EQ(summary.Mean(), 11.0 / 6);
  EXPECT_DOUBLE_EQ(summary.StandardDeviation(), std::sqrt(31.0 / 6 - 121.0 / 36));
}

TEST(HistogramTest, EqualValuesFillOneBucket) {
  const HistogramSummary summary = Summarize({0.1f, 0.1f, 0.1f});
  EXPECT_THAT(summary.limits, ElementsAre(0.1f));
  EXPECT_THAT(summary.counts, ElementsAre(3));
  EXPECT_NEAR(summary.StandardDeviation(), 0, 1e-8);
}

TEST(HistogramTest, CountsNonFiniteValuesSeparately) {
  const HistogramSummary summary = Summarize({kNan, 1, kInfinity, 3, -kInfinity}, 2);
  EXPECT_EQ(summary.non_finite_count, 3);
  EXPECT_EQ(summary.count, 2);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 3);
  EXPECT_THAT(summary.counts, ElementsAre(1, 1));
}

TEST(HistogramTest, HasNoBucketsWithoutFiniteValues) {
  const HistogramSummary summary = Summarize({kNan, kInfinity});
  EXPECT_EQ(summary.count, 0);
  EXPECT_EQ(summary.min, 0);
  EXPECT_EQ(summary.Mean(), 0);
  EXPECT_EQ(summary.StandardDeviation(), 0);
  EXPECT_THAT(summary.limits, IsEmpty());
  EXPECT_THAT(summary.counts, IsEmpty());
}

TEST(HistogramTest, EveryValueFallsIntoABucketAtAnyScale) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float scale : {1e-44f, 1e-3f, 1.0f, kLargest}) {
    SCOPED_TRACE(scale);
    Rng rng(/*seed=*/1, "histogram_test");
    std::vector<float> values;
    for (int i = 0; i < 1000; ++i) {
      values.push_back(scale * static_cast<float>(rng.Uniform(-1, 1)));
    }
    const HistogramSummary summary = Summarize(values);
    EXPECT_EQ(std::accumulate(summary.counts.begin(), summary.counts.end(), int64_t{0}), 1000);
    EXPECT_EQ(summary.limits.back(), summary.max);
    EXPECT_TRUE(std::is_sorted(summary.limits.begin(), summary.limits.end()));
  }
}

TextLog::Options OptionsFor(const std::string& path, const Clock* clock) {
  TextLog::Options options;
  options.path = path;
  options.clock = clock;
  options.time_zone = absl::UTCTimeZone();
  return options;
}

TEST(TextLogTest, AnEntryIsInTheFileWhenWriteReturns) {
  const std::string path = JoinPath(testing::TempDir(), "text_log_test.txt");
  ASSERT_THAT(RemoveRecursively(path), IsOk());
  SimulatedClock clock(absl::FromCivil(absl::CivilSecond(2026, 5, 1, 12), absl::UTCTimeZone()));
  DING_ASSERT_OK_AND_ASSIGN(const auto log, TextLog::Create(OptionsFor(path, &clock)));
  log->Write("learner", "started");
  clock.Advance(absl::Milliseconds(250));
  log->Write("collector", "| table |\n| row   |\n");
  DING_ASSERT_OK_AND_ASSIGN(const std::string content, ReadFile(path));
  EXPECT_EQ(content,
            "2026-05-01 12:00:00.000 learner: started\n"
            "2026-05-01 12:00:00.250 collector: | table |\n"
            "| row   |\n");
  EXPECT_THAT(log->Flush(), IsOk());
}

TEST(TextLogTest, FlushReturnsAFullDiskAndWritingContinues) {
  DING_ASSERT_OK_AND_ASSIGN(const auto log,
                            TextLog::Create(OptionsFor("/dev/full", Clock::Real())));
  for (int round = 0; round < 2; ++round) {
    log->Write("learner", "hello");
    EXPECT_THAT(log->Flush(), IsError(absl::StatusCode::kResourceExhausted, "'/dev/full'"));
  }
}

}  // namespace
}  // namespace ding::internal_metrics
