#include "ding_worker/coordinator/journal/journal.h"

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/recovery.h"
#include "ding_worker/coordinator/testing/journal_fixture.h"
#include "ding_worker/coordinator/testing/mem_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

JournalRecord Task(const std::string& id) {
  JournalRecord record;
  record.mutable_collector_task()->set_task_id(id);
  return record;
}

JournalRecord Over(const std::string& id) {
  JournalRecord record;
  record.set_task_over(id);
  return record;
}

// A push of several chunks.
JournalRecord Chunks(const std::vector<int64_t>& chunks) {
  JournalRecord record = Push(chunks[0]);
  record.mutable_push()->clear_chunk();
  for (const int64_t chunk : chunks) record.mutable_push()->add_chunk(chunk);
  return record;
}

class JournalTest : public testing::Test {
 protected:
  std::unique_ptr<Journal> Open() {
    auto log = std::make_unique<MemLog>(&data_);
    log_ = log.get();
    return Journal::Open(std::move(log)).value();
  }

  MemLogData data_;
  MemLog* log_ = nullptr;
};

TEST_F(JournalTest, Append_AStateTakesThePlaceOfTheOneBefore) {
  auto journal = Open();
  EXPECT_THAT(Read(*journal), IsEmpty());
  ASSERT_THAT(journal->Append({State(1), Push(7)}), IsOk());
  ASSERT_THAT(journal->Append({State(2)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("push 7", "state 2"));
  journal = Open();
  ASSERT_THAT(journal->Append({State(3)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("push 7", "state 3"));
}

TEST_F(JournalTest, Append_APushWithoutChunksLeavesWithTheNextState) {
  auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Chunks({1, 2}), Chunks({3}), Chunks({4, 5})}), IsOk());
  ASSERT_THAT(journal->Append({Removed({1, 3, 4})}), IsOk());
  EXPECT_THAT(Read(*journal),
              ElementsAre("state 1", "push 1 2", "push 3", "push 4 5", "removed 1 3 4"))
      << "the counts of push 3 are in no state";
  ASSERT_THAT(journal->Append({State(2)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("push 1 2", "push 4 5", "removed 1 3 4", "state 2"));
  ASSERT_THAT(journal->Append({Removed({5})}), IsOk());
  journal = Open();
  ASSERT_THAT(journal->Append({State(3)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("push 1 2", "removed 1 3 4", "state 3"));
  ASSERT_THAT(journal->Append({Removed({2}), State(4)}), IsOk());
  ASSERT_THAT(journal->Append({State(5)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 5")) << "and nothing is left of the removals";
}

TEST_F(JournalTest, Append_AStateHasTheCountsOfThePushesBeforeIt) {
  auto journal = Open();
  JournalRecord push = Push(1);
  push.mutable_push()->set_rows_total(70);
  push.mutable_push()->set_rows_drawn(5);
  push.mutable_push()->set_envstep(90);
  ASSERT_THAT(journal->Append({State(1), push, Removed({1})}), IsOk());
  ASSERT_THAT(journal->Append({State(2)}), IsOk());
  ASSERT_THAT(journal->Append({State(3)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 3"));
  const RecoveredRun run = ReadJournal(*Open()).value().value();
  EXPECT_EQ(run.state.envstep(), 90);
  EXPECT_EQ(run.state.buffer(0).rows_total(), 70);
  EXPECT_EQ(run.state.buffer(0).rows_drawn(), 5);
}

TEST_F(JournalTest, Append_PushesIntoABufferThatIsClosedLeave) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Push(1, "buffer_1"), Push(2)}), IsOk());
  ASSERT_THAT(journal->Append({State(2)}), IsOk());
  ASSERT_THAT(journal->Append({Removed({1}), State(3)}), IsOk());
  ASSERT_THAT(journal->Append({State(4)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("push 2", "state 4"));
}

TEST_F(JournalTest, Append_ATaskThatIsOverLeavesNothing) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Task("a"), Task("b")}), IsOk());
  ASSERT_THAT(journal->Append({Over("a"), Task("c"), Over("c"), Task("b")}), IsOk());
  const RecoveredRun run = ReadJournal(*journal).value().value();
  ASSERT_EQ(run.collector_tasks.size(), 1);
  EXPECT_EQ(run.collector_tasks[0].task_id(), "b");
  EXPECT_EQ(data_.records.size(), 2);
}

// A push that could not be written at first may be written after its chunk was removed.
TEST_F(JournalTest, Append_ARemovalBeforeItsPushCounts) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Removed({1})}), IsOk());
  ASSERT_THAT(journal->Append({State(2)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("removed 1", "state 2"));
  ASSERT_THAT(journal->Append({Push(1)}), IsOk());
  ASSERT_THAT(journal->Append({State(3)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 3"));
}

TEST_F(JournalTest, Replace_LeavesPushesAndTheNewState) {
  auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Task("a"), Push(1), Push(2), Removed({1})}), IsOk());
  ASSERT_THAT(journal->Replace({State(2), Task("b")}), IsOk());
  journal = Open();
  EXPECT_THAT(Read(*journal), testing::Contains("state 2"));
  const RecoveredRun run = ReadJournal(*journal).value().value();
  ASSERT_EQ(run.collector_tasks.size(), 1);
  EXPECT_EQ(run.collector_tasks[0].task_id(), "b");
  ASSERT_THAT(journal->Replace({State(3)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("push 2", "state 3"));
}

TEST_F(JournalTest, Append_NoRoom_ChangesNothing) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Push(1)}), IsOk());
  log_->set_status(absl::ResourceExhaustedError("full"));
  EXPECT_THAT(journal->Append({State(2), Push(2)}), StatusIs(absl::StatusCode::kResourceExhausted));
  log_->set_status(absl::OkStatus());
  EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 1"));
  ASSERT_THAT(journal->Append({State(2), Push(2)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("push 1", "state 2", "push 2"));
}

TEST_F(JournalTest, Append_TheOutcomeIsUnknown_IsWrittenOnce) {
  for (const bool makes : {false, true}) {
    data_ = MemLogData();
    auto journal = Open();
    ASSERT_THAT(journal->Append({State(1)}), IsOk());
    log_->set_status(absl::UnavailableError("gone"), makes);
    EXPECT_THAT(journal->Append({Push(1)}), StatusIs(absl::StatusCode::kUnavailable));
    log_->set_status(absl::OkStatus());
    ASSERT_THAT(journal->Append({State(2)}), IsOk());
    ASSERT_THAT(journal->Append({Push(1)}), IsOk());
    EXPECT_THAT(Read(*journal), ElementsAre("push 1", "state 2")) << makes;
    ASSERT_THAT(journal->Append({Push(2)}), IsOk());
    EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "state 2", "push 2")) << makes;
  }
}

TEST_F(JournalTest, Append_TheLogHasLostSomething_AllIsWrittenAgain) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Push(1), Push(2), Removed({1})}), IsOk());
  data_.records.clear();
  data_.lost = true;
  ASSERT_THAT(journal->Append({State(2)}), IsOk());
  EXPECT_EQ(SaidBy(*journal).live, std::vector<int64_t>{2});
  ASSERT_THAT(journal->Append({State(3)}), IsOk());
  EXPECT_THAT(Read(*Open()), ElementsAre("push 2", "state 3"));
}

TEST_F(JournalTest, Append_AnotherCoordinatorOpensIt_IsAborted) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1)}), IsOk());
  const auto next = Open();
  EXPECT_THAT(journal->Append({Push(1)}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(next->Append({Push(2)}), IsOk());
}

TEST_F(JournalTest, Open_ARecordIsDamaged_IsRefused) {
  data_.records[1] = "\xff";
  EXPECT_THAT(Journal::Open(std::make_unique<MemLog>(&data_)),
              StatusIs(absl::StatusCode::kDataLoss));
}

// Random appends, failures and reopenings: the journal says what the model says, and does not grow.
TEST_F(JournalTest, RandomRecordsAreThoseOfTheModel) {
  const uint64_t seed = NewSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Rng rng(seed, "journal");
  Said said;
  Records records(&rng);
  auto journal = Open();
  const auto append = [&](const std::vector<JournalRecord>& appended) {
    const absl::Status status = journal->Append(appended);
    if (absl::IsUnavailable(status)) {
      log_->set_status(absl::OkStatus());
      ASSERT_THAT(journal->Append(appended), IsOk());
    } else {
      ASSERT_THAT(status, IsOk());
    }
    for (const JournalRecord& record : appended) said.Add(record);
  };
  append({records.NextState()});
  size_t most = 0;
  for (int i = 0; i < 3000 && !HasFailure(); ++i) {
    switch (rng.UniformInt(20)) {
      case 0:
        journal = Open();
        break;
      case 1:
        log_->set_status(absl::UnavailableError("gone"), rng.UniformInt(2) == 0);
        break;
      case 2:
        data_.records.clear();
        data_.lost = true;
        break;
      default:
        break;
    }
    append(records.Next(said));
    if (said.live.size() > 30) {
      JournalRecord removed = Removed({said.live.begin(), said.live.begin() + 20});
      append({removed, records.NextState()});
    }
    ASSERT_EQ(SaidBy(*journal), said) << i;
    most = std::max(most, data_.records.size());
  }
  EXPECT_LT(most, 200u);
}

TEST_F(JournalTest, Append_FromSeveralThreads_LosesNothing) {
  Folder folder;
  const std::string path = JoinPath(folder.path(), "journal");
  {
    const auto journal = OpenJournalFile(path).value();
    ASSERT_THAT(journal->Append({State(1)}), IsOk());
    std::vector<std::thread> threads;
    for (int64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&journal, thread] {
        for (int64_t i = 0; i < 100; ++i) {
          EXPECT_THAT(journal->Append({Push(thread * 1000 + i)}), IsOk());
          if (i > 5) {
            EXPECT_THAT(journal->Append({Removed({thread * 1000 + i - 5})}), IsOk());
          }
          if (i % 10 == 0) {
            EXPECT_THAT(journal->Append({State(2)}), IsOk());
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(SaidBy(*OpenJournalFile(path).value()).live.size(), 4u * 6);
}

}  // namespace
}  // namespace ding
