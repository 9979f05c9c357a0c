#include "ding_worker/replay_buffer/storage/item_book.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  EXPECT_THAT(ItemBook::Create(*store), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("expected rows that are items")));
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
