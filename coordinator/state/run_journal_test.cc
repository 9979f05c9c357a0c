#include "ding_worker/coordinator/state/run_journal.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/naive_commander.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/testing/mem_log.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string Describe(const JournalRecord& record) {
  if (record.has_learner_task()) return absl::StrCat("given ", record.learner_task().task_id());
  if (record.has_collector_task()) return absl::StrCat("given ", record.collector_task().task_id());
  if (record.has_state()) return absl::StrCat("state ", record.state().run());
  if (record.has_commander()) return "commander";
  return absl::StrCat("removed ", absl::StrJoin(record.removed().chunk(), ","));
}

// Keeps descriptions of what is appended.
class FakeLog : public MemLog {
 public:
  using MemLog::MemLog;
  absl::StatusOr<int64_t> Commit(const Change& change) override {
    const absl::StatusOr<int64_t> first = MemLog::Commit(change);
    for (const absl::string_view bytes : change.append) {
      if (first.ok()) appended_.push_back(Describe(ParseJournalRecord(bytes).value()));
    }
    return first;
  }
  // Returns the records that were appended since the last call.
  std::vector<std::string> Take() { return std::exchange(appended_, {}); }

 private:
  std::vector<std::string> appended_;
};

LearnerTask Learner(const std::string& task_id) {
  LearnerTask task;
  task.set_task_id(task_id);
  return task;
}

CollectorTask Collector(const std::string& task_id) {
  CollectorTask task;
  task.set_task_id(task_id);
  return task;
}

class RunJournalTest : public testing::Test {
 protected:
  RunJournalTest() : journal_(written_.get(), [this] { ++replacements_; }) {}

  absl::Status Persist() {
    const auto state = [this] {
      JournalRecord record;
      record.mutable_state()->set_run(absl::StrCat(++states_));
      return record;
    };
    return journal_.Persist(state, *commander_);
  }
  // Writes the state that each new coordinator writes first, and forgets the record of it.
  void Begin() {
    ASSERT_THAT(Persist(), IsOk());
    fake_.Take();
  }

  MemLogData data_;
  FakeLog& fake_ = *new FakeLog(&data_);  // The journal owns it.
  const std::unique_ptr<Journal> written_ = Journal::Open(absl::WrapUnique(&fake_)).value();
  const std::unique_ptr<NaiveCommander> commander_ =
      NaiveCommander::Create(NaiveCommander::Options()).value();
  int replacements_ = 0;
  int states_ = 0;  // made
  RunJournal journal_;
};

TEST_F(RunJournalTest, WritesStateAndCommanderOnceAtTheBeginning) {
  EXPECT_THAT(Persist(), IsOk());
  EXPECT_THAT(fake_.Take(), ElementsAre("state 1", "commander"));
  EXPECT_THAT(Persist(), IsOk());
  EXPECT_THAT(fake_.Take(), IsEmpty());
  EXPECT_EQ(states_, 1) << "a state that is not written is not made";
}

TEST_F(RunJournalTest, WritesOnlyWhatHasChanged) {
  Begin();
  journal_.NoteState();
  EXPECT_THAT(Persist(), IsOk());
  EXPECT_THAT(fake_.Take(), ElementsAre("state 2"));
  journal_.NoteCommander();
  EXPECT_THAT(Persist(), IsOk());
  EXPECT_THAT(fake_.Take(), ElementsAre("state 3", "commander"));
  journal_.NoteGiven(Learner("a"));
  journal_.NoteGiven(Collector("b"));
  journal_.NoteOver("a");
  EXPECT_THAT(Persist(), IsOk());
  EXPECT_THAT(fake_.Take(), ElementsAre("given b", "state 4", "commander"));
  journal_.NoteOver("b");
  EXPECT_THAT(Persist(), IsOk());
  EXPECT_THAT(fake_.Take(), ElementsAre("state 5", "commander"));
  EXPECT_EQ(data_.records.size(), 2) << "the last state, and that of the commander";
}

TEST_F(RunJournalTest, RetriesRecordsThatCouldNotBeWritten) {
  Begin();
  journal_.NoteGiven(Learner("a"));
  journal_.NoteRemoved({7});
  fake_.set_status(absl::ResourceExhaustedError("the disk is full"));
  EXPECT_THAT(Persist(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Persist(), StatusIs(absl::StatusCode::kResourceExhausted));
  journal_.PersistRemoved();
  journal_.NoteOver("a");
  journal_.NoteRemoved({8, 9});
  fake_.set_status(absl::OkStatus());
  EXPECT_THAT(Persist(), IsOk());
  EXPECT_THAT(fake_.Take(), ElementsAre("state 4", "commander"));
  journal_.PersistRemoved();
  EXPECT_THAT(fake_.Take(), ElementsAre("removed 7,8,9"));
  journal_.PersistRemoved();
  EXPECT_THAT(fake_.Take(), IsEmpty());
  EXPECT_THAT(journal_.replaced(), IsOk());
}

TEST_F(RunJournalTest, ReportsItsReplacementOnce) {
  fake_.set_status(absl::AbortedError("it belongs to coordinator 2"));
  EXPECT_THAT(Persist(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(journal_.replaced(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(replacements_, 1);
  journal_.NoteError(absl::AbortedError("it belongs to coordinator 3"));
  EXPECT_EQ(replacements_, 1);
}

TEST_F(RunJournalTest, WritesNothingWhenItIsDetached) {
  journal_.NoteRemoved({7});
  journal_.Detach();
  EXPECT_EQ(journal_.get(), nullptr);
  journal_.NoteGiven(Learner("a"));
  journal_.NoteRemoved({8});
  EXPECT_THAT(Persist(), IsOk());
  journal_.PersistRemoved();
  EXPECT_THAT(fake_.Take(), IsEmpty());
}

TEST_F(RunJournalTest, AReplacementContainsTheNotesButNotRemovedChunks) {
  journal_.NoteGiven(Learner("a"));
  journal_.NoteRemoved({7});
  journal_.NoteReplaced();
  EXPECT_THAT(Persist(), IsOk());
  EXPECT_THAT(fake_.Take(), IsEmpty());
  journal_.PersistRemoved();
  EXPECT_THAT(fake_.Take(), ElementsAre("removed 7"));
}

}  // namespace
}  // namespace ding
