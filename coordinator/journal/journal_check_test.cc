#include "ding_worker/coordinator/journal/journal_check.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/testing/journal_fixture.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

class JournalCheckTest : public testing::Test {
 protected:
  // Writes a run with this many pushes of ten rows, of which the first chunk was removed.
  void FillRun(int64_t pushes) {
    JournalRecord state = State(3);
    state.mutable_state()->set_train_iter(50);
    state.mutable_state()->set_envstep(10 * pushes);
    PolicyRecord* const policy = state.mutable_state()->add_policy();
    policy->add_stored();
    policy->add_stored();
    const auto journal = OpenJournalFile(path_, "run-1").value();
    for (int64_t chunk = 1; chunk <= pushes; ++chunk) {
      JournalRecord push = Push(chunk);
      push.mutable_push()->set_items(EncodedBatch(TestItemsOfChunk(chunk, 10).rows).ToString());
      push.mutable_push()->set_envstep(10 * chunk);
      ASSERT_THAT(journal->Append({push}), IsOk());
    }
    ASSERT_THAT(journal->Append({Removed({1}), state}), IsOk());
  }
  JournalReport Check() { return CheckJournal(path_).value(); }

  const Folder folder_;
  const std::string path_ = JoinPath(folder_.path(), "journal");
};

TEST_F(JournalCheckTest, DescribesAWholeJournal) {
  FillRun(3);
  const JournalReport report = Check();
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(report.records, 3) << "two pushes and a state";
  EXPECT_EQ(report.summary.rows, 20);
  EXPECT_EQ(report.summary.envstep, 30);
  EXPECT_THAT(
      report.ToString(),
      AllOf(HasSubstr(path_), HasSubstr("journal of version 3"), HasSubstr("3 whole records"),
            HasSubstr("a resume finds: 20 rows, 30 env steps, 50 train iterations, policy "
                      "version 0 (2 stored), incarnation 3")));
  EXPECT_THAT(RepairJournal(path_).value(), HasSubstr("nothing is changed"));
  EXPECT_THAT(ListDirectory(folder_.path()).value(), ElementsAre("journal"));
}

// What FillRun(3) wrote when this version of the format was made. It stays as it is.
TEST_F(JournalCheckTest, AJournalThatWasWrittenLongAgo_IsRead) {
  OverwriteFile(path_, ReadFile("coordinator/journal/testdata/journal_of_version_3").value());
  const JournalReport report = Check();
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(report.records, 5);
  EXPECT_EQ(report.summary.rows, 20);
  EXPECT_EQ(report.summary.policies, 2);
  const auto journal = OpenJournalFile(path_, "run-1").value();
  EXPECT_THAT(Read(*journal), ElementsAre("state 3", "push 2", "push 3"));
  ASSERT_THAT(journal->Append({Push(4), Removed({2})}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 3", "push 3", "push 4"));
}

TEST_F(JournalCheckTest, RepairsWhatIsWholeAndKeepsTheOldFile) {
  FillRun(40);
  std::string damaged = ReadFile(path_).value();
  // In the middle of the records.
  const size_t at = damaged.size() / 2;
  damaged.replace(at, 100, 100, '\x5a');
  OverwriteFile(path_, damaged);
  EXPECT_THAT(OpenJournalFile(path_),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("is damaged"), HasSubstr("ctl journal repair"))));
  const JournalReport report = Check();
  EXPECT_FALSE(report.whole());
  EXPECT_GT(report.records, 20);
  EXPECT_LT(report.records, 42);
  EXPECT_THAT(report.ToString(),
              AllOf(HasSubstr("damaged"), HasSubstr("a resume refuses it\n"),
                    HasSubstr("after `ctl journal repair` it finds:"), HasSubstr(" env steps")));
  EXPECT_EQ(ReadFile(path_).value(), damaged) << "to look changes nothing";
  EXPECT_THAT(RepairJournal(path_).value(),
              AllOf(HasSubstr("records now"), HasSubstr(path_ + ".damaged")));
  EXPECT_EQ(ReadFile(path_ + ".damaged").value(), damaged);
  EXPECT_TRUE(Check().whole());
  EXPECT_EQ(Check().records, report.records);
  EXPECT_EQ(Check().summary.rows, report.summary.rows);
  EXPECT_THAT(OpenJournalFile(path_, "run-1"), IsOk());
  EXPECT_THAT(OpenJournalFile(path_, "run-2"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is of run 'run-1'")));
}

TEST_F(JournalCheckTest, Repair_TheStateIsLost_ChangesNothing) {
  {
    const auto journal = OpenJournalFile(path_).value();
    for (int64_t chunk = 1; chunk <= 40; ++chunk) {
      JournalRecord push = Push(chunk);
      push.mutable_push()->set_items(std::string(1000, 'x'));
      ASSERT_THAT(journal->Append({push}), IsOk());
    }
  }
  std::string damaged = ReadFile(path_).value();
  damaged.replace(damaged.size() / 2, 100, 100, '\x5a');
  OverwriteFile(path_, damaged);
  EXPECT_THAT(RepairJournal(path_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("is unchanged"), HasSubstr("not the state of the run"))));
  EXPECT_EQ(ReadFile(path_).value(), damaged);
}

TEST_F(JournalCheckTest, NoJournalIsRefused) {
  EXPECT_THAT(CheckJournal(path_), StatusIs(absl::StatusCode::kNotFound));
  OverwriteFile(path_, "DINGJNL2 and more");
  EXPECT_THAT(CheckJournal(path_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ding_worker 0.1.0")));
}

TEST_F(JournalCheckTest, AnyByteIsChanged_IsRefusedOrWhole) {
  FillRun(60);
  const std::string whole = ReadFile(path_).value();
  const Said said = SaidBy(*OpenJournalFile(path_).value());
  const uint64_t seed = NewSeed();
  Rng rng(seed, "check");
  const auto is_refused =
      AnyOf(StatusIs(absl::StatusCode::kDataLoss), StatusIs(absl::StatusCode::kFailedPrecondition));
  int64_t refused = 0;
  for (size_t i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    const size_t at = i < 200 ? i : rng.UniformInt(whole.size());
    damaged[at] = static_cast<char>(damaged[at] ^ (1 + rng.UniformInt(255)));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": byte ", at));
    OverwriteFile(path_, damaged);
    RemoveFile(path_ + "-wal").IgnoreError();
    if (i % 100 == 0) {  // It flushes a new file.
      const absl::StatusOr<JournalReport> report = CheckJournal(path_);
      if (report.ok()) {
        ASSERT_LE(report->records, 62);
      } else {
        ASSERT_THAT(report, is_refused);
      }
    }
    const absl::StatusOr<std::unique_ptr<Journal>> journal = OpenJournalFile(path_);
    // What hides a part from SQLite is noticed when the run is read.
    const absl::Status status = journal.ok() ? (*journal)->ReadRun().status() : journal.status();
    if (status.ok()) {
      ASSERT_EQ(SaidBy(**journal), said);
    } else {
      ++refused;
      ASSERT_THAT(status, is_refused);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace ding
