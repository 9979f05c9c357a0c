#include "ding_worker/replay_buffer/storage/row_memory.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kBlockBytes = 256;
constexpr int64_t kSideBlockBytes = 512;
constexpr int kSlotShift = 2;  // Four slots per side block.

int32_t NewSlot(RowMemory* memory) {
  EXPECT_THAT(memory->ReserveSlots(1), IsOk());
  return memory->TakeSlot();
}

TEST(RowMemory, ReserveAllocatesOnlyWhatIsMissing) {
  RowMemory memory(kBlockBytes, kSideBlockBytes, kSlotShift);
  EXPECT_EQ(memory.allocated_bytes(), 0);
  ASSERT_THAT(memory.ReserveBlocks(3, 0), IsOk());
  ASSERT_THAT(memory.ReserveBlocks(2, 0), IsOk());
  EXPECT_EQ(memory.allocated_bytes(), 3 * kBlockBytes);
  RowMemory::Block block = memory.TakeBlock();
  // Two blocks are spare, and the one in use will be given back.
  ASSERT_THAT(memory.ReserveBlocks(3, 1), IsOk());
  EXPECT_EQ(memory.allocated_bytes(), 3 * kBlockBytes);
  memory.RetireBlock(std::move(block));
  memory.TrimSpareBlocks();
  EXPECT_EQ(memory.allocated_bytes(), kMaxSpareBlocks * kBlockBytes);
  ASSERT_THAT(memory.ReserveSlots(5), IsOk());
  EXPECT_EQ(memory.slots(), 8);
  EXPECT_EQ(memory.allocated_bytes(), kMaxSpareBlocks * kBlockBytes + 2 * kSideBlockBytes);
}

TEST(RowMemory, SlotsDoNotOverlap) {
  RowMemory memory(kBlockBytes, kSideBlockBytes, kSlotShift);
  ASSERT_THAT(memory.TakeFirstSlots(6), IsOk());
  std::set<std::pair<const std::byte*, int64_t>> places;
  for (int32_t slot = 0; slot < 6; ++slot) {
    const RowLocation at = memory.LocateSlot(slot);
    EXPECT_LT(at.row, 4);
    EXPECT_TRUE(places.insert({at.block, at.row}).second) << slot;
  }
  std::set<int32_t> others;
  for (int i = 0; i < 6; ++i) others.insert(NewSlot(&memory));
  EXPECT_EQ(others.size(), 6);
  EXPECT_EQ(*others.begin(), 6);
}

TEST(RowMemory, PinnedBlockIsNotReused) {
  RowMemory memory(kBlockBytes, kSideBlockBytes, kSlotShift);
  ASSERT_THAT(memory.ReserveBlocks(1, 0), IsOk());
  RowMemory::Block block = memory.TakeBlock();
  const std::byte* const first = block.get();
  {
    const RowPin pin = memory.Pin();
    memory.RetireBlock(std::move(block));
    memory.Reclaim();
    ASSERT_THAT(memory.ReserveBlocks(1, 1), IsOk());
    block = memory.TakeBlock();
    EXPECT_NE(block.get(), first);
  }
  memory.Reclaim();
  ASSERT_THAT(memory.ReserveBlocks(1, 0), IsOk());
  EXPECT_EQ(memory.TakeBlock().get(), first);
}

// The model knows which slots each reader may see.
TEST(RowMemory, SlotsVisibleToAReaderAreNotReused) {
  struct Reader {
    RowPin pin;
    std::set<int32_t> sees;
  };
  RowMemory memory(kBlockBytes, kSideBlockBytes, kSlotShift);
  Rng rng(3, "row_memory_test");
  std::set<int32_t> in_use;
  std::vector<Reader> readers;
  for (int step = 0; step < 20000; ++step) {
    switch (rng.UniformInt(5)) {
      case 0:
      case 1: {
        const int32_t slot = NewSlot(&memory);
        EXPECT_TRUE(in_use.insert(slot).second) << slot;
        for (const Reader& reader : readers) EXPECT_EQ(reader.sees.count(slot), 0) << slot;
        break;
      }
      case 2:
        if (in_use.size() > 5) {
          const auto slot = std::next(in_use.begin(), static_cast<int64_t>(rng.UniformInt(5)));
          memory.RetireSlot(*slot);
          in_use.erase(slot);
        }
        break;
      case 3:
        if (readers.size() < 4) {
          readers.push_back({memory.Pin(), in_use});
        } else {
          readers.erase(readers.begin() + static_cast<int64_t>(rng.UniformInt(4)));
        }
        break;
      default:
        memory.Reclaim();
    }
    while (in_use.size() > 40) {
      memory.RetireSlot(*in_use.begin());
      in_use.erase(in_use.begin());
    }
  }
  // Slots are used again after the readers that held them back are gone.
  EXPECT_LT(memory.slots(), 400);
}

}  // namespace
}  // namespace ding
