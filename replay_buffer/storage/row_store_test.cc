#include "ding_worker/replay_buffer/storage/row_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"
#include "ding_worker/replay_buffer/storage/row_memory.h"
#include "ding_worker/replay_buffer/storage/row_store_state.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

std::unique_ptr<RowStore> Make(int64_t capacity_rows) {
  return RowStore::Create(TestStreams::RowSpec(), 2, {capacity_rows}).value();
}

// {stream, step, episode, steps into the episode} at a place of the store.
std::vector<float> Place(const RowStore& store, const RowLocation& at) {
  std::vector<float> place(4);
  std::memcpy(place.data(), store.At(at, 0), 16);
  return place;
}

int64_t ColumnBytes() { return TestStreams::RowSpec()->row_bytes(); }

TEST(RowStore, RefusesCapacityOutOfRange) {
  EXPECT_THAT(RowStore::Create(TestStreams::RowSpec(), 2, {0}), IsInvalid("capacity of 0 rows"));
  EXPECT_THAT(RowStore::Create(TestStreams::RowSpec(), 2, {kMaxCapacityRows + 1}),
              IsInvalid("expected 1 to 536870912"));
}

TEST(RowStore, KeepsTheNewestRowsOfAPushLargerThanTheStore) {
  const auto store = Make(10);
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 7}})), IsOk());
  ASSERT_THAT(store->Append(streams.Make({{1, 5}, {0, 100}, {2, 3}})), IsOk());
  EXPECT_EQ(store->begin_id(), 105);
  EXPECT_EQ(store->end_id(), 115);
  EXPECT_THAT(Place(*store, store->Locate(105)), ElementsAre(0, 100, 0, 100));
  EXPECT_EQ(store->Next(105).id, 106);
  EXPECT_EQ(store->Next(111).id, -1);
  ASSERT_THAT(store->Append(streams.Make({{1, 1}, {0, 1}})), IsOk());
  EXPECT_EQ(store->Next(111).id, 116);
  EXPECT_EQ(store->Next(115).id, -1);
}

// Such a push is copied part by part.
TEST(RowStore, KeepsEachRowOfALargePush) {
  const auto store = Make(20000);
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 7}, {1, 9990}, {0, 5003}})), IsOk());
  for (int64_t id = 0; id < 15000; ++id) {
    const bool other = id >= 7 && id < 9997;
    const auto step = static_cast<float>(id < 7 ? id : other ? id - 7 : id - 9990);
    ASSERT_THAT(Place(*store, store->Locate(id)), ElementsAre(other ? 1 : 0, step, 0, step)) << id;
  }
  EXPECT_EQ(store->Next(6).id, 9997);
  EXPECT_EQ(store->Next(14998).id, 14999);
}

// The rows that a reader has located do not change while it holds its pin, whatever is evicted,
// linked or cleared.
TEST(RowStore, PinnedRowsAreNotOverwritten) {
  const auto store = Make(16);
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1, 15}})), IsOk());
  RowPin pin = store->Pin();
  const RowLocation row = store->Locate(0);
  const RowLocation after = store->Next(0).obs;
  for (int i = 0; i < 50; ++i) {
    ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1, 3, SegmentEnd::kTerminated}})), IsOk());
    EXPECT_THAT(Place(*store, row), ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(Place(*store, after), ElementsAre(0, 1, 0, 1));
  }
  store->Clear();
  ASSERT_THAT(store->Append(streams.Make({{0, 16}})), IsOk());
  EXPECT_THAT(Place(*store, row), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Place(*store, after), ElementsAre(0, 1, 0, 1));
}

TEST(RowStore, MemoryHeldBackByPinsIsReused) {
  const auto store = Make(16);
  TestStreams streams;
  const auto push = [&] {
    ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1, 3, SegmentEnd::kTerminated}})), IsOk());
  };
  for (int i = 0; i < 20; ++i) push();
  const int64_t quiet = store->allocated_bytes();
  {
    // Readers overlap: there is always one, but none stays.
    std::optional<RowPin> pins[2];
    for (int i = 0; i < 1000; ++i) {
      pins[i % 2].emplace(store->Pin());
      push();
    }
    EXPECT_LT(store->allocated_bytes(), 3 * quiet);
    for (int i = 0; i < 100; ++i) push();  // Now both readers stay.
    EXPECT_GT(store->allocated_bytes(), 3 * quiet);
  }
  push();
  // Side blocks are kept for the next peak.
  const int64_t after = store->allocated_bytes();
  for (int i = 0; i < 1000; ++i) push();
  EXPECT_EQ(store->allocated_bytes(), after);
}

TEST(RowStore, ARowTakesItsColumnsAndAtMostSixteenBytes) {
  constexpr int64_t kCapacity = 50000;
  const auto store = Make(kCapacity);
  TestStreams streams;
  EXPECT_EQ(store->allocated_bytes(), 0);  // Nothing is allocated before the first row.
  for (int64_t rows = 0; rows < 3 * kCapacity; rows += 800) {
    std::vector<SegmentPlan> plans(8);
    for (int64_t s = 0; s < 8; ++s) {
      plans[s] = {s, 100, rows % 1600 == 0 ? SegmentEnd::kCut : SegmentEnd::kTerminated};
    }
    ASSERT_THAT(store->Append(streams.Make(plans)), IsOk());
  }
  // A block is at most an eighth of the store. One at each end is partly used, and two are spare.
  const int64_t block = kCapacity / 8 * (ColumnBytes() + 16);
  EXPECT_LE(store->allocated_bytes(), kCapacity * (ColumnBytes() + 16) + 4 * block);
}

// `rows` rows of `streams` streams, all with empty frames: each stack is the previous one shifted.
SegmentBatch EmptyFrames(int64_t step, int64_t streams, int64_t rows) {
  FieldSpec obs = Scalar("obs", DType::kUint8);
  obs.shape = {4, 16, 16};
  obs.frame_stack_axis = 0;
  const SpecPtr spec = MakeSpec({obs, Scalar("reward", DType::kFloat32)}).value();
  const auto zeros = [](const SpecPtr& of, int64_t count) {
    BatchBuilder builder = BatchBuilder::Create(of, count).value();
    for (int i = 0; i < of->size(); ++i) {
      std::memset(builder.view().raw_column(i), 0, static_cast<size_t>(count * of->row_bytes(i)));
    }
    return std::move(builder).Seal(count);
  };
  SegmentBatch data;
  data.rows = zeros(spec, rows);
  data.final_obs = zeros(MakeSpec({obs}).value(), streams);
  const int64_t length = rows / streams;
  for (int64_t s = 0; s < streams; ++s) {
    data.segments.push_back({s, step, s * length, length, SegmentEnd::kCut});
  }
  return data;
}

TEST(RowStore, ARowTakesOneFrameOfItsStack) {
  constexpr int64_t kCapacity = 20000;
  constexpr int64_t kRowBytes = 256 + 4 + 16;
  const SpecPtr spec = EmptyFrames(0, 1, 1).rows.spec_ptr();
  const auto store = RowStore::Create(spec, 1, {kCapacity}).value();
  for (int64_t step = 0; step < 20000; step += 100) {
    ASSERT_THAT(store->Append(EmptyFrames(step, 4, 400)), IsOk());
  }
  // A block and a side block are at most an eighth of the store, and here not more than 1 MB. One
  // block at each end is partly used, two are spare, and one side block is for the open streams.
  EXPECT_LE(store->allocated_bytes(), kCapacity * kRowBytes + 5 * (int64_t{1} << 20));
}

// The side slot of a row with a stack of its own is given back with the row, however the row
// leaves.
TEST(RowStore, SideSlotsOfStacksAreGivenBack) {
  const auto store = RowStore::Create(TestStreams::RowSpec(true), 4, {64}).value();
  TestStreams streams(0, true);
  int64_t early = 0;
  for (int round = 0; round < 3000; ++round) {
    // Some streams pause for long; now and then a push is larger than the store.
    ASSERT_THAT(store->Append(streams.Make({{0, 1}, {1 + round / 40 % 3, 2}, {9, 1}})), IsOk());
    if (round % 7 == 0) {
      ASSERT_THAT(store->Append(streams.Make({{5, 2, SegmentEnd::kTerminated}, {5, 3}})), IsOk());
    }
    if (round % 50 == 49) {
      ASSERT_THAT(store->Append(streams.Make({{7, 100}})), IsOk());
    }
    if (round % 9 == 8) {
      store->Clear();
      ASSERT_THAT(store->Append(streams.Make({{1, 2}})), IsOk());
      ASSERT_THAT(store->Append(streams.Make({{7, 65}})), IsOk());
    }
    if (round == 300) early = store->allocated_bytes();
  }
  EXPECT_LE(store->allocated_bytes(), 2 * early);
}

TEST(RowStore, UsesAndKeepsItsCapacityInBytes) {
  const SpecPtr stacks = EmptyFrames(0, 1, 1).rows.spec_ptr();
  for (int64_t bytes = 1500; bytes < 40'000'000; bytes = bytes * 5 / 3) {
    SCOPED_TRACE(absl::StrCat(bytes, " bytes"));
    for (const int64_t owner_bytes : {0, 14}) {
      const auto store = RowStore::Create(stacks, 1, {0, bytes, owner_bytes}).value();
      const int64_t capacity = store->capacity_rows();
      EXPECT_GE(capacity, 1);
      // In small stores the blocks' alignment takes a good part, in others the spare blocks do.
      if (bytes > 100000) {
        EXPECT_GT(capacity * (256 + 4 + 8 + owner_bytes), bytes / 3 * 2);
      }
      int64_t most = 0;
      for (int64_t step = 0; step < 3 * capacity; step += 1 + capacity / 7) {
        ASSERT_THAT(store->Append(EmptyFrames(step, 1, 1 + capacity / 7)), IsOk());
        most = std::max(most, store->allocated_bytes());
      }
      EXPECT_EQ(store->size(), capacity);
      const int64_t side_block = int64_t{1} << 20;
      EXPECT_LE(most + capacity * owner_bytes, bytes + side_block);
    }
  }
  EXPECT_THAT(RowStore::Create(stacks, 1, {0, 1151, 0}),
              IsInvalid("capacity of 1151 bytes holds no row: one takes 3 blocks (2 of "
                        "them spare) of 448 bytes + 0 bytes = 1344 bytes"));
  EXPECT_THAT(RowStore::Create(stacks, 1, {0, int64_t{1} << 50}),
              IsResourceExhausted("capacity of 1125899906842624 bytes = 1125899.9 GB is more than "
                                  "the memory of"));
}

TEST(RowStore, RefusesOtherFieldsByName) {
  const auto store = Make(64);
  TestStreams streams;
  SegmentBatch push = streams.Make({{0, 1}});
  EXPECT_THAT(store->CheckLayout(push, "main"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr one, MakeSpec({Box("obs/place", {4})}));
  DING_ASSERT_OK_AND_ASSIGN(BatchBuilder final_obs, BatchBuilder::Create(one, 1));
  push.final_obs = std::move(final_obs).Seal(1);
  EXPECT_THAT(store->CheckLayout(push, "main"),
              IsInvalid("main: final_obs has 1 fields, expected 2"));
}

// A row as the model keeps it: the bytes of all fields, and what followed it when it was pushed.
struct ModelRow {
  std::vector<std::string> fields;
  int64_t stream;
  int64_t step;
  SegmentEnd end;
  std::vector<std::string> after;  // the observation, if the row is the last of its segment
};

std::vector<std::string> FieldsOf(const ColumnsView& rows, int64_t row) {
  std::vector<std::string> fields;
  for (int field = 0; field < rows.spec().size(); ++field) {
    const int64_t bytes = rows.spec().row_bytes(field);
    fields.emplace_back(reinterpret_cast<const char*>(rows.raw_column(field)) + row * bytes,
                        static_cast<size_t>(bytes));
  }
  return fields;
}

void AddTo(std::deque<ModelRow>* model, const SegmentBatch& data) {
  for (size_t i = 0; i < data.segments.size(); ++i) {
    const Segment& segment = data.segments[i];
    for (int64_t row = 0; row < segment.length; ++row) {
      const bool last = row + 1 == segment.length;
      model->push_back({FieldsOf(data.rows.view(), segment.begin + row), segment.stream,
                        segment.first_step + row, last ? segment.end : SegmentEnd::kCut,
                        last ? FieldsOf(data.final_obs.view(), static_cast<int64_t>(i))
                             : std::vector<std::string>()});
    }
  }
}

// Returns the successor of the model's row `index`, found by search; -1: none.
int64_t SuccessorIn(const std::deque<ModelRow>& model, size_t index) {
  const ModelRow& row = model[index];
  for (size_t next = index + 1; next < model.size(); ++next) {
    if (model[next].stream != row.stream) continue;
    const bool goes_on = row.end == SegmentEnd::kCut && model[next].step == row.step + 1;
    return goes_on ? static_cast<int64_t>(next) : -1;
  }
  return -1;
}

// Fields [0, fields) of a row, or of the observation after it, as a draw would gather them.
template <typename FramesOf>
std::vector<std::string> Gathered(const RowStore& store, const RowLocation& at,
                                  const FramesOf& frames_of, int fields) {
  std::vector<FrameLocation> frames(static_cast<size_t>(store.frames_per_row()));
  store.LocateFrames(frames_of, absl::MakeSpan(frames));
  std::vector<std::string> gathered;
  for (int field = 0; field < fields; ++field) {
    std::string bytes(static_cast<size_t>(store.spec()->row_bytes(field)), 0);
    auto* const to = reinterpret_cast<std::byte*>(&bytes[0]);
    if (store.IsStack(field)) {
      store.GatherStacks(field, frames, to);
    } else {
      store.Gather(field, {at}, to);
    }
    gathered.push_back(std::move(bytes));
  }
  return gathered;
}

void ExpectSame(const RowStore& store, const std::deque<ModelRow>& model) {
  ASSERT_EQ(store.size(), static_cast<int64_t>(model.size()));
  for (size_t i = 0; i < model.size(); ++i) {
    const int64_t id = store.begin_id() + static_cast<int64_t>(i);
    ASSERT_EQ(Gathered(store, store.Locate(id), id, store.spec()->size()), model[i].fields)
        << "row " << id;
    const RowSuccessor found = store.Next(id);
    const int64_t next = SuccessorIn(model, i);
    ASSERT_EQ(found.id, next < 0 ? -1 : store.begin_id() + next) << "row " << id;
    ASSERT_EQ(found.end, model[i].end) << "row " << id;
    std::vector<std::string> after =
        next < 0 ? model[i].after : model[static_cast<size_t>(next)].fields;
    after.resize(static_cast<size_t>(store.obs_fields()));
    ASSERT_EQ(Gathered(store, found.obs, found, store.obs_fields()), after) << "row " << id;
  }
}

// Compares stores, with and without stacks, to a deque of rows: after pushes of all sizes, after
// clearing, and after saving and loading.
TEST(RowStore, RandomOperationsAgreeWithADeque) {
  for (const bool stacks : {false, true}) {
    const int obs_fields = TestStreams::ObsSpec(stacks)->size();
    for (const int64_t capacity : {1, 5, 40, 300}) {
      SCOPED_TRACE(absl::StrCat("capacity ", capacity, stacks ? ", stacks" : ""));
      auto store = RowStore::Create(TestStreams::RowSpec(stacks), obs_fields, {capacity}).value();
      std::deque<ModelRow> model;
      TestStreams streams(0, stacks);
      Rng rng(static_cast<uint64_t>(capacity), "row_store_test");
      for (int step = 0; step < 150; ++step) {
        const auto action = rng.UniformInt(20);
        if (action == 0) {
          store->Clear();
          model.clear();
        } else if (action == 1) {
          StateDict state;
          ASSERT_THAT(store->Snapshot()(&state), IsOk());
          DING_ASSERT_OK_AND_ASSIGN(store, RowStore::Load(&state, {capacity}));
        } else {
          const SegmentBatch push = RandomPush(&streams, &rng, action < 5 ? 60 : 6);
          ASSERT_THAT(store->Append(push), IsOk());
          AddTo(&model, push);
          while (static_cast<int64_t>(model.size()) > capacity) model.pop_front();
        }
        ASSERT_NO_FATAL_FAILURE(ExpectSame(*store, model)) << "after step " << step;
      }
    }
  }
}

TensorMap Written(const StateSnapshot& snapshot) {
  StateDict state;
  EXPECT_THAT(snapshot(&state), IsOk());
  return state.tensors();
}

TEST(RowStoreState, HeaderHasSpecAndRowsOfTheStore) {
  const auto store = RowStore::Create(TestStreams::RowSpec(), 2, {4}).value();
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 6}})), IsOk());
  StateDict state(Written(store->Snapshot()), "test");
  DING_ASSERT_OK_AND_ASSIGN(const SavedRowsHeader header, ReadSavedRowsHeader(&state));
  EXPECT_EQ(*header.spec, *TestStreams::RowSpec());
  EXPECT_EQ(header.obs_fields, 2);
  EXPECT_EQ(header.rows, 4);
  EXPECT_EQ(header.begin_id, 2);
  EXPECT_THAT(RowStore::Load(&state, RowCapacity{3}),
              IsInvalid("saved number of rows is 4, expected 0 to 3"));
}

// Each of these values would lead a later eviction or draw to a place that holds nothing.
TEST(RowStoreState, RefusesInconsistentLinks) {
  const auto store = RowStore::Create(TestStreams::RowSpec(true), 4, {64}).value();
  TestStreams streams(0, true);
  for (int i = 0; i < 3; ++i) ASSERT_THAT(store->Append(streams.Make({{0, 2}, {1, 2}})), IsOk());
  const auto load = [&store](const std::string& name, size_t index, int64_t value) {
    StateDict saved;
    EXPECT_THAT(store->Snapshot()(&saved), IsOk());
    TensorMap damaged;
    for (const auto& [key, tensor] : saved.tensors()) damaged.Set(key, tensor.Clone());
    Tensor* const victim = damaged.FindMutable(name);
    // Little endian: an int32 is the first half of the int64.
    const auto bytes = static_cast<size_t>(SizeOf(victim->dtype()));
    std::memcpy(victim->raw_data() + index * bytes, &value, bytes);
    StateDict state(damaged, "test");
    return RowStore::Load(&state, {64}).status();
  };
  // Rows 0 1 | 2 3 | 4 5 | ...: row 4 follows row 1 of stream 0.
  EXPECT_THAT(load("previous", 4, 3), IsOk());
  for (const int64_t wrong : {0, 1, 2, 4, 5, -1, -2, -100}) {
    EXPECT_THAT(load("previous", 4, wrong),
                IsInvalid(absl::StrCat("saved previous ", wrong, " of row 4")));
  }
  EXPECT_THAT(load("previous", 0, -2), IsInvalid());
  EXPECT_THAT(load("open_tails", 1, 11), IsOk());
  EXPECT_THAT(load("open_tails", 1, 9), IsInvalid("saved row 9 cannot be the newest of stream 1"));
}

// Links to other rows are shared with the store; all other links are copies of that moment.
TEST(RowStoreState, SnapshotDoesNotSeeLaterPushes) {
  // The store has blocks of 512 rows.
  const auto store = RowStore::Create(TestStreams::RowSpec(), 2, {4096}).value();
  TestStreams streams;
  ASSERT_THAT(store->Append(streams.Make({{0, 700}, {1, 300, SegmentEnd::kTerminated}, {2, 600}})),
              IsOk());
  for (int i = 0; i < 300; ++i) {  // In these blocks every other row ends an episode.
    ASSERT_THAT(store->Append(streams.Make({{3, 2, SegmentEnd::kTruncated}})), IsOk());
  }
  const StateSnapshot snapshot = store->Snapshot();
  const TensorMap at_the_moment = Written(snapshot);
  ASSERT_THAT(store->Append(streams.Make({{0, 10}, {1, 10}, {2, 10}, {3, 10}})), IsOk());
  EXPECT_TRUE(SameBytes(Written(snapshot), at_the_moment));
  EXPECT_FALSE(SameBytes(Written(store->Snapshot()), at_the_moment));

  StateDict state(at_the_moment, "test");
  DING_ASSERT_OK_AND_ASSIGN(const auto loaded, RowStore::Load(&state, RowCapacity{4096}));
  EXPECT_TRUE(SameBytes(Written(loaded->Snapshot()), at_the_moment));
  EXPECT_EQ(loaded->Next(699).end, SegmentEnd::kCut);
  EXPECT_EQ(loaded->Next(699).id, -1);
  EXPECT_EQ(store->Next(699).id, 2200);
  EXPECT_EQ(loaded->Next(999).end, SegmentEnd::kTerminated);
  EXPECT_EQ(loaded->Next(1601).end, SegmentEnd::kTruncated);
  EXPECT_EQ(loaded->Next(1602).id, 1603);
  // The stream goes on where the saved one stopped.
  EXPECT_EQ(loaded->open_streams(), 2);
}

constexpr int64_t kBlockBytes = 256;
constexpr int64_t kSideBlockBytes = 512;
constexpr int kSlotShift = 2;  // Four slots per side block.

RowLayout SmallLayout() {
  RowLayout layout;
  layout.block_bytes = kBlockBytes;
  layout.side_block_bytes = kSideBlockBytes;
  layout.slot_shift = kSlotShift;
  layout.slot_bytes = kSideBlockBytes >> kSlotShift;
  return layout;
}

int32_t NewSlot(RowMemory* memory) {
  EXPECT_THAT(memory->ReserveSlots(1), IsOk());
  return memory->TakeSlot();
}

TEST(RowMemory, ReserveAllocatesOnlyWhatIsMissing) {
  RowMemory memory(SmallLayout(), /*files=*/nullptr);
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
  RowMemory memory(SmallLayout(), /*files=*/nullptr);
  ASSERT_THAT(memory.TakeFirstSlots(6), IsOk());
  std::vector<const std::byte*> places;
  for (int32_t slot = 0; slot < 6; ++slot) places.push_back(memory.LocateSlot(slot).at);
  for (size_t slot = 0; slot < 6; ++slot) {
    for (size_t other = 0; other < slot; ++other) {
      EXPECT_GE(std::abs(places[slot] - places[other]), kSideBlockBytes / 4) << slot;
    }
  }
  std::set<int32_t> others;
  for (int i = 0; i < 6; ++i) others.insert(NewSlot(&memory));
  EXPECT_EQ(others.size(), 6);
  EXPECT_EQ(*others.begin(), 6);
}

TEST(RowMemory, PinnedBlockIsNotReused) {
  RowMemory memory(SmallLayout(), /*files=*/nullptr);
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
  RowMemory memory(SmallLayout(), /*files=*/nullptr);
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
