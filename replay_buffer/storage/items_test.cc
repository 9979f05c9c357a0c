// Tests what all buffers of items have in common, and what they report when items leave.
#include "ding_worker/data/items.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"
#include "ding_worker/replay_buffer/storage/item_book.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "ding_worker/replay_buffer/used_data_remover.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int64_t kCapacity = 10;

struct Settings {
  int64_t capacity_rows = kCapacity;
  int64_t nstep = 1;
  OnRemoved on_removed;
};

template <typename Options>
Options OptionsOf(const Settings& settings) {
  Options options;
  options.capacity_rows = settings.capacity_rows;
  options.nstep = settings.nstep;
  options.on_removed = settings.on_removed;
  return options;
}

struct BufferType {
  std::string name;
  std::function<std::unique_ptr<IBuffer>(const Settings&)> make;
};

void PrintTo(const BufferType& type, std::ostream* out) { *out << type.name; }

std::vector<BufferType> BufferTypes() {
  return {
      {"naive",
       [](const Settings& settings) -> std::unique_ptr<IBuffer> {
         return NaiveReplayBuffer::Create(OptionsOf<NaiveReplayBuffer::Options>(settings)).value();
       }},
      {"advanced",
       [](const Settings& settings) -> std::unique_ptr<IBuffer> {
         return AdvancedReplayBuffer::Create(OptionsOf<AdvancedReplayBuffer::Options>(settings))
             .value();
       }},
      // Its capacity counts the rows of items, and each of these has four.
      {"episode",
       [](const Settings& settings) -> std::unique_ptr<IBuffer> {
         Settings in_rows = settings;
         in_rows.capacity_rows *= 4;
         return EpisodeReplayBuffer::Create(OptionsOf<EpisodeReplayBuffer::Options>(in_rows))
             .value();
       }},
      {"elastic", [](const Settings& settings) -> std::unique_ptr<IBuffer> {
         ElasticReplayBuffer::Options options;
         options.ring = OptionsOf<NaiveReplayBuffer::Options>(settings);
         options.window_rows = [](int64_t) { return kCapacity; };
         return ElasticReplayBuffer::Create(std::move(options)).value();
       }}};
}

// Records what any thread reports.
class Told {
 public:
  OnRemoved callback() {
    return [this](const RemovedItems& removed) {
      MutexLock lock(&mutex_);
      for (const Item& item : removed.items) rows_[item.chunk].push_back(item.row);
      chunks_.insert(chunks_.end(), removed.chunks.begin(), removed.chunks.end());
    };
  }
  // The rows of the items of `chunk`, in the order in which they were reported.
  std::vector<int64_t> RowsOf(int64_t chunk) const {
    MutexLock lock(&mutex_);
    const auto it = rows_.find(chunk);
    return it == rows_.end() ? std::vector<int64_t>() : it->second;
  }
  std::vector<int64_t> chunks() const {
    MutexLock lock(&mutex_);
    return chunks_;
  }

 private:
  mutable Mutex mutex_;
  std::map<int64_t, std::vector<int64_t>> rows_ ABSL_GUARDED_BY(mutex_);  // by chunk
  std::vector<int64_t> chunks_ ABSL_GUARDED_BY(mutex_);
};

class BufferOfItems : public testing::TestWithParam<BufferType> {};
INSTANTIATE_TEST_SUITE_P(AllTypes, BufferOfItems, testing::ValuesIn(BufferTypes()));

TEST_P(BufferOfItems, DrawsItemsAsPushed) {
  const std::unique_ptr<IBuffer> buffer = GetParam().make({});
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(17, 7, /*collect_iter=*/3), 0), IsOk());
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(18, 5, /*collect_iter=*/4), 0), IsOk());
  EXPECT_EQ(buffer->count(), kCapacity);
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(8, /*cur_learner_iter=*/9));
  for (const char* const name : {"next_obs", "discount", "n_step", "reward"}) {
    EXPECT_FALSE(batch.spec().Find(name).has_value()) << name;
  }
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t id = batch.column<int64_t>("replay_unique_id")[i];
    ASSERT_GE(id, 2);
    ASSERT_LT(id, 12);
    EXPECT_EQ(batch.column<int64_t>("chunk")[i], id < 7 ? 17 : 18);
    EXPECT_EQ(batch.column<int64_t>("row")[i], id < 7 ? 4 * id : 4 * (id - 7));
    EXPECT_EQ(batch.column<int64_t>("length")[i], 4);
    EXPECT_EQ(batch.column<int64_t>("collect_iter")[i], id < 7 ? 3 : 4);
    EXPECT_EQ(batch.column<int32_t>("collector")[i], id < 7 ? 7 : 8);
  }
  SampleOptions newest;
  newest.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch last, buffer->Sample(1, 9, newest));
  EXPECT_THAT(last.column<int64_t>("row"), ElementsAre(16));
}

TEST_P(BufferOfItems, SavesAndLoadsItems) {
  const std::unique_ptr<IBuffer> buffer = GetParam().make({});
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(17, 14), 0), IsOk());
  StateDict saved;
  ASSERT_THAT(buffer->SaveState(&saved), IsOk());
  const std::unique_ptr<IBuffer> loaded = GetParam().make({});
  ASSERT_THAT(loaded->LoadState(&saved), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch expected, buffer->Sample(8, 0));
  DING_ASSERT_OK_AND_ASSIGN(const Batch found, loaded->Sample(8, 0));
  EXPECT_EQ(found.column<int64_t>("row"), expected.column<int64_t>("row"));
  EXPECT_THAT(found.column<int64_t>("chunk"), Each(17));
}

TEST_P(BufferOfItems, NStepReturnsOfItemsAreRefused) {
  Settings settings;
  settings.nstep = 3;
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  EXPECT_THAT(buffer->Push(TestItemsOfChunk(1, 2), 0),
              IsInvalid("nstep is 3, expected 1: the rows are items"));
  EXPECT_EQ(buffer->count(), 0);
  // The refused push has not determined the spec.
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
}

TEST_P(BufferOfItems, RefusesRowsThatAreNotItems) {
  Told told;
  Settings settings;
  settings.on_removed = told.callback();
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 3}}), 0),
              IsInvalid("on_removed is set, expected rows that are items"));
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, kCapacity), 0), IsOk());
  EXPECT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsInvalid("chunk"));
  EXPECT_THAT(told.RowsOf(1), IsEmpty());
}

TEST_P(BufferOfItems, ReportsOverwrittenAndClearedItems) {
  Told told;
  Settings settings;
  settings.on_removed = told.callback();
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, 3), 0), IsOk());
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(2, 7), 0), IsOk());
  EXPECT_THAT(told.RowsOf(1), IsEmpty());
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(3, 2), 0), IsOk());
  EXPECT_THAT(told.RowsOf(1), ElementsAre(0, 4));
  EXPECT_THAT(told.chunks(), IsEmpty());
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(4, 1), 0), IsOk());
  EXPECT_THAT(told.RowsOf(1), ElementsAre(0, 4, 8));
  EXPECT_THAT(told.chunks(), ElementsAre(1));
  // Two of these are never in the ring.
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(5, 12), 0), IsOk());
  EXPECT_THAT(told.chunks(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(told.RowsOf(5), ElementsAre(0, 4));
  buffer->Clear();
  EXPECT_THAT(told.chunks(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(told.RowsOf(5), ElementsAre(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44));
  buffer->Clear();
  EXPECT_THAT(told.chunks(), ElementsAre(1, 2, 3, 4, 5));
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(6, 11), 0), IsOk());
  EXPECT_THAT(told.RowsOf(6), ElementsAre(0));
}

TEST_P(BufferOfItems, CallbackMayCallTheBuffer) {
  IBuffer* told_by = nullptr;
  std::vector<int64_t> counts;
  Settings settings;
  settings.on_removed = [&](const RemovedItems&) {
    counts.push_back(told_by->count());
    if (counts.size() > 1) return;
    EXPECT_THAT(told_by->Push(TestItemsOfChunk(3, 1), 0), IsOk());
  };
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  told_by = buffer.get();
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, 11), 0), IsOk());
  buffer->Clear();
  EXPECT_THAT(counts, ElementsAre(10, 10, 0));
}

TEST_P(BufferOfItems, LoadedBufferReportsOnlyTheChunksItLoaded) {
  Told told_before;
  Settings settings;
  settings.on_removed = told_before.callback();
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, 6), 0), IsOk());
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(2, 6), 0), IsOk());
  StateDict saved;
  ASSERT_THAT(buffer->SaveState(&saved), IsOk());

  Told told;
  settings.on_removed = told.callback();
  const std::unique_ptr<IBuffer> loaded = GetParam().make(settings);
  ASSERT_THAT(loaded->Push(TestItemsOfChunk(9, 6), 0), IsOk());
  ASSERT_THAT(loaded->LoadState(&saved), IsOk());
  EXPECT_THAT(told.RowsOf(9), IsEmpty());
  ASSERT_THAT(loaded->Push(TestItemsOfChunk(3, 4), 0), IsOk());
  EXPECT_THAT(told.RowsOf(1), ElementsAre(8, 12, 16, 20));
  EXPECT_THAT(told.chunks(), ElementsAre(1));
  loaded->Clear();
  EXPECT_THAT(told.chunks(), ElementsAre(1, 2, 3));
}

// The counterpart of the original's test "naive track used", with one file per item.
class TrackUsed : public BufferOfItems {
 protected:
  static std::string FileOf(int64_t chunk) { return absl::StrCat("chunk_", chunk); }

  // Pushes 18 items and calls `use`. Returns the chunks of [0, 18) whose files are left.
  std::vector<int64_t> Left(const Settings& settings, const std::function<void(IBuffer*)>& use) {
    const std::string folder = FreshTestFolder();
    UsedDataRemover remover(DeleteFilesIn(folder));
    Settings tracked = settings;
    tracked.on_removed = [&remover](const RemovedItems& removed) {
      for (const int64_t chunk : removed.chunks) remover.Add(FileOf(chunk));
    };
    const std::unique_ptr<IBuffer> buffer = GetParam().make(tracked);
    for (int64_t chunk = 0; chunk < 18; ++chunk) {
      EXPECT_THAT(WriteFileAtomically(JoinPath(folder, FileOf(chunk)), "rows"), IsOk());
      EXPECT_THAT(buffer->Push(TestItemsOfChunk(chunk, 1), chunk), IsOk());
    }
    use(buffer.get());
    EXPECT_THAT(remover.Close(), IsOk());
    std::vector<int64_t> left;
    for (int64_t chunk = 0; chunk < 18; ++chunk) {
      if (PathExists(JoinPath(folder, FileOf(chunk)))) left.push_back(chunk);
    }
    return left;
  }
};
INSTANTIATE_TEST_SUITE_P(AllTypes, TrackUsed, testing::ValuesIn(BufferTypes()));

TEST_P(TrackUsed, FilesAreDeletedWithTheirItems) {
  EXPECT_THAT(Left({}, [](IBuffer*) {}), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15, 16, 17));
  EXPECT_THAT(Left({}, [](IBuffer* buffer) { buffer->Clear(); }), IsEmpty());
}

// Chunk and row of each drawn item.
std::set<std::pair<int64_t, int64_t>> Places(const Batch& batch) {
  std::set<std::pair<int64_t, int64_t>> places;
  for (int64_t i = 0; i < batch.rows(); ++i) {
    places.emplace(batch.column<int64_t>("chunk")[i], batch.column<int64_t>("row")[i]);
  }
  return places;
}

TEST(AdvancedBufferOfItems, ReportsUsedUpItemsOnce) {
  Told told;
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = kCapacity;
  options.max_use = 1;
  options.on_removed = told.callback();
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, AdvancedReplayBuffer::Create(options));
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, kCapacity), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 0));
  std::set<std::pair<int64_t, int64_t>> used;
  for (const int64_t row : told.RowsOf(1)) EXPECT_TRUE(used.emplace(1, row).second) << row;
  EXPECT_EQ(used, Places(batch));
  EXPECT_THAT(told.chunks(), IsEmpty());

  // A buffer that loads the state saved now does not report them again either.
  StateDict saved;
  ASSERT_THAT(buffer->SaveState(&saved), IsOk());
  Told told_later;
  options.on_removed = told_later.callback();
  DING_ASSERT_OK_AND_ASSIGN(const auto loaded, AdvancedReplayBuffer::Create(options));
  ASSERT_THAT(loaded->LoadState(&saved), IsOk());
  for (const auto& [again, tells] :
       {std::make_pair(buffer.get(), &told), std::make_pair(loaded.get(), &told_later)}) {
    ASSERT_THAT(again->Push(TestItemsOfChunk(2, kCapacity), 0), IsOk());
    EXPECT_THAT(tells->chunks(), ElementsAre(1));
  }
  EXPECT_THAT(told.RowsOf(1), UnorderedElementsAre(0, 4, 8, 12, 16, 20, 24, 28, 32, 36));
  EXPECT_EQ(told_later.RowsOf(1).size(), kCapacity - used.size());
}

TEST(AdvancedBufferOfItems, FilesOfUsedUpItemsAreDeleted) {
  const std::string folder = FreshTestFolder();
  UsedDataRemover remover(DeleteFilesIn(folder));
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = kCapacity;
  options.max_use = 2;
  options.on_removed = [&remover](const RemovedItems& removed) {
    for (const int64_t chunk : removed.chunks) remover.Add(absl::StrCat(chunk));
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, AdvancedReplayBuffer::Create(options));
  for (int64_t chunk = 0; chunk < kCapacity; ++chunk) {
    ASSERT_THAT(WriteFileAtomically(JoinPath(folder, absl::StrCat(chunk)), "rows"), IsOk());
    ASSERT_THAT(buffer->Push(TestItemsOfChunk(chunk, 1), chunk), IsOk());
  }
  ASSERT_THAT(buffer->Sample(kCapacity, 0), IsOk());
  ASSERT_THAT(buffer->Sample(6, 0), IsOk());
  ASSERT_THAT(remover.Close(), IsOk());
  EXPECT_EQ(remover.deleted(), buffer->counters().retired_by_use);
  EXPECT_GT(remover.deleted(), 0);
  std::set<std::pair<int64_t, int64_t>> left;
  for (int64_t chunk = 0; chunk < kCapacity; ++chunk) {
    if (PathExists(JoinPath(folder, absl::StrCat(chunk)))) left.emplace(chunk, 0);
  }
  EXPECT_EQ(static_cast<int64_t>(left.size()), buffer->count());
  SampleOptions all;
  all.replace = true;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1000, 0, all));
  EXPECT_EQ(Places(batch), left);
}

TEST(AdvancedBufferOfItems, ReportsStaleItemsOnceEvenIfTheDrawIsRefused) {
  Told told;
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = kCapacity;
  options.max_staleness = 5;
  options.on_removed = told.callback();
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, AdvancedReplayBuffer::Create(options));
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, 3, /*collect_iter=*/10), 0), IsOk());
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(2, 2, /*collect_iter=*/12), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(5, /*cur_learner_iter=*/14));
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(batch.column<int64_t>("staleness")[i],
              batch.column<int64_t>("chunk")[i] == 1 ? 4 : 2);
  }
  EXPECT_THAT(told.chunks(), IsEmpty());
  EXPECT_THAT(buffer->Sample(5, 15), IsFailedPrecondition());
  EXPECT_THAT(told.RowsOf(1), ElementsAre(0, 4, 8));
  EXPECT_THAT(told.chunks(), ElementsAre(1));
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(3, kCapacity, 15), 0), IsOk());
  EXPECT_THAT(told.RowsOf(1), ElementsAre(0, 4, 8));
  EXPECT_THAT(told.chunks(), ElementsAre(1, 2));
}

TEST(AdvancedBufferOfItems, ReportsEachItemOnceFromAnyThread) {
  constexpr int64_t kChunks = 300;
  constexpr int64_t kItems = 7;
  Told told;
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = 50;
  options.max_use = 2;
  options.max_staleness = 20;
  options.on_removed = told.callback();
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, AdvancedReplayBuffer::Create(options));
  const auto push = [&buffer](int64_t first) {
    for (int64_t chunk = first; chunk < kChunks; chunk += 2) {
      EXPECT_THAT(buffer->Push(TestItemsOfChunk(chunk, kItems, /*collect_iter=*/chunk), 0), IsOk());
    }
  };
  std::thread even([&] { push(0); });
  std::thread odd([&] { push(1); });
  std::thread drawer([&buffer] {
    for (int64_t iter = 0; iter < kChunks; ++iter) {
      buffer->Sample(4, iter).IgnoreError();
      if (iter % 50 == 49) buffer->Clear();
    }
  });
  even.join();
  odd.join();
  drawer.join();
  buffer->Clear();
  std::vector<int64_t> chunks = told.chunks();
  std::sort(chunks.begin(), chunks.end());
  ASSERT_EQ(static_cast<int64_t>(chunks.size()), kChunks);
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_EQ(chunks[static_cast<size_t>(chunk)], chunk);
    EXPECT_THAT(told.RowsOf(chunk), UnorderedElementsAre(0, 4, 8, 12, 16, 20, 24));
  }
}

std::unique_ptr<RowStore> StoreOf(const SegmentBatch& data, int64_t capacity_rows) {
  return RowStore::Create(data.rows.spec_ptr(), data.final_obs.spec().size(),
                          RowCapacity{capacity_rows})
      .value();
}

TEST(ChunkReferences, RemoveReportsTheLastItemOfAChunk) {
  ChunkReferences references;
  references.Add(7, 1);
  references.Add(8, 2);
  references.Add(7, 1);
  EXPECT_EQ(references.chunks(), 2);
  EXPECT_FALSE(references.Remove(7, 1));
  EXPECT_TRUE(references.Remove(8, 2));
  EXPECT_TRUE(references.Remove(7, 1));
  EXPECT_EQ(references.chunks(), 0);
  EXPECT_DEATH(references.Remove(7, 1), "too few items of chunk 7");
}

TEST(ItemBook, NewItemsAreAddedBeforeOldOnesAreRemoved) {
  const std::unique_ptr<RowStore> store = StoreOf(TestItemsOfChunk(1, 1), 4);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ItemBook> held, ItemBook::Create(*store));
  RemovedItems removed;
  held->Append(TestItemsOfChunk(1, 2).rows, 0, 2, &removed);
  EXPECT_THAT(removed.items, IsEmpty());
  // The first two items of chunk 1 leave, but its third arrives in the same push.
  held->Append(TestItems({{1, 8, 4}, {2, 0, 4}}).rows, 2, 4, &removed);
  EXPECT_THAT(removed.items, ElementsAre(Item{1, 0, 4}, Item{1, 4, 4}));
  EXPECT_THAT(removed.chunks, IsEmpty());
}

TEST(ItemBook, StartsWithTheRowsOfTheStore) {
  const SegmentBatch items = TestItems({{1, 0, 1}, {1, 1, 2}, {3, 0, 4}});
  const std::unique_ptr<RowStore> store = StoreOf(items, 2);
  ASSERT_THAT(store->Append(items), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ItemBook> held, ItemBook::Create(*store));
  RemovedItems removed;
  held->Clear(&removed);
  EXPECT_THAT(removed.items, ElementsAre(Item{1, 1, 2}, Item{3, 0, 4}));
  EXPECT_THAT(removed.chunks, ElementsAre(1, 3));
}

TEST(ItemBook, RefusesRowsThatAreNotItems) {
  TestStreams streams;
  const std::unique_ptr<RowStore> store = StoreOf(streams.Make({{0, 1}}), 4);
  EXPECT_THAT(ItemBook::Create(*store), IsInvalid("expected rows that are items"));
}

// A model of ItemBook: a plain list of items, any of which may have left.
class ListOfItems {
 public:
  explicit ListOfItems(int64_t capacity) : capacity_(capacity) {}

  int64_t begin() const { return begin_; }
  int64_t end() const { return static_cast<int64_t>(items_.size()); }
  void Append(int64_t chunk, int64_t size, RemovedItems* removed) {
    for (int64_t i = 0; i < size; ++i) items_.push_back({{chunk, 4 * i, 4}, true});
    begin_ = std::max(begin_, end() - capacity_);
    Remove(0, begin_, removed);
  }
  void Remove(int64_t begin, int64_t end, RemovedItems* removed) {
    for (int64_t id = begin; id < end; ++id) {
      auto& [item, there] = items_[static_cast<size_t>(id)];
      if (!std::exchange(there, false)) continue;
      removed->items.push_back(item);
      if (!HasItemOf(item.chunk)) removed->chunks.push_back(item.chunk);
    }
  }

 private:
  bool HasItemOf(int64_t chunk) const {
    return std::any_of(items_.begin(), items_.end(), [chunk](const auto& entry) {
      return entry.second && entry.first.chunk == chunk;
    });
  }

  const int64_t capacity_;
  int64_t begin_ = 0;
  std::vector<std::pair<Item, bool>> items_;  // by id; the flag says whether it is still held
};

TEST(ItemBook, EachItemLeavesOnceAndEachChunkWithItsLastItem) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed, "item_book");
    ListOfItems expected(32);
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ItemBook> held,
                              ItemBook::Create(*StoreOf(TestItemsOfChunk(0, 1), 32)));
    for (int step = 0; step < 300; ++step) {
      RemovedItems removed;
      RemovedItems expected_removed;
      if (rng.UniformInt(3) == 0 || expected.end() == 0) {
        // There are few different chunks, so that they lose their last item and get items again.
        const auto chunk = static_cast<int64_t>(rng.UniformInt(5));
        const auto size = static_cast<int64_t>(rng.UniformInt(40)) + 1;
        expected.Append(chunk, size, &expected_removed);
        held->Append(TestItemsOfChunk(chunk, size).rows, expected.begin(), expected.end(),
                     &removed);
      } else {
        const auto from =
            static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(expected.end())));
        const int64_t to = std::min(expected.end(), from + static_cast<int64_t>(rng.UniformInt(4)));
        expected.Remove(from, to, &expected_removed);
        held->Remove(from, to, &removed);
      }
      ASSERT_EQ(removed.items, expected_removed.items) << "step " << step;
      ASSERT_EQ(removed.chunks, expected_removed.chunks) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace ding
