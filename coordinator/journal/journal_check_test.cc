#include "ding_worker/coordinator/journal/journal_check.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/file_journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/journal_file.h"
#include "ding_worker/coordinator/testing/journal_fixture.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/replay_buffer/testing/test_items.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class JournalCheckTest : public FileJournalTest {
 protected:
  void FillRun() {
    JournalRecord state = State(3);
    state.mutable_state()->set_train_iter(50);
    state.mutable_state()->add_buffer()->set_buffer_id("buffer_0");
    PolicyRecord* const policy = state.mutable_state()->add_policy();
    policy->add_stored();
    policy->add_stored();
    ASSERT_THAT(Open()->Append({state}), IsOk());
    for (const int64_t chunk : {1, 2, 3}) {
      JournalRecord push = Push(chunk);
      push.mutable_push()->set_items(EncodedBatch(TestItemsOfChunk(chunk, 10).rows).ToString());
      push.mutable_push()->set_envstep(10 * chunk);
      ends_.push_back(Bytes().size());
      ASSERT_THAT(Open()->Append({push}), IsOk());
    }
    ends_.push_back(Bytes().size());
    ASSERT_THAT(Open()->Append({Removed({1})}), IsOk());
  }
  JournalReport Check() { return CheckJournal(options_.path).value(); }
  // Flips a bit in the push of chunk 2.
  std::string Damage() {
    std::string bytes = Bytes();
    bytes[ends_[1] + 20] = static_cast<char>(bytes[ends_[1] + 20] ^ 4);
    SetBytes(bytes);
    return bytes;
  }
};

TEST_F(JournalCheckTest, DescribesAWholeJournal) {
  FillRun();
  const JournalReport report = Check();
  EXPECT_TRUE(report.whole());
  EXPECT_FALSE(report.damaged());
  EXPECT_EQ(report.records(), 5);
  EXPECT_EQ(report.first.rows, 20);
  EXPECT_EQ(report.first.envstep, 30);
  EXPECT_THAT(report.ToString(),
              AllOf(HasSubstr(options_.path), HasSubstr("journal of version 2"),
                    HasSubstr("5 whole records"),
                    HasSubstr("a resume finds: 20 rows, 30 env steps, 50 train iterations, policy "
                              "version 0 (2 stored), incarnation 3")));
  EXPECT_THAT(RepairJournal(options_.path, false).value(), HasSubstr("nothing is changed"));
  EXPECT_THAT(ListDirectory(folder_.path()).value(), ElementsAre("journal"));
}

TEST_F(JournalCheckTest, LocatesAndRepairsDamage) {
  FillRun();
  const std::string damaged = Damage();
  const JournalReport report = Check();
  EXPECT_TRUE(report.damaged());
  ASSERT_EQ(report.ranges.size(), 3u);
  EXPECT_EQ(report.ranges[0].end, static_cast<int64_t>(ends_[1]));
  EXPECT_EQ(report.ranges[1].end, static_cast<int64_t>(ends_[2]));
  EXPECT_EQ(report.ranges[2].records, 2);
  EXPECT_EQ(report.first.rows, 10);
  EXPECT_EQ(report.all.rows, 10) << "chunk 1 was removed behind the damage";
  EXPECT_EQ(report.all.envstep, 30);
  EXPECT_THAT(report.ToString(), AllOf(HasSubstr("damaged"), HasSubstr("a resume refuses it"),
                                       HasSubstr("--skip_damage")));
  const std::string said = RepairJournal(options_.path, false).value();
  EXPECT_THAT(said, AllOf(HasSubstr("has 2 records now"), HasSubstr("2 whole records among them"),
                          HasSubstr(options_.path + ".damaged")));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 3", "push 1"));
  EXPECT_EQ(ReadFile(options_.path + ".damaged").value(), damaged);
  EXPECT_TRUE(Check().whole());
  // Repair the damaged file once more, and keep all records that are whole.
  SetBytes(damaged);
  EXPECT_THAT(RepairJournal(options_.path, true).value(), HasSubstr(".damaged.2"));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 3", "push 1", "push 3", "removed 1"));
  EXPECT_THAT(ListDirectory(folder_.path()).value(),
              ElementsAre("journal", "journal.damaged", "journal.damaged.2"));
}

TEST_F(JournalCheckTest, ADamagedAppendLosesAllItsRecords) {
  ASSERT_THAT(Open()->Append({State(1)}), IsOk());
  const size_t begin = Bytes().size();
  ASSERT_THAT(Open()->Append({Push(1), Push(2), Push(3)}), IsOk());
  const size_t end = Bytes().size();
  ASSERT_THAT(Open()->Append({Push(4)}), IsOk());
  const std::string bytes = Bytes();
  for (size_t at = begin; at < end; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    SetBytes(damaged);
    const JournalReport report = Check();
    ASSERT_EQ(report.ranges.size(), 3u) << at;
    ASSERT_EQ(report.ranges[1].begin, static_cast<int64_t>(begin)) << at;
    ASSERT_EQ(report.ranges[1].end, static_cast<int64_t>(end)) << at;
    ASSERT_EQ(report.records(), 2) << at;
  }
  ASSERT_THAT(RepairJournal(options_.path, true), IsOk());
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 4"));
}

TEST_F(JournalCheckTest, ARecordThatIsNotOne_IsRefusedAndRepaired) {
  // Its checksum is right, but the bytes are no JournalRecord.
  const auto append = [this](const std::string& payload) {
    std::string frames;
    AppendJournalGroup(std::vector<absl::string_view>{payload}, &frames);
    PlaceJournalFrames(static_cast<int64_t>(Bytes().size()), &frames);
    SetBytes(Bytes() + frames);
  };
  const std::string bad(20, '\xff');
  ASSERT_THAT(Open()->Append({State(1)}), IsOk());
  ASSERT_THAT(Open()->Append({Push(1)}), IsOk());
  const auto begin = static_cast<int64_t>(Bytes().size());
  append(bad);
  const std::string at_the_end = Bytes();
  append(bad);
  append(Push(2).SerializeAsString());
  const std::string in_the_middle = Bytes();
  for (const std::string& bytes : {at_the_end, in_the_middle}) {
    SetBytes(bytes);
    EXPECT_THAT(FileJournal::Open(options_),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("ctl journal repair")));
    const JournalReport report = Check();
    EXPECT_TRUE(report.damaged());
    EXPECT_FALSE(report.whole());
    ASSERT_GE(report.ranges.size(), 2u);
    EXPECT_EQ(report.ranges[1].kind, JournalRange::Kind::kDamaged);
    EXPECT_EQ(report.ranges[1].begin, begin);
    EXPECT_THAT(RepairJournal(options_.path, false).value(), HasSubstr("has 2 records now"));
    EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 1"));
    EXPECT_TRUE(Check().whole());
    EXPECT_THAT(RepairJournal(options_.path, false).value(), HasSubstr("is whole"));
  }
  SetBytes(in_the_middle);
  EXPECT_EQ(Check().ranges.size(), 3u);
  ASSERT_THAT(RepairJournal(options_.path, /*skip_damage=*/true), IsOk());
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 1", "push 2"));
}

TEST_F(JournalCheckTest, RepairsATornEndAndKeepsIt) {
  FillRun();
  const std::string bytes = Bytes();
  SetBytes(bytes.substr(0, bytes.size() - 3));
  EXPECT_FALSE(Check().whole());
  EXPECT_FALSE(Check().damaged());
  EXPECT_THAT(Check().ToString(), HasSubstr("a resume drops them"));
  ASSERT_THAT(RepairJournal(options_.path, false), IsOk());
  EXPECT_EQ(Bytes(), bytes.substr(0, ends_[3]));
}

TEST_F(JournalCheckTest, AFullDiskLeavesTheDamagedJournalUnchanged) {
  FillRun();
  const std::string damaged = Damage();
  {
    const FileSizeLimit limit(20);
    EXPECT_THAT(RepairJournal(options_.path, false),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_EQ(Bytes(), damaged);
  EXPECT_THAT(ListDirectory(folder_.path()).value(), Contains("journal"));
}

TEST_F(JournalCheckTest, AFileOfAnotherFormatIsRefused) {
  EXPECT_THAT(CheckJournal(options_.path), StatusIs(absl::StatusCode::kNotFound));
  SetBytes("something else");
  EXPECT_THAT(CheckJournal(options_.path), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(RepairJournal(options_.path, true), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Bytes(), "something else");
}

// Whatever is damaged, the report says so, a repair invents no record, and its result is whole.
TEST_F(JournalCheckTest, MutantsAreCheckedAndRepaired) {
  Fill(12);
  const std::string bytes = Bytes();
  Fuzz(60, [&](Mutator* mutator) {
    SetBytes(mutator->Mutate(bytes));
    const auto report = CheckJournal(options_.path);
    if (!report.ok()) return;
    const bool skip_damage = mutator->rng()->UniformInt(2) == 0;
    const absl::Status repaired = RepairJournal(options_.path, skip_damage).status();
    if (absl::IsFailedPrecondition(repaired)) return;  // Its states are lost.
    ASSERT_THAT(repaired, IsOk());
    ASSERT_TRUE(Check().whole());
    const std::vector<std::string> read = Read(*Open());
    for (const std::string& record : read) EXPECT_THAT(all_, Contains(record));
    if (skip_damage) {
      EXPECT_EQ(static_cast<int64_t>(read.size()), report->records());
    } else {
      EXPECT_TRUE(std::equal(read.begin(), read.end(), all_.begin()));
    }
    ASSERT_THAT(RemoveRecursively(folder_.path()), IsOk());
    ASSERT_THAT(CreateDirectories(folder_.path()), IsOk());
  });
}

TEST_F(JournalCheckTest, PushesWithoutAStateAreDamage) {
  ASSERT_THAT(Open()->Append({Push(1), Push(2)}), IsOk());
  EXPECT_THAT(Check().first.status, StatusIs(absl::StatusCode::kDataLoss,
                                             HasSubstr("2 pushes of rows, and not the state")));
  // A compacted journal ends with its state, so the records before the damage are no run.
  ASSERT_THAT(Compact(Open().get(), State(2)), IsOk());
  std::string bytes = Bytes();
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  SetBytes(bytes);
  EXPECT_THAT(RepairJournal(options_.path, false),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--skip_damage")));
  EXPECT_EQ(Bytes(), bytes);
  EXPECT_THAT(RepairJournal(options_.path, true), IsOk());
  EXPECT_EQ(SaidBy(*Open()).state, 2);
}

}  // namespace
}  // namespace ding
