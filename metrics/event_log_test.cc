#include "ding_worker/metrics/event_log.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

class EventLogTest : public testing::Test, private LogSink {
 protected:
  EventLogTest()
      : before_(SetLogSink(this)),
        path_(JoinPath(testing::TempDir(),
                       testing::UnitTest::GetInstance()->current_test_info()->name())) {
    EXPECT_THAT(RemoveRecursively(path_), IsOk());
    Open();
  }

  ~EventLogTest() override { SetLogSink(before_); }

  void Open() {
    log_.reset();
    absl::StatusOr<std::unique_ptr<EventLog>> log = EventLog::Create(path_, &clock_);
    ASSERT_THAT(log, IsOk());
    log_ = *std::move(log);
  }
  // Logs a line, whose event is kNone unless it is given.
  void Write(LogSeverity severity, absl::string_view message, const LogEvent& event = {}) {
    internal_log::EventMessage(severity, __FILE__, __LINE__, event).stream() << message;
  }
  std::vector<std::string> Lines() const {
    return absl::StrSplit(ReadFile(path_).value_or("no file"), '\n', absl::SkipEmpty());
  }

  LogSink* const before_;
  SimulatedClock clock_{absl::FromUnixMillis(1767225600250)};
  const std::string path_;
  std::unique_ptr<EventLog> log_;

 private:
  void Send(const LogLine& line) override { log_->Write(line); }
};

TEST_F(EventLogTest, HasALineForEachEventAndNoOther) {
  Write(LogSeverity::kInfo, "the run begins", {EventKind::kStart, "new", 0, 0});
  Write(LogSeverity::kInfo, "no event");
  DING_LOG(INFO) << "none either";
  Write(LogSeverity::kInfo, "two\nlines", {EventKind::kEvaluation, "", 800, 40, -1.5});
  DING_LOG(WARNING) << "\x01 \"lost\"";
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          R"({"time":1767225600.250,"event":"start","name":"new","env_step":0,"train_iter":0,)"
          R"("text":"the run begins"})",
          R"({"time":1767225600.250,"event":"evaluation","env_step":800,"train_iter":40,)"
          R"("value":-1.5,"text":"two\nlines"})",
          R"({"time":1767225600.250,"event":"fault","text":"\\x01 \"lost\""})"));
}

TEST_F(EventLogTest, ContinuesAFileWithoutItsTornLine) {
  Write(LogSeverity::kInfo, "first", {EventKind::kStart});
  log_.reset();
  std::string content = *ReadFile(path_);
  ASSERT_THAT(WriteFileAtomically(path_, content + "{\"time\":17"), IsOk());
  Open();
  Write(LogSeverity::kInfo, "second", {EventKind::kStart});
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("first"), HasSubstr("second")));
}

TEST_F(EventLogTest, BoundsTextsAndWhatPeersCause) {
  Write(LogSeverity::kError, std::string(1 << 20, 'x'));
  EXPECT_LT(Lines()[0].size(), EventLog::kMaxTextBytes + 100);
  for (int i = 1; i < EventLog::kMaxPerMinute + 5; ++i) {
    Write(LogSeverity::kWarning, "refused", {EventKind::kRefusal});
  }
  EXPECT_THAT(Lines(), SizeIs(EventLog::kMaxPerMinute));
  Write(LogSeverity::kInfo, "why", {EventKind::kEnd, "finished"});
  EXPECT_THAT(Lines().back(), HasSubstr(R"("event":"end","name":"finished","left_out":5,)"));
  clock_.Advance(absl::Minutes(1));
  Write(LogSeverity::kWarning, "refused", {EventKind::kRefusal});
  EXPECT_THAT(Lines(), SizeIs(EventLog::kMaxPerMinute + 2));
}

TEST_F(EventLogTest, ThePageHasTheTables) {
  DING_ASSERT_OK_AND_ASSIGN(const std::string page, ReadFile("docs/reference/events.md"));
  EXPECT_THAT(page, HasSubstr(EventTable()));
}

TEST_F(EventLogTest, EveryMemberIsInTheTable) {
  for (int i = 0; i <= EventLog::kMaxPerMinute; ++i) Write(LogSeverity::kWarning, "x");
  Write(LogSeverity::kInfo, "why", {EventKind::kEnd, "finished", 1, 2, 3});
  std::vector<std::string> written;
  const auto json = nlohmann::ordered_json::parse(Lines().back());
  for (const auto& [name, value] : json.items()) written.push_back(absl::StrCat("| `", name));
  const std::vector<std::string> tables = absl::StrSplit(EventTable(), "\n\n");
  ASSERT_THAT(tables, SizeIs(2));
  std::vector<std::string> rows = absl::StrSplit(tables[1], '\n', absl::SkipEmpty());
  rows.erase(rows.begin(), rows.begin() + 2);  // its head
  ASSERT_EQ(rows.size(), written.size());
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_THAT(rows[i], StartsWith(written[i]));
}

}  // namespace
}  // namespace ding
