#include "ding_worker/metrics/file_sink.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/csv.h"
#include "ding_worker/metrics/json_lines.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "ding_worker/metrics/text_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding::internal_metrics {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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

TEST_F(AppendFileTest, AFifoWithoutAReaderIsAnErrorAndDoesNotBlock) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  file->Append(std::string(1 << 20, 'x'));  // More than a FIFO holds.
  EXPECT_THAT(file->Flush(), IsInternal(path_));
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
  EXPECT_THAT(AppendFile::Open(path, options_), IsNotFound(path));
}

TEST_F(AppendFileTest, FlushReturnsAFullDisk) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open("/dev/full", options_));
  EXPECT_THAT(file->Flush(), IsOk());
  file->Append("a\n");
  EXPECT_THAT(file->Flush(), IsResourceExhausted("'/dev/full'"));
  file->Append("b\n");
  EXPECT_THAT(file->Flush(), IsResourceExhausted());
}

TEST_F(AppendFileTest, AFailedWriteLeavesWholeRecordsAndLosesNone) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  file->Append("0123\n");
  ASSERT_THAT(file->Flush(), IsOk());
  {
    const FileSizeLimit limited(8);
    file->Append("4567\n");
    EXPECT_THAT(file->Flush(), IsResourceExhausted(path_));
    EXPECT_EQ(Content(), "0123\n");
  }
  file->Append("89\n");
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Content(), "0123\n4567\n89\n");
}

TEST_F(AppendFileTest, Flush_AfterAFailedWriteWasMadeUpFor_IsOk) {
  DING_ASSERT_OK_AND_ASSIGN(const auto file, AppendFile::Open(path_, options_));
  {
    const FileSizeLimit limited(1);
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
  EXPECT_THAT(file->Flush(), IsResourceExhausted("4 records were lost"));
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
    EXPECT_THAT(log->Flush(), IsResourceExhausted("'/dev/full'"));
  }
}

class CsvTest : public testing::Test {
 protected:
  CsvTest() : clock_(absl::UnixEpoch() + absl::Milliseconds(1700000000250)) {
    options_.path = JoinPath(
        testing::TempDir(),
        absl::StrCat(testing::UnitTest::GetInstance()->current_test_info()->name(), ".csv"));
    EXPECT_THAT(RemoveRecursively(options_.path), IsOk());
    options_.clock = &clock_;
  }

  std::unique_ptr<CsvSink> Open() {
    auto sink = CsvSink::Create(options_);
    EXPECT_THAT(sink, IsOk());
    return *std::move(sink);
  }
  std::vector<std::string> Lines() const {
    const std::string content = ReadFile(options_.path).value_or("no file");
    return absl::StrSplit(content, '\n');
  }

  SimulatedClock clock_;
  CsvSink::Options options_;
};

TEST_F(CsvTest, WritesOneLineForAValue) {
  const auto sink = Open();
  sink->Scalar("learner_iter/loss", 7, 0.1);
  clock_.Advance(absl::Seconds(1));
  sink->Scalar("learner_iter/loss", -1, 1e300);
  sink->Text("config", 0, "not, here");
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(),
              ElementsAre("step,tag,value,wall_time", "7,learner_iter/loss,0.1,1700000000.250",
                          "-1,learner_iter/loss,1e+300,1700000001.250", ""));
}

TEST_F(CsvTest, QuotesTagsIfNeeded) {
  const auto sink = Open();
  for (const char* tag : {"a,b", "say \"q\"", "two\nlines", "a b;c"}) sink->Scalar(tag, 0, 1);
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(), ElementsAre("step,tag,value,wall_time", "0,\"a,b\",1,1700000000.250",
                                   "0,\"say \"\"q\"\"\",1,1700000000.250", "0,\"two",
                                   "lines\",1,1700000000.250", "0,a b;c,1,1700000000.250", ""));
}

TEST_F(CsvTest, TagsAreUtf8AndDiffer) {
  const auto sink = Open();
  for (const char* tag : {"\xE5\xA5\x96", "\xFF", "\xFE", "a\tb", "a b", "A b"}) {
    sink->Scalar(tag, 0, 1);
  }
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(), ElementsAre("step,tag,value,wall_time", "0,\xE5\xA5\x96,1,1700000000.250",
                                   "0,\\xFF,1,1700000000.250", "0,\\xFE,1,1700000000.250",
                                   "0,a\\x09b,1,1700000000.250", "0,a b,1,1700000000.250",
                                   "0,A b,1,1700000000.250", ""));
}

TEST_F(CsvTest, ValuesRoundTrip) {
  const auto sink = Open();
  const std::vector<double> values = {1.0 / 3, 5e-324, 12345678901234567.0, -0.0};
  for (const double value : values) sink->Scalar("v", 0, value);
  EXPECT_THAT(sink->Flush(), IsOk());
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(values.size() + 2));
  for (size_t i = 0; i < values.size(); ++i) {
    const std::vector<std::string> fields = absl::StrSplit(lines[i + 1], ',');
    EXPECT_EQ(std::strtod(fields[2].c_str(), nullptr), values[i]) << lines[i + 1];
  }
}

TEST_F(CsvTest, WritesNonFiniteValuesAsPlotToolsReadThem) {
  const auto sink = Open();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {kNan, -kNan, kInfinity, -kInfinity}) sink->Scalar("v", 0, value);
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(),
              ElementsAre("step,tag,value,wall_time", HasSubstr(",nan,"), HasSubstr(",nan,"),
                          HasSubstr(",inf,"), HasSubstr(",-inf,"), ""));
}

TEST_F(CsvTest, WritesTheStatisticsOfAHistogram) {
  const auto sink = Open();
  sink->Histogram("empty", 1, {});
  sink->Histogram("q", 1, {1, 3, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(Lines(), ElementsAre("step,tag,value,wall_time", "1,q/count,2,1700000000.250",
                                   "1,q/mean,2,1700000000.250", "1,q/std,1,1700000000.250",
                                   "1,q/min,1,1700000000.250", "1,q/max,3,1700000000.250",
                                   "1,q/non_finite,1,1700000000.250", ""));
}

TEST_F(CsvTest, AResumedRunContinuesTheFile) {
  Open()->Scalar("a", 1, 1);
  DING_ASSERT_OK_AND_ASSIGN(const std::string before, ReadFile(options_.path));
  ASSERT_THAT(WriteFileAtomically(options_.path, absl::StrCat(before, "2,a,0.")), IsOk());
  Open()->Scalar("a", 2, 2);
  EXPECT_THAT(Lines(), ElementsAre("step,tag,value,wall_time", "1,a,1,1700000000.250",
                                   "2,a,2,1700000000.250", ""));
}

TEST_F(CsvTest, FlushReturnsAFullDiskAndWritingContinues) {
  options_.path = "/dev/full";
  const auto sink = Open();
  for (int round = 0; round < 2; ++round) {
    sink->Scalar("a", 0, 0);
    EXPECT_THAT(sink->Flush(), IsResourceExhausted("'/dev/full'"));
  }
}

TEST_F(CsvTest, LinesOfSeveralThreadsStayWhole) {
  constexpr int kThreads = 4, kLines = 500;
  options_.clock = Clock::Real();
  {
    const auto sink = Open();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&sink] {
        for (int i = 0; i < kLines; ++i) sink->Scalar("tag", i, 0.5);
        EXPECT_THAT(sink->Flush(), IsOk());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(kThreads * kLines + 2));
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    ASSERT_THAT(lines[i], testing::MatchesRegex("[0-9]+,tag,0\\.5,[0-9]+\\.[0-9]+"));
  }
}

class JsonLinesTest : public testing::Test {
 protected:
  JsonLinesTest() : clock_(absl::FromUnixMillis(1714550400250)) {
    const std::string folder = testing::TempDir();
    options_.path = JoinPath(folder, testing::UnitTest::GetInstance()->current_test_info()->name() +
                                         std::string(".jsonl"));
    options_.clock = &clock_;
    EXPECT_THAT(RemoveRecursively(options_.path), IsOk());
  }
  std::vector<std::string> Lines() const {
    const absl::StatusOr<std::string> text = ReadFile(options_.path);
    EXPECT_THAT(text.status(), IsOk());
    return absl::StrSplit(*text, '\n', absl::SkipEmpty());
  }

  SimulatedClock clock_;
  JsonLinesSink::Options options_;
};

TEST_F(JsonLinesTest, WritesEveryKindOfValueAsOneObject) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, JsonLinesSink::Create(options_));
  sink->BeginRun({"cartpole", {{"policy.learn.batch_size", "64"}}});
  sink->Scalar("a_step/x", 120, 0.0125);
  sink->Scalar("a_step/x", 121, std::numeric_limits<double>::infinity());
  sink->Histogram("a_step/h", 122, {1.0f, 3.0f, std::numeric_limits<float>::quiet_NaN()});
  sink->Histogram("a_step/h", 123, {});
  sink->Text("t \"quoted\"", 0, "two\nlines\xff");
  sink->EndRun(RunEnd::kInterrupted, 124, {{"final_eval", 195.5}});
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          R"({"time":1714550400.250,"begin":"cartpole","hyperparameters":{"policy.learn.batch_size":"64"}})",
          R"({"time":1714550400.250,"tag":"a_step/x","step":120,"value":0.0125})",
          R"({"time":1714550400.250,"tag":"a_step/x","step":121,"value":null})",
          R"({"time":1714550400.250,"tag":"a_step/h","step":122,"count":2,"mean":2.0,"std":1.0,"min":1.0,"max":3.0,"non_finite":1})",
          R"({"time":1714550400.250,"tag":"t \"quoted\"","step":0,"text":"two\nlines�"})",
          R"({"time":1714550400.250,"end":"interrupted","step":124,"results":{"final_eval":195.5}})"));
}

TEST_F(JsonLinesTest, NamesAreUtf8AndDiffer) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, JsonLinesSink::Create(options_));
  sink->BeginRun({"br_\xE5\x90\x8D\xFF", {{"exp_name", "br_\xE5\x90\x8D"}}});
  for (const char* tag : {"\xE5\xA5\x96", "\xFF", "\xFE"}) sink->Scalar(tag, 0, 1);
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          "{\"time\":1714550400.250,\"begin\":\"br_\xE5\x90\x8D\\\\xFF\",\"hyperparameters\":{"
          "\"exp_name\":\"br_\xE5\x90\x8D\"}}",
          "{\"time\":1714550400.250,\"tag\":\"\xE5\xA5\x96\",\"step\":0,\"value\":1.0}",
          R"({"time":1714550400.250,"tag":"\\xFF","step":0,"value":1.0})",
          R"({"time":1714550400.250,"tag":"\\xFE","step":0,"value":1.0})"));
}

TEST_F(JsonLinesTest, AnExistingFileIsContinuedAndATornLineCutOff) {
  ASSERT_THAT(WriteFileAtomically(options_.path, "{\"tag\":\"old\"}\n{\"ta"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(auto sink, JsonLinesSink::Create(options_));
  sink->Scalar("new", 1, 2);
  sink.reset();
  EXPECT_THAT(Lines(), ElementsAre("{\"tag\":\"old\"}", HasSubstr("\"tag\":\"new\"")));
}

TEST_F(JsonLinesTest, AFullDiskIsAnErrorOfFlush) {
  options_.path = "/dev/full";
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, JsonLinesSink::Create(options_));
  sink->Scalar("a", 0, 0);
  EXPECT_THAT(sink->Flush(), IsResourceExhausted("/dev/full"));
}

TEST(JsonLinesFactoryTest, MakesAFileForTheProcess) {
  const std::string folder = JoinPath(testing::TempDir(), "json_lines_factory");
  ASSERT_THAT(RemoveRecursively(folder), IsOk());
  SinkConfig config;
  config.set_type("json_lines");
  DING_ASSERT_OK_AND_ASSIGN(auto sink, create_sink(config, {folder, "learner-0"}));
  sink->Scalar("a", 1, 2);
  ASSERT_THAT(sink->Flush(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string text,
                            ReadFile(JoinPath(folder, "log/learner-0.jsonl")));
  EXPECT_THAT(text, HasSubstr("\"value\":2"));
}

}  // namespace
}  // namespace ding::internal_metrics
