// Tests that a journal of an earlier or a later version is refused by an error that names both
// versions. See docs/explanation/testing.md.

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/saved_formats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

TEST_F(ParallelFormatsTest, AJournalOfAnEarlierVersionIsRefusedAndStays) {
  const std::string before = ReadFile(Journal()).value();
  ChildProgram parallel("worker/parallel", {absl::StrCat("--exp_dir=", run_), "--resume"},
                        JoinPath(folder_, "log"), {});
  ASSERT_EQ(parallel.Wait(absl::Minutes(4)), 1) << parallel.err();
  EXPECT_THAT(parallel.err(),
              AllOf(HasSubstr("is a journal of ding_worker 0.1.0"), HasSubstr("expected 3"),
                    HasSubstr("policy.learn.learner.hook.load_ckpt_before_run=")));
  EXPECT_EQ(ReadFile(Journal()).value(), before);
}

TEST_F(ParallelFormatsTest, AJournalOfALaterVersionIsRefused) {
  ASSERT_THAT(RemoveFile(Journal()), IsOk());
  ASSERT_THAT(SqliteLog::Open(Journal(), {}), IsOk());
  std::string text = ReadFile(Journal()).value();
  ASSERT_EQ(text[63], 3) << "SQLite keeps the version there";
  text[63] = 4;
  ASSERT_THAT(WriteFileAtomically(Journal(), text), IsOk());
  EXPECT_THAT(SqliteLog::Open(Journal(), {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("has version 4, expected 3: a newer ding_worker")));
}

}  // namespace
}  // namespace ding
