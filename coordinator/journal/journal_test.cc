#include "ding_worker/coordinator/journal/journal.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/testing/journal_fixture.h"
#include "ding_worker/coordinator/testing/mem_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
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
  EXPECT_THAT(Read(*journal), ElementsAre("state 2", "push 7"));
  journal = Open();
  ASSERT_THAT(journal->Append({State(3)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 3", "push 7"));
}

TEST_F(JournalTest, Append_Removed_PushesLeaveWithTheirLastChunk) {
  auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Chunks({1, 2}), Chunks({3}), Chunks({4, 5})}), IsOk());
  ASSERT_THAT(journal->Append({Removed({1, 3, 4})}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 2", "push 5"));
  ASSERT_THAT(journal->Append({Removed({5})}), IsOk());
  journal = Open();
  EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 2"));
  EXPECT_TRUE(journal->IsLive(2));
  EXPECT_FALSE(journal->IsLive(1));
  ASSERT_THAT(journal->Append({Removed({2}), State(4)}), IsOk());
  EXPECT_THAT(Read(*Open()), ElementsAre("state 4"));
}

// Eviction may remove a chunk while its push is being noted.
TEST_F(JournalTest, Append_ARemovalBeforeItsPush_Counts) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Removed({1}), Push(1), Push(2)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 2"));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 2"));
}

// The chunks that are removed from pushes with other chunks are many more than one part of the
// snapshot has.
TEST_F(JournalTest, Append_ManyPushesArePartlyRemoved_SaysWhatIsLive) {
  auto journal = Open();
  ASSERT_THAT(journal->Append({State(1)}), IsOk());
  for (int64_t chunk = 1; chunk < 3000; chunk += 3) {
    ASSERT_THAT(journal->Append({Chunks({chunk, chunk + 1, chunk + 2}), Removed({chunk})}), IsOk());
  }
  for (int64_t chunk = 2; chunk < 1500; chunk += 3) {
    ASSERT_THAT(journal->Append({Removed({chunk, chunk + 1})}), IsOk());
  }
  const Said said = SaidBy(*journal);
  EXPECT_EQ(said.live.size(), 2u * 500);
  EXPECT_LT(data_.records.size(), 500u + 300) << "the records of the others are deleted";
  journal = Open();
  EXPECT_EQ(SaidBy(*journal), said);
  ASSERT_THAT(journal->Append({Removed(said.live)}), IsOk());
  ASSERT_THAT(journal->Append({State(2)}), IsOk());
  EXPECT_THAT(data_.records, IsEmpty());
  EXPECT_THAT(data_.snapshot, testing::SizeIs(1));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 2"));
}

TEST_F(JournalTest, Append_ATaskThatIsOverLeavesNothing) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Task("a"), Task("b")}), IsOk());
  ASSERT_THAT(journal->Append({Over("a"), Task("c"), Over("c"), Task("b")}), IsOk());
  const RecordedRun run = journal->ReadRun().value().value();
  ASSERT_EQ(run.collector_tasks.size(), 1);
  EXPECT_EQ(run.collector_tasks[0].task_id(), "b");
  EXPECT_EQ(data_.snapshot.size(), 2);
}

TEST_F(JournalTest, Append_NoRoom_ChangesNothing) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Push(1)}), IsOk());
  log_->set_status(absl::ResourceExhaustedError("full"));
  EXPECT_THAT(journal->Append({State(2), Push(2)}), StatusIs(absl::StatusCode::kResourceExhausted));
  log_->set_status(absl::OkStatus());
  EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 1"));
  ASSERT_THAT(journal->Append({State(2), Push(2)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 2", "push 1", "push 2"));
}

TEST_F(JournalTest, Append_TheOutcomeIsUnknown_IsWrittenOnce) {
  for (const bool makes : {false, true}) {
    data_ = MemLogData();
    auto journal = Open();
    ASSERT_THAT(journal->Append({State(1)}), IsOk());
    log_->set_status(absl::UnavailableError("gone"), makes);
    EXPECT_THAT(journal->Append({Push(1)}), StatusIs(absl::StatusCode::kUnavailable));
    log_->set_status(absl::OkStatus());
    ASSERT_THAT(journal->Append({Push(1), State(2)}), IsOk());
    EXPECT_THAT(Read(*journal), ElementsAre("state 2", "push 1")) << makes;
    ASSERT_THAT(journal->Append({Push(2)}), IsOk());
    EXPECT_THAT(Read(*Open()), ElementsAre("state 2", "push 1", "push 2")) << makes;
  }
}

TEST_F(JournalTest, Append_TheLogHasLostSomething_AllIsWrittenAgain) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1), Push(1), Push(2), Removed({1})}), IsOk());
  data_.records.clear();
  data_.snapshot.clear();
  data_.lost = true;
  ASSERT_THAT(journal->Append({State(2), Push(3)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 2", "push 2", "push 3"));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 2", "push 2", "push 3"));
}

TEST_F(JournalTest, Append_AnotherCoordinatorOpensIt_IsAborted) {
  const auto journal = Open();
  ASSERT_THAT(journal->Append({State(1)}), IsOk());
  const auto next = Open();
  EXPECT_THAT(journal->Append({Push(1)}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(next->Append({Push(2)}), IsOk());
}

TEST_F(JournalTest, Open_AnyByteOfARecordIsChanged_IsRefused) {
  ASSERT_THAT(Open()->Append({State(1), Push(1)}), IsOk());
  for (std::string* const bytes : {&data_.records.at(1), &data_.snapshot.at("state")}) {
    const std::string before = *bytes;
    for (size_t i = 0; i < before.size(); ++i) {
      (*bytes)[i] = static_cast<char>((*bytes)[i] ^ (1 << i % 8));
      EXPECT_THAT(Journal::Open(std::make_unique<MemLog>(&data_)),
                  StatusIs(absl::StatusCode::kDataLoss));
      *bytes = before;
    }
    *bytes = before.substr(0, 3);
    EXPECT_THAT(Journal::Open(std::make_unique<MemLog>(&data_)),
                StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("cut off")));
    *bytes = before;
  }
}

TEST_F(JournalTest, Open_WholeRecordsInTheWrongPlace_IsRefused) {
  ASSERT_THAT(Open()->Append({State(1), Task("a"), Push(7)}), IsOk());
  const MemLogData good = data_;
  data_.snapshot["task/a"] = EncodeJournalRecord(State(2));
  EXPECT_THAT(Journal::Open(std::make_unique<MemLog>(&data_)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'task/a'")));
  data_ = good;
  data_.records[data_.next++] = EncodeJournalRecord(Chunks({8, 7}));
  EXPECT_THAT(Journal::Open(std::make_unique<MemLog>(&data_)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("pushed before")));
}

// Damage that no checksum shows is refused, or the journal can be used all the same.
TEST_F(JournalTest, Fuzz_DamagedRecords_AreRefusedOrUsable) {
  ASSERT_THAT(Open()->Append({State(1), Chunks({1, 2}), Task("a"), Chunks({3}), Removed({1})}),
              IsOk());
  const MemLogData good = data_;
  int opened = 0;
  int refused = 0;
  Fuzz(3000, [&](Mutator* mutator) {
    const auto damage = [mutator](std::string* record) {
      if (mutator->rng()->UniformInt(4) > 0) return;
      *record = mutator->Mutate(record->substr(sizeof(uint32_t)));
      const uint32_t crc = Crc32c(*record);
      record->insert(0, reinterpret_cast<const char*>(&crc), sizeof(crc));
    };
    data_ = good;
    for (auto& [index, record] : data_.records) damage(&record);
    for (auto& [name, part] : data_.snapshot) damage(&part);
    absl::StatusOr<std::unique_ptr<Journal>> journal =
        Journal::Open(std::make_unique<MemLog>(&data_));
    if (!journal.ok() || !(*journal)->ReadRun().ok()) {
      ++refused;
      return;
    }
    ++opened;
    EXPECT_THAT((*journal)->LiveKeys(), IsOk());
    std::vector<int64_t> live = SaidBy(**journal).live;
    // No mutant is likely to say that this chunk was removed before.
    constexpr int64_t kNew = 1234567890123;
    ASSERT_THAT((*journal)->Append({Removed(live), Push(kNew), State(7)}), IsOk());
    EXPECT_THAT(Read(*Open()), ElementsAre("state 7", absl::StrCat("push ", kNew)));
  });
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(JournalTest, ReadRun_PushesWithoutAState_IsDataLoss) {
  ASSERT_THAT(Open()->Append({Push(1)}), IsOk());
  EXPECT_THAT(Open()->ReadRun(), StatusIs(absl::StatusCode::kDataLoss,
                                          testing::HasSubstr("not the state of the run")));
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
  for (int i = 0; i < 5000 && !HasFailure(); ++i) {
    switch (rng.UniformInt(20)) {
      case 0:
        journal = Open();
        break;
      case 1:
        log_->set_status(absl::UnavailableError("gone"), rng.UniformInt(2) == 0);
        break;
      case 2:
        data_.records.clear();
        data_.snapshot.clear();
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
  EXPECT_LT(most, 400u);
}

}  // namespace
}  // namespace ding
