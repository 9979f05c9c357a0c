// Tests that a buffer of type "episode" means the same in a parallel run, from what a collector
// hands over to the batch of the learner, as in a serial run, whose buffer holds the rows
// themselves.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kCapacityRows = 60;
constexpr double kGamma = 0.9;

// The buffers of a serial and of a parallel run with one config, which draw with one random stream.
class EpisodeItemsTest : public testing::TestWithParam<int> {  // nstep
 protected:
  EpisodeItemsTest() {
    config_.set_type("episode");
    config_.set_replay_buffer_size(kCapacityRows);
    BufferDeps deps;
    deps.name = "replay";
    deps.seed = 5;
    rows_ = create_buffer(WithNStep(config_, GetParam()), deps).value();
    deps.on_removed = [this](const RemovedItems& removed) {
      for (const int64_t chunk : removed.chunks) {
        EXPECT_THAT(store_.Delete(ChunkKey(chunk)), IsOk());
      }
    };
    items_ = create_buffer(WithNStep(ItemBufferConfig(config_), 1), deps).value();
    ItemLoaderOptions options;
    options.nstep = GetParam();
    options.gamma = kGamma;
    options.cache_bytes = 0;
    options.sequences = ItemSequencesOf(config_);
    loader_ = ItemLoader::Create(&store_, options).value();
  }

  static BufferConfig WithNStep(BufferConfig config, int nstep) {
    config.set_nstep(nstep);
    config.set_discount_factor(kGamma);
    return config;
  }

  // Hands episodes of these lengths over to both.
  void HandOver(const std::vector<int64_t>& lengths) {
    std::vector<SegmentPlan> plan;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto env = static_cast<int64_t>(i % 3);
      plan.push_back(
          {env, lengths[i], i % 2 == 0 ? SegmentEnd::kTerminated : SegmentEnd::kTruncated});
    }
    const SegmentBatch data = streams_.Make(plan);
    ASSERT_THAT(rows_->Push(data, 0), IsOk());
    const int64_t chunk = ++chunks_;
    ASSERT_THAT(store_.Put(ChunkKey(chunk), EncodedSegments(data).pieces()), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const std::string announced,
                              EncodeItems(data, chunk, ItemSequencesOf(config_)));
    DING_ASSERT_OK_AND_ASSIGN(Batch decoded, DecodeBatch(announced));
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch items, MakeItems(std::move(decoded)));
    ASSERT_THAT(items_->Push(items, 0), IsOk());
  }

  void ExpectSameDraws(int64_t episodes) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch expected, rows_->Sample(episodes, 0));
    DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, items_->Sample(episodes, 0));
    DING_ASSERT_OK_AND_ASSIGN(const LoadedItems loaded, loader_->Load(drawn));
    EXPECT_THAT(loaded.why_missing, IsOk());
    EXPECT_EQ(loaded.batch.sequence_length(), expected.sequence_length());
    ASSERT_EQ(loaded.batch.rows(), expected.rows());
    ASSERT_EQ(loaded.batch.spec(), expected.spec()) << loaded.batch.spec().DebugString();
    for (int field = 0; field < expected.spec().size(); ++field) {
      // It numbers rows there, and items here.
      if (expected.spec().field(field).name == kColumnReplayUniqueId) continue;
      EXPECT_EQ(Bytes(loaded.batch, field), Bytes(expected, field))
          << expected.spec().field(field).name;
    }
  }

  static absl::string_view Bytes(const Batch& batch, int field) {
    return {reinterpret_cast<const char*>(batch.view().raw_column(field)),
            static_cast<size_t>(batch.rows() * batch.spec().row_bytes(field))};
  }

  BufferConfig config_;
  MemStore store_;
  TestStreams streams_;
  int64_t chunks_ = 0;
  std::unique_ptr<IBuffer> rows_;
  std::unique_ptr<IBuffer> items_;
  std::unique_ptr<ItemLoader> loader_;
};

INSTANTIATE_TEST_SUITE_P(NStep, EpisodeItemsTest, testing::Values(1, 3));

TEST_P(EpisodeItemsTest, BatchesAreThoseOfABufferOfRows) {
  Rng rng(3, "episode_items_test");
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    std::vector<int64_t> lengths;
    // Now and then an episode that is longer than the capacity.
    const uint64_t longest = rng.UniformInt(10) == 0 ? 80 : 20;
    for (uint64_t left = 1 + rng.UniformInt(5); left > 0; --left) {
      lengths.push_back(1 + static_cast<int64_t>(rng.UniformInt(longest)));
    }
    HandOver(lengths);
    if (HasFatalFailure()) return;
    EXPECT_EQ(items_->count(), rows_->count());
    if (rows_->count() == 0) continue;
    ExpectSameDraws(1 + static_cast<int64_t>(rng.UniformInt(
                            static_cast<uint64_t>(std::min<int64_t>(4, rows_->count())))));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(store_.List("").value().size(), 0u);
  EXPECT_LE(static_cast<int64_t>(store_.List("").value().size()), items_->count());
}

TEST_P(EpisodeItemsTest, TheLongestEpisodeOfADrawIsItsLength) {
  HandOver({7, 3});
  DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, items_->Sample(2, 0));
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems both, loader_->Load(drawn));
  EXPECT_EQ(both.batch.sequence_length(), 7);
  const size_t shorter = drawn.column<int64_t>(kColumnLength)[0] == 3 ? 0 : 7;
  EXPECT_THAT(both.batch.column<uint8_t>(kColumnMask).subspan(shorter, 7),
              ElementsAre(1, 1, 1, 0, 0, 0, 0));
  DING_ASSERT_OK_AND_ASSIGN(const LoadedItems one,
                            loader_->Load(drawn.Slice(shorter == 0 ? 0 : 1, 1)));
  EXPECT_EQ(one.batch.sequence_length(), 3);
  EXPECT_EQ(one.batch.rows(), 3);
  EXPECT_THAT(one.batch.column<uint8_t>(kColumnMask), ElementsAre(1, 1, 1));
}

// What a collector announces is not trusted.
TEST_P(EpisodeItemsTest, PartsOfEpisodesAreLeftOutByTheLearner) {
  const SegmentBatch data = streams_.Make({{0, 4, SegmentEnd::kTerminated}, {1, 3}});
  ASSERT_THAT(store_.Put(ChunkKey(1), EncodedSegments(data).pieces()), IsOk());
  const auto load = [&](Item item) {
    const SegmentBatch whole = streams_.Make({{2, item.length, SegmentEnd::kTerminated}});
    BufferDeps deps;
    deps.name = "replay";
    const auto buffer = create_buffer(WithNStep(ItemBufferConfig(config_), 1), deps).value();
    const std::string announced = EncodeItems(whole, item.chunk, ItemSequencesOf(config_)).value();
    const Batch decoded = DecodeBatch(announced).value();
    BatchBuilder moved = BatchBuilder::Create(decoded.spec_ptr(), 1).value();
    CopyRows(decoded.view(), moved.view(), 0);
    moved.column<int64_t>(*decoded.spec().Find(kColumnRow))[0] = item.row;
    EXPECT_THAT(buffer->Push(MakeItems(std::move(moved).Seal(1)).value(), 0), IsOk());
    return loader_->Load(buffer->Sample(1, 0).value()).value();
  };
  EXPECT_EQ(load({1, 0, 4}).missing, 0);
  for (const Item item : {Item{1, 0, 3}, Item{1, 1, 3}, Item{1, 4, 3}}) {
    const LoadedItems loaded = load(item);
    EXPECT_EQ(loaded.missing, 1);
    ASSERT_EQ(loaded.unusable.size(), 1u);
    EXPECT_THAT(loaded.unusable[0].why,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a whole episode")))
        << item.row;
  }
  EXPECT_THAT(load({1, 0, 5}).why_missing,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has only 4 from there on")));
}

}  // namespace
}  // namespace ding
