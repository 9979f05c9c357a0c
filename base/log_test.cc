#include "ding_worker/base/log.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;

// Keeps the lines that are logged while it lives, as "severity message".
class KeptLines : public LogSink {
 public:
  KeptLines() : before_(SetLogSink(this)) {}
  ~KeptLines() override { SetLogSink(before_); }

  void Send(const LogLine& line) override {
    const MutexLock lock(&mutex_);
    lines_.push_back(absl::StrCat(static_cast<int>(line.severity), " ", line.message));
    file_ = line.file;
    line_ = line.line;
  }

  std::vector<std::string> lines() {
    const MutexLock lock(&mutex_);
    return lines_;
  }
  std::string file() {
    const MutexLock lock(&mutex_);
    return file_;
  }
  int line() {
    const MutexLock lock(&mutex_);
    return line_;
  }

 private:
  LogSink* const before_;
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  std::string file_ ABSL_GUARDED_BY(mutex_);
  int line_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(Log, SendsSeverityMessageFileAndLine) {
  KeptLines kept;
  DING_LOG(INFO) << "a " << 1;
  const int line = __LINE__ - 1;
  EXPECT_EQ(kept.line(), line);
  EXPECT_THAT(kept.file(), EndsWith("base/log_test.cc"));
  DING_LOG(WARNING) << "b";
  DING_LOG(ERROR);
  EXPECT_THAT(kept.lines(), ElementsAre("1 a 1", "2 b", "3 "));
}

TEST(Log, WritesToStderrWithoutASink) {
  testing::internal::CaptureStderr();
  DING_LOG(WARNING) << "the store is full";
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("W[0-9]{4} [0-9:]{8}\\.[0-9]{6} [^ ]*base/log_test\\.cc:[0-9]+\\] "
                           "the store is full\n"));
}

TEST(Log, AConditionLeavesTheLineOut) {
  KeptLines kept;
  int evaluated = 0;
  for (const bool condition : {false, true}) DING_LOG_IF(INFO, condition) << ++evaluated;
  EXPECT_EQ(evaluated, 1);
  EXPECT_THAT(kept.lines(), ElementsAre("1 1"));
}

TEST(Log, EveryNthAndTheFirstNTimes) {
  KeptLines kept;
  for (int i = 0; i < 5; ++i) {
    DING_LOG_EVERY_N(INFO, 2) << "every " << i;
    DING_LOG_FIRST_N(INFO, 2) << "first " << i;
  }
  EXPECT_THAT(kept.lines(),
              ElementsAre("1 every 0", "1 first 0", "1 first 1", "1 every 2", "1 every 4"));
}

TEST(Log, LinesBelowTheLeastSeverityAreNotMade) {
  KeptLines kept;
  EXPECT_EQ(SetMinLogSeverity(LogSeverity::kError), LogSeverity::kInfo);
  int evaluated = 0;
  DING_LOG(WARNING) << ++evaluated;
  DING_LOG(ERROR) << "still said";
  EXPECT_EQ(SetMinLogSeverity(LogSeverity::kInfo), LogSeverity::kError);
  EXPECT_EQ(evaluated, 0);
  EXPECT_THAT(kept.lines(), ElementsAre("3 still said"));
}

TEST(Log, VerboseLinesAreMadeOnlyIfTheyAreWanted) {
  KeptLines kept;
  int evaluated = 0;
  DING_LOG(VERBOSE) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
  const LogSeverity before = SetMinLogSeverity(LogSeverity::kVerbose);
  DING_LOG(VERBOSE) << "a detail";
  SetMinLogSeverity(before);
  EXPECT_THAT(kept.lines(), ElementsAre("0 a detail"));
}

TEST(Log, IsAStatementLikeAnyOther) {
  KeptLines kept;
  const bool yes = true;
  if (!yes)
    DING_LOG(INFO) << "not this";
  else
    DING_LOG(INFO) << "but this";
  EXPECT_THAT(kept.lines(), ElementsAre("1 but this"));
}

TEST(Log, ASinkIsSetAgainByWhoeverReplacedIt) {
  KeptLines outer;
  {
    KeptLines inner;
    DING_LOG(INFO) << "inner";
    EXPECT_THAT(inner.lines(), SizeIs(1));
  }
  EXPECT_THAT(outer.lines(), IsEmpty());
  DING_LOG(INFO) << "outer";
  EXPECT_THAT(outer.lines(), ElementsAre("1 outer"));
}

// Logs an event while it gets another one.
class NestedEvents : public LogSink {
 public:
  void Send(const LogLine& line) override {
    if (line.message == "outer") DING_LOG_EVENT(INFO, {EventKind::kJoin, "inner"}) << "inner";
    kinds_.push_back(CurrentLogEvent() == nullptr ? EventKind::kNone : CurrentLogEvent()->kind);
  }
  const std::vector<EventKind>& kinds() const { return kinds_; }

 private:
  std::vector<EventKind> kinds_;
};

TEST(Log, AnEventInsideAnotherDoesNotEndIt) {
  NestedEvents sink;
  LogSink* const previous = SetLogSink(&sink);
  DING_LOG_EVENT(INFO, {EventKind::kLeave, "outer"}) << "outer";
  DING_LOG(INFO) << "plain";
  SetLogSink(previous);
  EXPECT_THAT(sink.kinds(),
              testing::ElementsAre(EventKind::kJoin, EventKind::kLeave, EventKind::kNone));
}

TEST(Log, ThreadsLoseNoLine) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  KeptLines kept;
  std::vector<std::thread> threads;
  const auto log_lines = [] {
    for (int i = 0; i < kLines; ++i) {
      DING_LOG(INFO) << "x";
      DING_LOG_FIRST_N(INFO, 3) << "first";
    }
  };
  for (int i = 0; i < kThreads; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(std::thread thread, StartThread("a thread that logs", log_lines));
    threads.push_back(std::move(thread));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(kept.lines(), SizeIs(kThreads * kLines + 3));
}

}  // namespace
}  // namespace ding
