#include "ding_worker/learner/comm/item_loader.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Fails as told, and counts.
class FakeStore : public MemStore {
 public:
  absl::Status Get(absl::string_view key, std::string* value) override {
    ++gets;
    if (on_get != nullptr) {
      const absl::Status status = on_get(key);
      if (!status.ok()) return status;
    }
    return MemStore::Get(key, value);
  }

  std::atomic<int> gets{0};
  std::function<absl::Status(absl::string_view key)> on_get;
};

class ItemLoaderTest : public testing::Test {
 protected:
  ItemLoaderTest() {
    options_.sleep = [this](absl::Duration pause) { slept_.push_back(pause); };
  }
  void Put(int64_t chunk, const SegmentBatch& data) {
    ASSERT_THAT(store_.Put(ChunkKey(chunk), EncodedSegments(data).pieces()), IsOk());
  }
  std::unique_ptr<ItemLoader> Loader() { return ItemLoader::Create(&store_, options_).value(); }

  FakeStore store_;
  ItemLoaderOptions options_;
  std::vector<absl::Duration> slept_;
};

// Items of one row as a buffer draws them: replay_unique_id counts from 100.
Batch Drawn(const std::vector<Item>& items, std::vector<FieldSpec> more = {}) {
  std::vector<FieldSpec> fields = {Scalar("chunk", DType::kInt64), Scalar("row", DType::kInt64),
                                   Scalar("length", DType::kInt64),
                                   Scalar(kColumnReplayUniqueId, DType::kInt64)};
  fields.insert(fields.end(), more.begin(), more.end());
  const auto count = static_cast<int64_t>(items.size());
  BatchBuilder builder = BatchBuilder::Create(MakeSpec(fields).value(), count).value();
  for (size_t i = 0; i < items.size(); ++i) {
    builder.column<int64_t>(0)[i] = items[i].chunk;
    builder.column<int64_t>(1)[i] = items[i].row;
    builder.column<int64_t>(2)[i] = items[i].length;
    builder.column<int64_t>(3)[i] = 100 + static_cast<int64_t>(i);
    for (size_t field = 0; field < more.size(); ++field) {
      builder.column<float>(static_cast<int>(4 + field))[i] = 0.5f * static_cast<float>(i);
    }
  }
  return std::move(builder).Seal(count);
}

// Row t of the chunk: obs 10 + t, reward t + 1. Final observations: 100, 101, 102.
SegmentBatch HandMade() {
  const SpecPtr rows =
      MakeSpec({Box("obs", {}), Discrete("action", 9), Scalar("reward", DType::kFloat32)}).value();
  BatchBuilder builder = BatchBuilder::Create(rows, 6).value();
  for (int t = 0; t < 6; ++t) {
    builder.column<float>(0)[t] = static_cast<float>(10 + t);
    builder.column<int64_t>(1)[t] = t;
    builder.column<float>(2)[t] = static_cast<float>(t + 1);
  }
  BatchBuilder obs = BatchBuilder::Create(MakeSpec({Box("obs", {})}).value(), 3).value();
  for (int i = 0; i < 3; ++i) obs.column<float>(0)[i] = static_cast<float>(100 + i);
  SegmentBatch data;
  data.rows = std::move(builder).Seal(6);
  data.final_obs = std::move(obs).Seal(3);
  data.segments = {{0, 0, 0, 3, SegmentEnd::kCut},
                   {1, 0, 3, 2, SegmentEnd::kTerminated},
                   {2, 0, 5, 1, SegmentEnd::kTruncated}};
  return data;
}

TEST_F(ItemLoaderTest, WindowsOfRewardComponentsAreThoseOfEach) {
  SegmentBatch data = HandMade();
  BatchBuilder rows =
      BatchBuilder::Create(
          MakeSpec({Box("obs", {}), Discrete("action", 9), Box("reward", {2})}).value(), 6)
          .value();
  for (int t = 0; t < 6; ++t) {
    rows.column<float>(0)[t] = static_cast<float>(10 + t);
    rows.column<int64_t>(1)[t] = t;
    rows.column<float>(2)[2 * t] = static_cast<float>(t + 1);
    rows.column<float>(2)[2 * t + 1] = static_cast<float>(-10 * (t + 1));
  }
  data.rows = std::move(rows).Seal(6);
  Put(7, data);
  options_.nstep = 2;
  options_.gamma = 0.5;
  const auto loader = Loader();
  DING_ASSERT_OK_AND_ASSIGN(
      const LoadedItems loaded,
      loader->Load(Drawn({{7, 5, 1}, {7, 0, 1}, {7, 1, 1}, {7, 2, 1}, {7, 3, 1}, {7, 4, 1}})));
  EXPECT_THAT(loaded.why_missing, IsOk());
  EXPECT_THAT(loaded.batch.column<float>("reward"),
              ElementsAre(6, -60, 2, -20, 3.5, -35, 3, -30, 6.5, -65, 5, -50));
  EXPECT_THAT(loaded.batch.column<float>("next_obs"), ElementsAre(102, 12, 100, 100, 101, 101));
  EXPECT_THAT(loaded.batch.column<float>("discount"), ElementsAre(0.5, 0.25, 0.25, 0.5, 0, 0));
}

TEST_F(ItemLoaderTest, WindowsEndWithTheirSegments) {
  Put(7, HandMade());
  options_.nstep = 2;
  options_.gamma = 0.5;
  const auto loader = Loader();
  DING_ASSERT_OK_AND_ASSIGN(
      const LoadedItems loaded,
      loader->Load(Drawn({{7, 5, 1}, {7, 0, 1}, {7, 1, 1}, {7, 2, 1}, {7, 3, 1}, {7, 4, 1}})));
  EXPECT_EQ(loaded.missing, 0);
  EXPECT_THAT(loaded.why_missing, IsOk());
  const Batch& batch = loaded.batch;
  EXPECT_THAT(batch.column<float>("obs"), ElementsAre(15, 10, 11, 12, 13, 14));
  EXPECT_THAT(batch.column<int64_t>("action"), ElementsAre(5, 0, 1, 2, 3, 4));
  EXPECT_THAT(batch.column<float>("reward"), ElementsAre(6, 2, 3.5, 3, 6.5, 5));
  EXPECT_THAT(batch.column<float>("next_obs"), ElementsAre(102, 12, 100, 100, 101, 101));
  EXPECT_THAT(batch.column<float>("discount"), ElementsAre(0.5, 0.25, 0.25, 0.5, 0, 0));
  EXPECT_THAT(batch.column<int32_t>("n_step"), ElementsAre(1, 2, 2, 1, 2, 1));
  EXPECT_THAT(batch.column<int64_t>(kColumnReplayUniqueId),
              ElementsAre(100, 101, 102, 103, 104, 105));
}

// Every column of each row, by replay_unique_id.
std::map<int64_t, std::vector<std::string>> RowsById(const Batch& batch) {
  std::map<int64_t, std::vector<std::string>> rows;
  const absl::Span<const int64_t> ids = batch.column<int64_t>(kColumnReplayUniqueId);
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<std::string>& columns = rows[ids[i]];
    for (int field = 0; field < batch.spec().size(); ++field) {
      const auto bytes = static_cast<size_t>(batch.spec().row_bytes(field));
      const auto* const column = reinterpret_cast<const char*>(batch.view().raw_column(field));
      columns.emplace_back(column + i * bytes, bytes);
    }
  }
  return rows;
}

SegmentBatch ItemsOfRows(int64_t chunk, int64_t rows) {
  std::vector<Item> items;
  for (int64_t row = 0; row < rows; ++row) items.push_back({chunk, row, 1});
  const Batch all = Drawn(items);
  const SpecPtr spec =
      MakeSpec({all.spec().field(0), all.spec().field(1), all.spec().field(2)}).value();
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  CopyRows(all.view().Fields(spec.get(), 0), builder.view(), 0);
  return MakeItems(std::move(builder).Seal(rows)).value();
}

// The same data in a buffer of rows, and in a store with a buffer of items.
class SameAsBufferTest : public ItemLoaderTest, public testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(NStep, SameAsBufferTest, testing::Values(1, 3));

TEST_P(SameAsBufferTest, ReturnsTheTransitionsOfABufferOfRows) {
  constexpr int64_t kChunks = 20;
  for (const bool stacks : {false, true}) {
    NaiveReplayBuffer::Options options;
    const auto items = NaiveReplayBuffer::Create(options).value();
    options.nstep = GetParam();
    options.gamma = 0.9;
    const auto rows = NaiveReplayBuffer::Create(options).value();
    options_.nstep = GetParam();
    options_.gamma = 0.9;
    TestStreams streams(0, stacks);
    Rng rng(3, "item_loader_test");
    // No segment goes on in another, where the buffer's windows would go on, too.
    int64_t stream = 0;
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      std::vector<SegmentPlan> plan;
      for (uint64_t i = 0; i <= rng.UniformInt(4); ++i) {
        plan.push_back({stream++, 1 + static_cast<int64_t>(rng.UniformInt(9)),
                        static_cast<SegmentEnd>(rng.UniformInt(3))});
      }
      const SegmentBatch data = streams.Make(plan);
      ASSERT_THAT(rows->Push(data, 0), IsOk());
      ASSERT_THAT(items->Push(ItemsOfRows(chunk, data.size()), 0), IsOk());
      Put(chunk, data);
    }
    const int64_t count = rows->count();
    ASSERT_GT(count, 100);
    const auto loader = Loader();
    DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, items->Sample(count, 0));
    DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, loader->Load(drawn));
    DING_ASSERT_OK_AND_ASSIGN(const Batch expected, rows->Sample(count, 0));
    EXPECT_EQ(loaded.batch.spec(), expected.spec()) << loaded.batch.spec().DebugString();
    EXPECT_EQ(RowsById(loaded.batch), RowsById(expected));
    EXPECT_EQ(store_.gets, kChunks * (stacks ? 2 : 1));
  }
}

TEST_F(ItemLoaderTest, HasTheColumnsOfAPrioritizedBufferInItsOrder) {
  TestStreams streams;
  const SegmentBatch data = streams.Make({{0, 4, SegmentEnd::kCut}});
  Put(1, data);
  AdvancedReplayBuffer::Options options;
  const auto rows = AdvancedReplayBuffer::Create(options).value();
  const auto items = AdvancedReplayBuffer::Create(options).value();
  ASSERT_THAT(rows->Push(data, 0), IsOk());
  ASSERT_THAT(items->Push(ItemsOfRows(1, 4), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, items->Sample(4, 0));
  const auto loader = Loader();
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, loader->Load(drawn));
  DING_ASSERT_OK_AND_ASSIGN(const Batch expected, rows->Sample(4, 0));
  EXPECT_EQ(loaded.batch.spec(), expected.spec()) << loaded.batch.spec().DebugString();
  EXPECT_THAT(loaded.batch.column<float>(kColumnWeight),
              testing::ElementsAreArray(drawn.column<float>(kColumnWeight)));
}

TEST_F(ItemLoaderTest, ColumnsOfItemsStandInThePlaceOfThoseOfRows) {
  Put(7, HandMade());
  const auto loader = Loader();
  DING_ASSERT_OK_AND_ASSIGN(
      const LoadedItems loaded,
      loader->Load(Drawn({{7, 0, 1}, {7, 1, 1}, {7, 2, 1}},
                         {Scalar("weight", DType::kFloat32), Scalar("x", DType::kFloat32)})));
  std::vector<std::string> names;
  for (const FieldSpec& field : loaded.batch.spec().fields()) names.push_back(field.name);
  EXPECT_THAT(names, ElementsAre("obs", "action", "reward", "next_obs", "discount", "n_step",
                                 kColumnReplayUniqueId, "weight", "x"));
  EXPECT_THAT(loaded.batch.column<float>("weight"), ElementsAre(0, 0.5, 1));

  TestStreams streams;
  Put(8, streams.Make({{0, 3, SegmentEnd::kCut}}));
  NaiveReplayBuffer::Options options;
  const auto items = NaiveReplayBuffer::Create(options).value();
  ASSERT_THAT(items->Push(TestItems({{8, 0, 1}, {8, 2, 1}}, /*collect_iter=*/55), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, items->Sample(2, 0));
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems replaced, Loader()->Load(drawn));
  EXPECT_THAT(replaced.batch.column<int64_t>(kColumnCollectIter), ElementsAre(55, 55));
  EXPECT_LT(*replaced.batch.spec().Find(kColumnCollectIter),
            *replaced.batch.spec().Find(kColumnDiscount));
}

TEST_F(ItemLoaderTest, ItemsWhoseChunkIsDeletedOrDamagedAreLeftOutAndCounted) {
  Put(1, HandMade());
  std::string bytes = EncodedSegments(HandMade()).ToString();
  bytes.pop_back();
  ASSERT_THAT(store_.Put(ChunkKey(2), {bytes}), IsOk());
  const auto loader = Loader();
  const Batch items = Drawn({{3, 0, 1}, {1, 4, 1}, {2, 0, 1}, {3, 99, 1}, {-1, 0, 1}, {1, 2, 1}},
                            {Scalar("weight", DType::kFloat32)});
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, loader->Load(items));
  EXPECT_EQ(loaded.missing, 4);
  EXPECT_THAT(loaded.why_missing, IsNotFound("data/0/3"));
  EXPECT_THAT(loaded.batch.column<int64_t>(kColumnReplayUniqueId), ElementsAre(101, 105));
  EXPECT_THAT(loaded.batch.column<float>("weight"), ElementsAre(0.5, 2.5));
  EXPECT_THAT(loaded.batch.column<float>("obs"), ElementsAre(14, 12));
  EXPECT_EQ(store_.gets, 4) << "one for each chunk";
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems damaged, loader->Load(items.Slice(2, 1)));
  EXPECT_THAT(damaged.why_missing, IsDataLoss("data/0/2"));
}

TEST_F(ItemLoaderTest, OnChunk_IsCalledForEachUsableChunkThatIsRead) {
  Put(1, HandMade());
  ASSERT_THAT(store_.Put(ChunkKey(2), {"damaged"}), IsOk());
  std::vector<int64_t> chunks;
  options_.on_chunk = [&](int64_t chunk, absl::string_view bytes) {
    EXPECT_EQ(bytes, EncodedSegments(HandMade()).ToString());
    chunks.push_back(chunk);
  };
  const auto loader = Loader();
  const Batch items = Drawn({{2, 0, 1}, {1, 0, 1}, {3, 0, 1}, {1, 4, 1}});
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, loader->Load(items));
  EXPECT_THAT(loaded.found, ElementsAre(1, 3));
  EXPECT_THAT(loader->Load(items), IsOk());
  EXPECT_THAT(chunks, ElementsAre(1)) << "the second time it is in the cache";
}

TEST_F(ItemLoaderTest, AllItemsMayBeMissing) {
  const auto loader = Loader();
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, loader->Load(Drawn({{3, 0, 1}})));
  EXPECT_EQ(loaded.missing, 1);
  EXPECT_EQ(loaded.batch.rows(), 0);
  Put(3, HandMade());
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems later, loader->Load(Drawn({{3, 0, 1}})));
  EXPECT_EQ(later.missing, 0) << "it is asked for again";
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems none, loader->Load(Drawn({})));
  EXPECT_EQ(none.missing + none.batch.rows(), 0);
}

TEST_F(ItemLoaderTest, AStoreThatIsUnavailableIsAskedAgainAFewTimes) {
  Put(1, HandMade());
  Put(2, HandMade());
  options_.attempts = 3;
  options_.pause = absl::Milliseconds(7);
  int failures = 2;
  store_.on_get = [&failures](absl::string_view) {
    return failures-- > 0 ? absl::UnavailableError("away") : absl::OkStatus();
  };
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems back, Loader()->Load(Drawn({{1, 0, 1}})));
  EXPECT_EQ(back.missing, 0);
  EXPECT_THAT(slept_, ElementsAre(absl::Milliseconds(7), absl::Milliseconds(7)));

  slept_.clear();
  store_.gets = 0;
  failures = 1000;
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems away,
                            Loader()->Load(Drawn({{1, 0, 1}, {2, 0, 1}, {1, 1, 1}})));
  EXPECT_EQ(away.missing, 3);
  EXPECT_THAT(away.why_missing, IsUnavailable("away"));
  EXPECT_EQ(slept_.size(), 2u) << "the pauses of a batch are bounded, not of each chunk";
  EXPECT_EQ(store_.gets, 3) << "then the store is gone, for the other chunks, too";

  slept_.clear();
  store_.on_get = [](absl::string_view) { return absl::DataLossError("broken"); };
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems broken, Loader()->Load(Drawn({{1, 0, 1}})));
  EXPECT_EQ(broken.missing, 1);
  EXPECT_TRUE(slept_.empty()) << "it does not get better by waiting";
}

TEST_F(ItemLoaderTest, OtherErrorsOfTheStoreAreErrors) {
  store_.on_get = [](absl::string_view) { return absl::ResourceExhaustedError("memory"); };
  EXPECT_THAT(Loader()->Load(Drawn({{1, 0, 1}})), IsResourceExhausted("memory"));
}

// Announcements and chunks of collectors are not trusted: bad chunks are left out and named.
TEST_F(ItemLoaderTest, ChunksThatCannotBeLearnedFromAreLeftOutByName) {
  const auto with = [](float obs, int64_t action, float reward, float final_obs) {
    SegmentBatch data = HandMade();
    BatchBuilder rows = BatchBuilder::Create(data.rows.spec_ptr(), 6).value();
    CopyRows(data.rows.view(), rows.view(), 0);
    rows.column<float>(0)[2] = obs;
    rows.column<int64_t>(1)[2] = action;
    rows.column<float>(2)[2] = reward;
    data.rows = std::move(rows).Seal(6);
    BatchBuilder finals = BatchBuilder::Create(data.final_obs.spec_ptr(), 3).value();
    CopyRows(data.final_obs.view(), finals.view(), 0);
    finals.column<float>(0)[1] = final_obs;
    data.final_obs = std::move(finals).Seal(3);
    return data;
  };
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  options_.rows = HandMade().rows.spec_ptr();
  options_.final_obs = HandMade().final_obs.spec_ptr();
  TestStreams streams;
  Put(1, streams.Make({{0, 3, SegmentEnd::kCut}}));  // the first, and of another layout
  Put(2, with(kNaN, 0, 0, 0));
  Put(3, with(0, 9, 0, 0));
  Put(4, with(0, -1, 0, 0));
  Put(5, with(0, 0, kInf, 0));
  Put(6, with(0, 0, 0, kNaN));
  Put(7, with(0, 0, 0, 0));
  Put(8, HandMade());
  ASSERT_THAT(store_.Put(ChunkKey(9), {"another program's file"}), IsOk());
  const auto loader = Loader();
  const Batch items = Drawn({{1, 0, 1},
                             {2, 0, 1},
                             {3, 0, 1},
                             {4, 0, 1},
                             {5, 0, 1},
                             {6, 0, 1},
                             {7, 0, 1},
                             {8, 6, 1},
                             {8, INT64_MAX, 1},
                             {9, 0, 1},
                             {10, 0, 1}});
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, loader->Load(items));
  EXPECT_EQ(loaded.batch.rows(), 1) << "of chunk 7";
  EXPECT_EQ(loaded.missing, 10);
  ASSERT_EQ(loaded.unusable.size(), 9u) << "chunk 8 once";
  // Those that could not be read come first.
  const std::vector<std::pair<int64_t, std::string>> expected = {
      {1, "field"},           {2, "column 'obs', row 2 holds nan"},
      {3, "holds 9"},         {4, "holds -1"},
      {5, "holds inf"},       {6, "column 'obs', row 1 holds nan"},
      {9, "data/0/9"},        {10, "data/0/a"},
      {8, "row 6 of chunk 8"}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(loaded.unusable[i].chunk, expected[i].first);
    EXPECT_THAT(loaded.unusable[i].why.message(), HasSubstr(expected[i].second));
    EXPECT_EQ(absl::IsNotFound(loaded.unusable[i].why), expected[i].first == 10);
  }
}

TEST_F(ItemLoaderTest, SaysWhichReadIsUnderWay) {
  Put(1, HandMade());
  const auto loader = Loader();
  std::optional<PendingRead> seen;
  store_.on_get = [&](absl::string_view) {
    seen = loader->pending_read();
    return absl::OkStatus();
  };
  EXPECT_FALSE(loader->pending_read().has_value());
  EXPECT_THAT(loader->Load(Drawn({{1, 0, 1}})), IsOk());
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->chunk, 1);
  EXPECT_FALSE(loader->pending_read().has_value());
}

TEST_F(ItemLoaderTest, InvalidItemsAndMissingColumnsAreRefusedByName) {
  Put(1, HandMade());
  const auto loader = Loader();
  for (const Item& bad : {Item{1, -1, 1}, Item{1, 0, 0}, Item{1, 0, 2}, Item{1, 0, -7}}) {
    EXPECT_THAT(loader->Load(Drawn({{1, 0, 1}, bad})), IsInvalid("item 1 of 2"));
  }
  EXPECT_THAT(loader->Load(HandMade().rows), IsInvalid("'chunk'"));
  EXPECT_THAT(loader->Load(ItemsOfRows(1, 1).rows), IsInvalid("'replay_unique_id'"));
  EXPECT_THAT(loader->Load(Drawn({{1, 0, 1}, {1, 1, 1}}).AsSequences(2)),
              IsInvalid("items are drawn as sequences of 2, expected single items"));
  EXPECT_THAT(loader->Load(Drawn({{1, 0, 1}})), IsOk());
}

TEST_F(ItemLoaderTest, TheFirstChunkAndTheFirstItemsFixTheLayout) {
  Put(1, HandMade());
  TestStreams streams;
  Put(2, streams.Make({{0, 3, SegmentEnd::kCut}}));
  Put(3, ItemsOfRows(1, 2));
  Put(4, SegmentBatch());
  const auto loader = Loader();
  const auto left_out = [](ItemLoader* loads, const std::vector<Item>& items,
                           const std::string& says) {
    const absl::StatusOr<LoadedItems> loaded = loads->Load(Drawn(items));
    ASSERT_THAT(loaded, IsOk());
    EXPECT_EQ(loaded->missing, 1);
    EXPECT_THAT(loaded->why_missing, IsInvalid(says));
  };
  left_out(loader.get(), {{3, 0, 1}}, "data/0/3");  // rows without an observation
  left_out(loader.get(), {{4, 0, 1}}, "0 rows");
  // Both are read before there is a layout.
  left_out(Loader().get(), {{1, 0, 1}, {2, 0, 1}}, "obs");
  ASSERT_THAT(loader->Load(Drawn({{1, 0, 1}})), IsOk());
  left_out(loader.get(), {{2, 0, 1}}, "data/0/2");
  EXPECT_THAT(loader->Load(Drawn({{1, 0, 1}}, {Scalar("weight", DType::kFloat32)})),
              IsInvalid("items"));
  EXPECT_THAT(Loader()->Load(Drawn({{1, 0, 1}}, {Scalar("discount", DType::kFloat32)})),
              IsInvalid("discount"));
}

TEST_F(ItemLoaderTest, KeepsTheChunksThatWereUsedLast) {
  for (int64_t chunk = 1; chunk <= 3; ++chunk) Put(chunk, HandMade());
  Loader()->Load(Drawn({{1, 0, 1}})).value();
  const auto first = Loader();
  first->Load(Drawn({{1, 0, 1}})).value();
  options_.cache_bytes = 2 * first->cached_bytes();
  const auto loader = Loader();
  store_.gets = 0;
  const auto gets_of = [&](int64_t chunk) {
    const int before = store_.gets;
    EXPECT_THAT(loader->Load(Drawn({{chunk, 0, 1}})), IsOk());
    return store_.gets - before;
  };
  EXPECT_EQ(gets_of(1), 1);
  EXPECT_EQ(gets_of(2), 1);
  EXPECT_EQ(gets_of(1), 0);
  EXPECT_EQ(gets_of(3), 1);
  EXPECT_EQ(gets_of(1), 0) << "used after 2";
  EXPECT_EQ(gets_of(2), 1);
  EXPECT_LE(loader->cached_bytes(), options_.cache_bytes);
  // A batch may need more chunks than are kept.
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems all,
                            loader->Load(Drawn({{1, 0, 1}, {2, 1, 1}, {3, 2, 1}})));
  EXPECT_THAT(all.batch.column<float>("obs"), ElementsAre(10, 11, 12));
}

TEST_F(ItemLoaderTest, SeveralThreadsMayLoad) {
  constexpr int64_t kChunks = 8;
  TestStreams streams;
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    Put(chunk, streams.Make({{chunk, 10, SegmentEnd::kTerminated}}));
  }
  const auto probe = Loader();
  probe->Load(Drawn({{0, 0, 1}})).value();
  options_.cache_bytes = 3 * probe->cached_bytes();
  options_.sleep = absl::SleepFor;
  const auto loader = Loader();
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&loader, seed] {
      Rng rng(seed, "threads");
      for (int round = 0; round < 100; ++round) {
        std::vector<Item> items;
        for (int i = 0; i < 6; ++i) {
          items.push_back({static_cast<int64_t>(rng.UniformInt(kChunks)),
                           static_cast<int64_t>(rng.UniformInt(10)), 1});
        }
        const LoadedItems loaded = loader->Load(Drawn(items)).value();
        ASSERT_EQ(loaded.missing, 0);
        EXPECT_THAT(CheckRows(loaded.batch), IsOk());
        for (size_t i = 0; i < items.size(); ++i) {
          EXPECT_EQ(loaded.batch.column<float>("obs/place")[4 * i],
                    static_cast<float>(items[i].chunk));
          EXPECT_EQ(loaded.batch.column<float>("obs/place")[4 * i + 1],
                    static_cast<float>(items[i].row));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Samples that the collector has padded, as those of on-policy policies.
TEST_F(ItemLoaderTest, AMaskOfTheRowsStays) {
  const SpecPtr spec = MakeSpec({Box("obs", {}), Discrete("action", 9),
                                 Scalar("reward", DType::kFloat32), Scalar("mask", DType::kBool)})
                           .value();
  const SegmentBatch unmasked = HandMade();
  SegmentBatch data = unmasked;
  BatchBuilder rows = BatchBuilder::Create(spec, unmasked.size()).value();
  CopyRows(unmasked.rows.view(), rows.view().Fields(unmasked.rows.spec_ptr().get(), 0), 0);
  for (int64_t t = 0; t < unmasked.size(); ++t) rows.column<uint8_t>(3)[t] = t != 1;
  data.rows = std::move(rows).Seal(unmasked.size());
  Put(7, data);
  options_.sequences.length = 2;
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, Loader()->Load(Drawn({{7, 0, 2}})));
  EXPECT_EQ(loaded.batch.sequence_length(), 2);
  EXPECT_THAT(loaded.batch.column<uint8_t>("mask"), ElementsAre(1, 0));
}

TEST_F(ItemLoaderTest, LoadsSequencesWithPaddingAndBurnIn) {
  Put(7, HandMade());
  options_.gamma = 0.5;
  options_.sequences.length = 3;
  options_.sequences.burn_in = 1;
  options_.sequences.padding = true;
  const auto loader = Loader();
  const std::vector<Item> items = {{7, 5, 1}, {7, 0, 3}, {8, 0, 3}, {7, 3, 2}, {7, 1, 2}};
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded,
                            loader->Load(Drawn(items, {Scalar(kColumnWeight, DType::kFloat32)})));
  EXPECT_EQ(loaded.missing, 1) << "there is no chunk 8";
  const Batch& batch = loaded.batch;
  ASSERT_EQ(batch.rows(), 12);
  EXPECT_EQ(batch.sequence_length(), 3);
  EXPECT_THAT(batch.column<float>("obs"),
              ElementsAre(15, 15, 15, 10, 11, 12, 13, 14, 14, 11, 12, 12));
  EXPECT_THAT(batch.column<int64_t>("action"), ElementsAre(5, 5, 5, 0, 1, 2, 3, 4, 4, 1, 2, 2));
  EXPECT_THAT(batch.column<float>("reward"), ElementsAre(6, 6, 6, 1, 2, 3, 4, 5, 5, 2, 3, 3));
  EXPECT_THAT(batch.column<float>("next_obs"),
              ElementsAre(102, 102, 102, 11, 12, 100, 14, 101, 101, 12, 100, 100));
  EXPECT_THAT(batch.column<float>(kColumnDiscount),
              ElementsAre(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0.5, 0.5, 0.5));
  EXPECT_THAT(batch.column<int32_t>(kColumnNStep), Each(1));
  EXPECT_THAT(batch.column<uint8_t>(kColumnMask), ElementsAre(1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 0));
  EXPECT_THAT(batch.column<uint8_t>(kColumnBurnIn),
              ElementsAre(1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0));
  EXPECT_THAT(batch.column<float>(kColumnWeight),
              ElementsAre(0, 0, 0, 0.5, 0.5, 0.5, 1.5, 1.5, 1.5, 2, 2, 2));
  EXPECT_THAT(batch.column<int64_t>(kColumnReplayUniqueId),
              ElementsAre(100, 100, 100, 101, 101, 101, 103, 103, 103, 104, 104, 104));
}

TEST_F(ItemLoaderTest, SequencesThatLeaveTheirSegmentAreLeftOut) {
  Put(7, HandMade());
  options_.sequences.length = 2;
  const auto loader = Loader();
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded,
                            loader->Load(Drawn({{7, 2, 2}, {7, 3, 2}, {7, 5, 2}})));
  EXPECT_EQ(loaded.missing, 2);
  ASSERT_EQ(loaded.unusable.size(), 1u);
  EXPECT_THAT(loaded.unusable[0].why, IsInvalid("item 0 is 2 rows from row 2 on of chunk 7 ('"));
  EXPECT_THAT(loaded.batch.column<float>("obs"), ElementsAre(13, 14));
  EXPECT_THAT(loader->Load(Drawn({{7, 3, 1}})), IsInvalid("1 rows from row 3 on, expected 2 rows"));
  EXPECT_THAT(loader->Load(Drawn({{7, 0, 3}})), IsInvalid());
}

// A buffer that holds the rows themselves is the model.
TEST_F(ItemLoaderTest, SequencesEqualThoseOfABufferOfRows) {
  const SegmentBatch rows = HandMade();
  Put(7, rows);
  options_.sequences.length = 2;
  options_.sequences.burn_in = 1;
  options_.sequences.padding = true;
  SequenceReplayBuffer::Options buffer_options;
  buffer_options.unroll_len = 2;
  buffer_options.overlap = 0;
  buffer_options.burn_in = 1;
  buffer_options.padding = true;
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, SequenceReplayBuffer::Create(buffer_options));
  SegmentBatch complete = rows;
  complete.segments[0].end = SegmentEnd::kTruncated;  // else the buffer waits for its next rows
  ASSERT_THAT(buffer->Push(complete, 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, buffer->Sample(4, 0));
  std::vector<Item> items;
  for (size_t i = 0; i < 8; i += 2) {
    const auto row = static_cast<int64_t>(drawn.column<float>("obs")[i]) - 10;
    items.push_back({7, row, 1 + drawn.column<uint8_t>(kColumnMask)[i + 1]});
  }
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, Loader()->Load(Drawn(items)));
  ASSERT_EQ(loaded.batch.rows(), 8);
  EXPECT_EQ(loaded.batch.sequence_length(), drawn.sequence_length());
  for (const char* const column : {"obs", "next_obs", "reward", kColumnDiscount}) {
    EXPECT_EQ(loaded.batch.column<float>(column), drawn.column<float>(column)) << column;
  }
  for (const char* const column : {kColumnMask, kColumnBurnIn}) {
    EXPECT_EQ(loaded.batch.column<uint8_t>(column), drawn.column<uint8_t>(column)) << column;
  }
}

TEST_F(ItemLoaderTest, OptionsOutOfRangeAreRefused) {
  options_.sequences.burn_in = 1;
  options_.nstep = 0;
  options_.gamma = 1.5;
  options_.attempts = 0;
  EXPECT_THAT(ItemLoader::Create(&store_, options_),
              IsInvalid("nstep", "gamma", "attempts", "sequences.burn_in"));
}

// Items of any numbers, and chunks of any bytes: rows are loaded, left out, or refused.
TEST_F(ItemLoaderTest, Fuzz_ItemsAndChunks_AreLoadedOrRefused) {
  const std::string good = EncodedSegments(HandMade()).ToString();
  int loaded = 0;
  int missing = 0;
  int refused = 0;
  Fuzz(3000, [&](Mutator* mutator) {
    Rng* const rng = mutator->rng();
    const auto number = [&]() -> int64_t {
      constexpr int64_t kEdges[] = {-1, INT64_MIN, INT64_MAX, int64_t{1} << 32, 6, 0};
      return mutator->Coin() ? static_cast<int64_t>(rng->UniformInt(7))
                             : kEdges[rng->UniformInt(std::size(kEdges))];
    };
    const bool damaged = rng->UniformInt(4) == 0;
    ASSERT_THAT(store_.Put(ChunkKey(1), {damaged ? mutator->Mutate(good) : good}), IsOk());
    std::vector<Item> items;
    for (uint64_t left = 1 + rng->UniformInt(3); left > 0; --left) {
      const bool odd = rng->UniformInt(4) == 0;
      items.push_back(odd ? Item{number(), number(), number()}
                          : Item{1, static_cast<int64_t>(rng->UniformInt(6)), 1});
    }
    const absl::StatusOr<LoadedItems> rows = Loader()->Load(Drawn(items));
    if (!rows.ok()) {
      ++refused;
      EXPECT_THAT(rows.status().code(),
                  AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition))
          << rows.status();
      return;
    }
    EXPECT_EQ(rows->batch.rows() + rows->missing, static_cast<int64_t>(items.size()));
    ++(rows->missing > 0 ? missing : loaded);
  });
  EXPECT_GT(loaded, 0);
  EXPECT_GT(missing, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace ding
