// Tests that a parallel run continues with all of its rows from a folder that an earlier version
// has saved, and that a journal of a later version is refused by an error that names both versions.
// See docs/testing.md.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/file_journal.h"
#include "ding_worker/coordinator/journal/recovery.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/format_fixtures.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr double kBufferRows = 500;  // as in worker/testing/formats_parallel.textproto

class ParallelFormatsTest : public testing::Test {
 protected:
  ParallelFormatsTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/formats_XXXXXX");
    folder_ = mkdtemp(folder.data());
    run_ = UnpackRun("parallel", folder_);
  }
  ~ParallelFormatsTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string Journal() const { return JoinPath(run_, "coordinator/journal"); }

  std::string folder_, run_;
};

TEST_F(ParallelFormatsTest, TheJournalIsRead) {
  DING_ASSERT_OK_AND_ASSIGN(const auto journal, FileJournal::Open({Journal()}));
  DING_ASSERT_OK_AND_ASSIGN(const std::optional<RecoveredRun> run, ReadJournal(*journal));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->state.envstep(), ExpectedOf("parallel.env_step").front());
  EXPECT_EQ(run->state.train_iter(), ExpectedOf("parallel.train_iter").front());
  ASSERT_THAT(run->state.buffer(), SizeIs(1));
  EXPECT_EQ(run->state.buffer(0).rows_total(), ExpectedOf("parallel.env_step").front());
}

TEST_F(ParallelFormatsTest, ARunGoesOnWithItsRowsAndItsLearner) {
  const double pushed = ExpectedOf("parallel.env_step").front();
  const double trained = ExpectedOf("parallel.train_iter").front();
  ChildProgram parallel("worker/parallel",
                        {absl::StrCat("--exp_dir=", run_), "--resume",
                         absl::StrCat("--max_train_iter=", trained + 20)},
                        JoinPath(folder_, "log"), {});
  ASSERT_EQ(parallel.Wait(absl::Minutes(4)), 0) << parallel.err();
  const std::string log = ReadFile(JoinPath(run_, "log/coordinator_logger.txt")).value();
  EXPECT_THAT(log, HasSubstr(absl::StrCat("buffer_0 goes on with ", std::min(kBufferRows, pushed),
                                          " of ", pushed, " rows")));
  EXPECT_THAT(parallel.out(), HasSubstr("\"train_iter\":"));
  // The learner did not begin at iteration 0: it loaded the checkpoint of the earlier run.
  const std::string learner = ReadFile(JoinPath(run_, "log/learner-0_logger.txt")).value();
  EXPECT_THAT(learner, HasSubstr("learner_resume"));
}

TEST_F(ParallelFormatsTest, AJournalOfALaterVersionIsRefused) {
  std::string text = ReadFile(Journal()).value();
  const char version = text[7];  // The last letter of the header is the version.
  text[7] = static_cast<char>(version + 1);
  ASSERT_THAT(WriteFileAtomically(Journal(), text), IsOk());
  EXPECT_THAT(
      FileJournal::Open({Journal()}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr(absl::StrCat("version ", std::string(1, text[7]),
                                      ", this program reads version ", std::string(1, version)))));
}

}  // namespace
}  // namespace ding
