#include "ding_worker/coordinator/journal/store_journal.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/testing/journal_fixture.h"
#include "ding_worker/interaction/redis/redis_store.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/testing/faulty_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// A store that fails as it is told to.
class StoreJournalTest : public testing::Test {
 protected:
  StoreJournalTest() {
    options_.store = &store_;
    options_.min_compaction_bytes = 1;
    options_.entry_bytes = 200;
  }
  std::unique_ptr<StoreJournal> Open() { return StoreJournal::Open(options_).value(); }
  absl::Status OpenStatus() { return StoreJournal::Open(options_).status(); }
  // Returns the names of the entries in the generation that a new coordinator would read.
  std::vector<std::string> Entries() {
    const std::vector<std::string> keys = memory_.List(kJournalPrefix).value();
    std::string folder;
    for (const std::string& key : keys) {
      if (absl::EndsWith(key, "/head")) folder = key.substr(0, key.size() - 4);
    }
    std::vector<std::string> entries;
    for (const std::string& key : keys) {
      if (absl::StartsWith(key, folder) && !absl::EndsWith(key, "/head")) entries.push_back(key);
    }
    return entries;
  }

  MemStore memory_;
  FaultyStore store_{&memory_, NewSeed()};
  StoreJournal::Options options_;
};

TEST_F(StoreJournalTest, AReplacedCoordinatorGetsAnErrorAndItsRecordsAreNotRead) {
  const auto old = Open();
  ASSERT_THAT(old->Append({Push(1)}), IsOk());
  ASSERT_THAT(old->BeginCompaction(All), IsOk());
  const auto next = Open();
  EXPECT_THAT(Read(*next), ElementsAre("push 1"));
  const auto is_told =
      StatusIs(absl::StatusCode::kAborted, HasSubstr("another coordinator goes on with this run"));
  EXPECT_THAT(old->FinishCompaction({State(1)}), is_told);
  EXPECT_THAT(old->Append({Push(2)}), is_told);
  EXPECT_THAT(old->BeginCompaction(All), is_told);
  old->DropReplaced();
  ASSERT_THAT(next->Append({Push(3)}), IsOk());
  EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "push 3"));
}

// The old coordinator has put its entry, and was stopped before it checked the owner.
TEST_F(StoreJournalTest, AppendsUnderAnotherOwnerAreNotAcknowledged) {
  const auto old = Open();
  ASSERT_THAT(old->Append({Push(1)}), IsOk());
  const auto next = Open();
  ASSERT_THAT(next->Append({Push(2)}), IsOk());
  EXPECT_THAT(old->Append({Push(3)}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "push 2"));
}

TEST_F(StoreJournalTest, AnEmptiedStoreGetsAllRecordsAgain) {
  {
    const auto journal = Open();
    for (int i = 0; i < 10; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
    ASSERT_THAT(store_.Clear(), IsOk());
    ASSERT_THAT(journal->Append({Push(10)}), IsOk());
  }
  EXPECT_EQ(Read(*Open()).size(), 11u);
}

TEST_F(StoreJournalTest, AStoreThatLostItsLastPutsGetsAllRecordsAgain) {
  for (int lost = 1; lost < 8; ++lost) {
    ASSERT_THAT(store_.Clear(), IsOk());
    {
      const auto journal = Open();
      for (int i = 0; i < 5; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
      store_.LoseLast(lost);
      ASSERT_THAT(journal->Append({Push(5)}), IsOk()) << lost;
    }
    EXPECT_EQ(Read(*Open()).size(), 6u) << lost;
  }
}

TEST_F(StoreJournalTest, AStoreEmptiedDuringACompactionLosesNothing) {
  {
    const auto journal = Open();
    for (int i = 0; i < 20; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
    ASSERT_THAT(journal->BeginCompaction(All), IsOk());
    ASSERT_THAT(store_.Clear(), IsOk());
    EXPECT_THAT(journal->FinishCompaction({State(1)}),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has lost the journal")));
    ASSERT_THAT(journal->BeginCompaction(All), IsOk());
    ASSERT_THAT(store_.Clear(), IsOk());
    ASSERT_THAT(journal->Append({Push(20)}), IsOk());
    EXPECT_THAT(journal->FinishCompaction({State(1)}),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("was begun anew")));
    ASSERT_THAT(Compact(journal.get(), State(2)), IsOk());
  }
  EXPECT_EQ(Read(*Open()).size(), 22u);
}

TEST_F(StoreJournalTest, AFailedAppendThatTakesEffectLateIsIgnored) {
  {
    const auto journal = Open();
    ASSERT_THAT(journal->Append({Push(1)}), IsOk());
    store_.set_failing(1);
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(journal->Append({Push(2)}), StatusIs(absl::StatusCode::kUnavailable));
    }
    store_.set_failing(0);
    ASSERT_THAT(journal->Append({Push(3)}), IsOk());
    store_.TakeEffectLate();
    ASSERT_THAT(journal->Append({Push(4)}), IsOk());
  }
  EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "push 3", "push 4"));
}

TEST_F(StoreJournalTest, AFullStoreLeavesTheJournalUnchanged) {
  {
    const auto journal = Open();
    ASSERT_THAT(journal->Append({Push(1)}), IsOk());
    store_.set_full(true);
    EXPECT_THAT(journal->Append({Push(2)}), StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(Compact(journal.get(), State(1)), StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(Read(*journal), ElementsAre("push 1"));
    store_.set_full(false);
    const int64_t puts = store_.put_count();
    ASSERT_THAT(journal->Append({Push(3)}), IsOk());
    EXPECT_EQ(store_.put_count(), puts + 1) << "nothing is put again";
  }
  EXPECT_THAT(Read(*Open()), ElementsAre("push 1", "push 3"));
}

TEST_F(StoreJournalTest, CompactionLeavesFewerEntriesAndNoOtherValues) {
  const auto journal = Open();
  for (int i = 0; i < 100; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
  ASSERT_THAT(Compact(journal.get(), State(1)), IsOk());
  EXPECT_GT(Entries().size(), 10u);
  EXPECT_LT(Entries().size(), 50u);
  EXPECT_EQ(memory_.List("").value().size(), Entries().size() + 2) << "its head and the owner";
}

TEST_F(StoreJournalTest, DamagedOrMissingEntriesAreRefused) {
  const auto fill = [this] {
    ASSERT_THAT(store_.Clear(), IsOk());
    const auto journal = Open();
    for (int i = 0; i < 20; ++i) ASSERT_THAT(journal->Append({Push(i)}), IsOk());
    ASSERT_THAT(Compact(journal.get(), State(1)), IsOk());
    for (int i = 0; i < 3; ++i) ASSERT_THAT(journal->Append({Push(20 + i)}), IsOk());
  };
  const auto is_refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kDataLoss,
                    AllOf(HasSubstr("the journal in store 'mem:"), HasSubstr(why),
                          HasSubstr("begin a new run")));
  };
  fill();
  ASSERT_THAT(memory_.Delete(Entries()[1]), IsOk());
  EXPECT_THAT(OpenStatus(), is_refused("has no entry 2, but later ones"));
  fill();
  const std::vector<std::string> entries = Entries();
  for (size_t i = 3; i < entries.size(); ++i) ASSERT_THAT(memory_.Delete(entries[i]), IsOk());
  EXPECT_THAT(OpenStatus(), is_refused("has 3 entries of the "));
  fill();
  const std::string head = Entries()[0].substr(0, Entries()[0].rfind('/')) + "/head";
  ASSERT_THAT(memory_.Put(head, {"2 7"}), IsOk());
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("is of another version of the coordinator: it has "
                                               "version 2, this program reads version 1")));
  ASSERT_THAT(memory_.Put(head, {"1 x"}), IsOk());
  EXPECT_THAT(OpenStatus(), is_refused("has a head that cannot be parsed"));
  ASSERT_THAT(memory_.Delete(head), IsOk());
  EXPECT_THAT(OpenStatus(), is_refused("lacks its beginning"));
  fill();
  ASSERT_THAT(memory_.Put(Entries()[2], {"something else"}), IsOk());
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(StoreJournalTest, MustExistRefusesAMissingJournal) {
  options_.must_exist = true;
  EXPECT_THAT(OpenStatus(),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("has no journal of this run"),
                                                          HasSubstr("the store was emptied"))));
  options_.must_exist = false;
  Open();
  options_.must_exist = true;
  EXPECT_THAT(OpenStatus(), IsOk()) << "though nothing was appended";
}

TEST_F(StoreJournalTest, NeverInventsARecord) {
  {
    const auto journal = Open();
    for (int64_t chunk = 0; chunk < 20; ++chunk)
      ASSERT_THAT(journal->Append({Push(chunk)}), IsOk());
    ASSERT_THAT(Compact(journal.get(), State(1)), IsOk());
  }
  const std::vector<std::string> all = Read(*Open());
  const std::vector<std::string> keys = memory_.List(kJournalPrefix).value();
  Fuzz(300, [&](Mutator* mutator) {
    // A store checks its values, so only whole values are mutated: they are missing, or in the place of others.
    MemStore mutant;
    std::string value;
    for (const std::string& key : keys) {
      ASSERT_THAT(memory_.Get(key, &value), IsOk());
      ASSERT_THAT(mutant.Put(key, {absl::string_view(value)}), IsOk());
    }
    const std::string& key = keys[mutator->rng()->UniformInt(keys.size())];
    ASSERT_THAT(memory_.Get(key, &value), IsOk());
    value = mutator->Mutate(value);
    ASSERT_THAT(mutant.Put(key, {absl::string_view(value)}), IsOk());
    StoreJournal::Options options = options_;
    options.store = &mutant;
    const auto journal = StoreJournal::Open(options);
    if (journal.ok()) Read(**journal);
  });
}

TEST(RedisJournalTest, ContinuesWhenRedisWasFullAReplicaOrKilled) {
  RedisServer::Options with_file;
  with_file.append_fsync = "always";
  const auto redis = RedisServer::Start(with_file).value();
  const auto say = [&redis](const std::vector<absl::string_view>& command) {
    ASSERT_THAT(redis->Command(command), IsOk());
  };
  RedisStore::Options server;
  server.server.host = "127.0.0.1";
  server.server.port = redis->port();
  server.prefix = "run";
  const auto store = RedisStore::Create(server).value();
  StoreJournal::Options options;
  options.store = store.get();
  {
    const auto journal = StoreJournal::Open(options).value();
    ASSERT_THAT(journal->Append({Push(1)}), IsOk());
    say({"CONFIG", "SET", "maxmemory", "1"});
    EXPECT_THAT(journal->Append({Push(2)}), StatusIs(absl::StatusCode::kResourceExhausted));
    say({"CONFIG", "SET", "maxmemory", "0"});
    ASSERT_THAT(journal->Append({Push(3)}), IsOk());
    say({"REPLICAOF", "127.0.0.1", "1"});
    EXPECT_THAT(journal->Append({Push(4)}), StatusIs(absl::StatusCode::kUnavailable));
    say({"REPLICAOF", "NO", "ONE"});
    ASSERT_THAT(journal->Append({Push(5)}), IsOk());
    redis->Kill();
    EXPECT_THAT(journal->Append({Push(6)}), StatusIs(absl::StatusCode::kUnavailable));
    ASSERT_THAT(redis->Restart(), IsOk());
    ASSERT_THAT(journal->Append({Push(7)}), IsOk());
  }
  const auto again = StoreJournal::Open(options).value();
  EXPECT_THAT(Read(*again), ElementsAre("push 1", "push 3", "push 5", "push 7"));
}

// The store fails, loses values, is emptied, and does late what it has reported as failed. Processes die at any
// moment, or hang and wake again. Whatever happens, all acknowledged appends are there, in their order, and at most
// one append that was not acknowledged.
TEST_F(StoreJournalTest, EqualsTheModelDespiteFaultsOfTheStore) {
  const uint64_t seed = NewSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  for (uint64_t round = 0; round < 30; ++round) {
    Rng rng(seed, "faults", round);
    MemStore memory;
    FaultyStore store(&memory, seed + round);
    options_.store = &store;
    Records records(&rng);
    Said said;                    // acknowledged
    std::vector<Said> might_say;  // with what was not
    std::unique_ptr<StoreJournal> zombie;
    std::unique_ptr<StoreJournal> journal = Open();
    bool lost = false;  // The store has lost something since the last append.
    for (int i = 0; i < 200; ++i) {
      SCOPED_TRACE(absl::StrCat("round ", round, " step ", i));
      store.set_failing(rng.UniformInt(4) == 0 ? 0.4 : 0);
      switch (rng.UniformInt(20)) {
        case 0: {  // The process dies, or hangs.
          if (lost) break;
          store.set_failing(0);
          if (rng.UniformInt(2) == 0) store.TakeEffectLate();
          std::unique_ptr<StoreJournal> next = Open();
          if (rng.UniformInt(2) == 0) zombie = std::move(journal);
          journal = std::move(next);
          const Said found = SaidBy(*journal);
          might_say.push_back(said);
          ASSERT_THAT(might_say, Contains(found));
          // Records that were not acknowledged may appear until this journal has written something.
          said = found;
          if (zombie == nullptr) break;
          const JournalRecord state = records.NextState();
          ASSERT_THAT(Compact(journal.get(), state), IsOk());
          said.Add(state);
          might_say.clear();
          break;
        }
        case 1:
        case 2: {
          const JournalRecord state = records.NextState();
          const absl::Status compacted = Compact(journal.get(), state);
          might_say.push_back(said);
          might_say.back().Add(state);
          if (compacted.ok()) {
            said = might_say.back();
            might_say.clear();
            lost = false;
          }
          break;
        }
        case 3:  // One who finds no owner may take itself for it, until the owner appends.
          if (zombie != nullptr) break;
          ASSERT_THAT(store.Clear(), IsOk());
          lost = true;
          break;
        case 4:
          if (zombie != nullptr) break;
          store.LoseLast(1 + static_cast<int>(rng.UniformInt(5)));
          lost = true;
          break;
        case 5:
          store.TakeEffectLate();
          break;
        case 6:
        case 7:
          if (zombie == nullptr) break;
          EXPECT_FALSE(zombie->Append({Push(-1)}).ok());
          EXPECT_FALSE(Compact(zombie.get(), State(-1)).ok());
          if (rng.UniformInt(2) == 0) zombie.reset();
          break;
        default: {
          const std::vector<JournalRecord> next = records.Next(said);
          const absl::Status appended = journal->Append(next);
          might_say.push_back(said);
          for (const JournalRecord& record : next) might_say.back().Add(record);
          if (appended.ok()) {
            said = might_say.back();
            might_say.clear();
            lost = false;
          } else {
            ASSERT_THAT(appended, StatusIs(absl::StatusCode::kUnavailable));
          }
        }
      }
      ASSERT_FALSE(HasFailure());
      ASSERT_EQ(SaidBy(*journal), said);
    }
  }
}

}  // namespace
}  // namespace ding
