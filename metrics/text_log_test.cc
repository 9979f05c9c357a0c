#include "ding_worker/metrics/text_log.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;

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
    EXPECT_THAT(log->Flush(),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'/dev/full'")));
  }
}

}  // namespace
}  // namespace ding
