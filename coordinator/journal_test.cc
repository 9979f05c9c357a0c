#include "ding_worker/coordinator/journal.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

JournalRecord Push(int64_t chunk, const std::string& buffer = "buffer_0") {
  JournalRecord record;
  record.mutable_push()->set_buffer_id(buffer);
  record.mutable_push()->add_chunk(chunk);
  record.mutable_push()->set_items(std::string(40, static_cast<char>(chunk)));
  return record;
}

JournalRecord Removed(const std::vector<int64_t>& chunks) {
  JournalRecord record;
  for (const int64_t chunk : chunks) record.mutable_removed()->add_chunk(chunk);
  return record;
}

JournalRecord State(int32_t incarnation) {
  JournalRecord record;
  record.mutable_state()->set_incarnation(incarnation);
  return record;
}

// "push 7", "removed 7,8", "state 3"
std::string Describe(const JournalRecord& record) {
  std::string text = record.has_push() ? "push" : record.has_removed() ? "removed" : "state";
  for (const int64_t chunk : record.push().chunk()) absl::StrAppend(&text, " ", chunk);
  for (const int64_t chunk : record.removed().chunk()) absl::StrAppend(&text, " ", chunk);
  if (record.has_state()) absl::StrAppend(&text, " ", record.state().incarnation());
  return text;
}

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/journal_XXXXXX");
    folder_ = mkdtemp(folder.data());
    options_.path = JoinPath(folder_, "journal");
    options_.min_compaction_bytes = 1;
  }
  ~JournalTest() override { RemoveRecursively(folder_).IgnoreError(); }

  std::unique_ptr<Journal> Open() { return Journal::Open(options_).value(); }
  static std::vector<std::string> Read(const Journal& journal) {
    std::vector<std::string> records;
    EXPECT_THAT(journal.Read([&records](const JournalRecord& record) {
      records.push_back(Describe(record));
      return absl::OkStatus();
    }),
                IsOk());
    return records;
  }
  std::string Bytes() { return ReadFile(options_.path).value(); }
  void SetBytes(const std::string& bytes) {
    ASSERT_THAT(WriteFileAtomically(options_.path, bytes), IsOk());
  }

  std::string folder_;
  Journal::Options options_;
};

TEST_F(JournalTest, IsThereForTheNextProcess) {
  {
    const auto journal = Open();
    EXPECT_THAT(Read(*journal), IsEmpty());
    ASSERT_THAT(journal->Append({State(1), Push(7)}), IsOk());
    ASSERT_THAT(journal->Append({Removed({7, 8})}), IsOk());
  }
  const auto journal = Open();
  EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 7", "removed 7 8"));
  ASSERT_THAT(journal->Append({Push(9)}), IsOk());
  EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 7", "removed 7 8", "push 9"));
}

TEST_F(JournalTest, ATornEndIsCutOffWhereverItIsTorn) {
  ASSERT_THAT(Open()->Append({State(1), Push(7)}), IsOk());
  const size_t whole = Bytes().size();
  ASSERT_THAT(Open()->Append({Push(8)}), IsOk());
  const std::string bytes = Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    SetBytes(bytes.substr(0, size));
    const auto journal = Open();
    if (size >= whole) {
      EXPECT_THAT(Read(*journal), ElementsAre("state 1", "push 7")) << size;
    }
    ASSERT_THAT(journal->Append({Push(9)}), IsOk());
    EXPECT_EQ(Read(*journal).back(), "push 9") << size;
  }
  SetBytes(bytes + std::string(100, '\0'));
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 7", "push 8"));
}

TEST_F(JournalTest, DamageIsNoTornEnd) {
  ASSERT_THAT(Open()->Append({State(1), Push(7), Push(8)}), IsOk());
  const std::string bytes = Bytes();
  for (size_t at = 8; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    SetBytes(damaged);
    EXPECT_THAT(Journal::Open(options_).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is damaged: the record at byte")))
        << at;
  }
  SetBytes("something else");
  EXPECT_THAT(Journal::Open(options_).status(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(JournalTest, NeverInventsARecord) {
  std::vector<JournalRecord> records;
  for (int64_t chunk = 0; chunk < 20; ++chunk) records.push_back(Push(chunk));
  ASSERT_THAT(Open()->Append(records), IsOk());
  const std::string bytes = Bytes();
  const std::vector<std::string> all = Read(*Open());
  Fuzz(300, [&](Mutator* mutator) {
    SetBytes(mutator->Mutate(bytes));
    const auto journal = Journal::Open(options_);
    if (!journal.ok()) return;
    // What is read was written, in its order; a mutation may leave out, or repeat, whole records.
    for (const std::string& record : Read(**journal)) EXPECT_THAT(all, testing::Contains(record));
  });
}

TEST_F(JournalTest, CompactingKeepsWhatLives) {
  const auto journal = Open();
  JournalRecord two = Push(3);
  two.mutable_push()->add_chunk(4);
  ASSERT_THAT(
      journal->Append({State(1), Push(1), Push(2), two, Push(5, "closed"), Removed({1, 3})}),
      IsOk());
  const int64_t before = journal->size_bytes();
  ASSERT_THAT(journal->BeginCompaction([](const std::string& id) { return id == "buffer_0"; }),
              IsOk());
  // What comes meanwhile is kept, but for the state.
  ASSERT_THAT(journal->Append({Push(6), Removed({2}), State(2)}), IsOk());
  ASSERT_THAT(journal->FinishCompaction({State(3)}), IsOk());
  EXPECT_LT(journal->size_bytes(), before);
  const auto expected =
      ElementsAre("push 2", "push 3 4", "removed 3", "push 6", "removed 2", "state 3");
  EXPECT_THAT(Read(*journal), expected);
  ASSERT_THAT(journal->Append({Push(7)}), IsOk());
  EXPECT_EQ(Read(*Open()).back(), "push 7");
  EXPECT_EQ(journal->compactions(), 1);
}

TEST_F(JournalTest, WhatACompactionLeftHalfDoneChangesNothing) {
  {
    const auto journal = Open();
    ASSERT_THAT(journal->Append({State(1), Push(1)}), IsOk());
    ASSERT_THAT(journal->BeginCompaction([](const std::string&) { return true; }), IsOk());
  }
  EXPECT_THAT(Read(*Open()), ElementsAre("state 1", "push 1"));
}

TEST_F(JournalTest, WantsCompactionWhenItHasDoubled) {
  options_.min_compaction_bytes = 1000;
  const auto journal = Open();
  EXPECT_FALSE(journal->WantsCompaction());
  int64_t chunk = 0;
  while (!journal->WantsCompaction()) ASSERT_THAT(journal->Append({Push(chunk++)}), IsOk());
  EXPECT_GE(journal->size_bytes(), 1000);
  ASSERT_THAT(journal->BeginCompaction([](const std::string&) { return true; }), IsOk());
  ASSERT_THAT(journal->FinishCompaction({State(1)}), IsOk());
  EXPECT_FALSE(journal->WantsCompaction()) << "all of it lives";
  const int64_t compacted = journal->size_bytes();
  while (!journal->WantsCompaction()) ASSERT_THAT(journal->Append({Push(chunk++)}), IsOk());
  EXPECT_GE(journal->size_bytes(), 2 * compacted);
}

TEST_F(JournalTest, OthersAppendWhileItIsCompacted) {
  const auto journal = Open();
  constexpr int64_t kPushes = 20000;
  std::thread pushes([&journal] {
    for (int64_t chunk = 0; chunk < kPushes; ++chunk) {
      ASSERT_THAT(journal->Append({Push(chunk)}), IsOk());
    }
  });
  for (int32_t i = 0; i < 20; ++i) {
    ASSERT_THAT(journal->BeginCompaction([](const std::string&) { return true; }), IsOk());
    ASSERT_THAT(journal->FinishCompaction({State(i)}), IsOk());
  }
  pushes.join();
  std::vector<std::string> expected;
  for (int64_t chunk = 0; chunk < kPushes; ++chunk)
    expected.push_back(absl::StrCat("push ", chunk));
  std::vector<std::string> found = Read(*Open());
  found.erase(std::remove(found.begin(), found.end(), "state 19"), found.end());
  EXPECT_THAT(found, ElementsAreArray(expected));
}

TEST_F(JournalTest, AFullDiskLeavesItAsItWas) {
  options_.path = "/dev/full";
  EXPECT_FALSE(Journal::Open(options_).ok());
}

}  // namespace
}  // namespace ding
